//! What a file means where no cluster is asked.

use anyhow::bail;

use super::document::Document;
use crate::api::{OpenStackDeployment, ValuesKind};
use crate::catalog::{Catalog, Level};
use crate::desired::{Desired, Facts, Selection, select};
use crate::observed::Site;
use crate::rule;

/// The resource of a file, and what it means with those beside it; credentials and Ceph are made up.
pub struct Offline {
    pub deployment: OpenStackDeployment,
    pub selection: Selection,
    pub facts: Facts,
    pub desired: Desired,
}

impl Offline {
    /// # Errors
    /// Where the resource is refused: every finding has been told.
    pub fn of(document: &Document, catalog: &Catalog, site: Site) -> anyhow::Result<Self> {
        let deployment = document.deployment()?;
        let (name, namespace) = (deployment.metadata.name.clone(), deployment.metadata.namespace.clone());
        let spec = &deployment.spec;
        let selection = select(&name.unwrap_or_default(), &namespace.unwrap_or_default(), spec, catalog);
        let mut facts = rule::made_up_beside(spec, catalog, &selection, &document.beside);
        facts.site = site;
        let desired = if selection.is_refused() {
            Desired { findings: selection.findings.clone(), ..Desired::default() }
        } else {
            rule::resolve(spec, catalog, &selection, &facts)
        };
        told(&desired)?;
        left_out(&deployment, &facts);
        Ok(Self { deployment, selection, facts, desired })
    }
}

/// Tells what is wrong, and goes no further where that is refused.
pub fn told(desired: &Desired) -> anyhow::Result<()> {
    for finding in &desired.findings {
        eprintln!("{}: {finding}", finding.level.word());
    }
    let errors = desired.findings.iter().filter(|finding| finding.level == Level::Error).count();
    if errors > 0 {
        bail!("the resource is refused: {errors} error(s), each said above");
    }
    Ok(())
}

/// Tells of objects that values are taken from, and that are not in the file.
fn left_out(deployment: &OpenStackDeployment, facts: &Facts) {
    for (service, said) in &deployment.spec.services {
        for (release, own) in &said.releases {
            for (index, source) in own.values_from.iter().enumerate() {
                let key = source.key.clone().unwrap_or_else(|| "values.yaml".into());
                if facts.values_from.contains_key(&(source.kind, source.name.clone(), key.clone())) {
                    continue;
                }
                let kind = match source.kind {
                    ValuesKind::Secret => "Secret",
                    ValuesKind::ConfigMap => "ConfigMap",
                };
                eprintln!(
                    "not seen: {kind} {}, key {key}, which spec.services.{service}.releases.{release}.valuesFrom[{index}] names, is not in the file: what it sets is left out",
                    source.name
                );
            }
        }
    }
}
