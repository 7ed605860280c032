//! How revisions that others made stand to what is wanted, asked once for a preview.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Cluster, Error};
use crate::controller::likeness::{Likenesses, likenesses};
use osdpl_core::adopt::Comparison;
use osdpl_core::desired::Desired;
use osdpl_core::observed::Observed;

/// What of others' revisions is as it is wanted; each comparison that was made, by release.
pub async fn compare(
    cluster: &Cluster,
    desired: &Desired,
    observed: &mut Observed,
) -> Result<BTreeMap<String, Comparison>, Error> {
    let mut compared = BTreeMap::new();
    let keep = |name: &str, one: Comparison| drop(compared.insert(name.to_owned(), one));
    observed.comparisons =
        likenesses(cluster, (desired, observed), (&Likenesses::new(), &BTreeSet::new()), false, keep).await?;
    Ok(compared)
}
