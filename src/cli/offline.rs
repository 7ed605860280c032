//! What a file means where no cluster is asked.

use anyhow::anyhow;

use super::document::Document;
use crate::api::OpenStackDeployment;
use crate::catalog::{Catalog, Level};
use crate::desired::{Desired, Facts, Finding, Selection, select};
use crate::observed::Site;
use crate::rule::{self, Judged};

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
        let refused = document.judged(catalog)?;
        let deployment = match document.deployment() {
            Ok(deployment) => deployment,
            // Fields that nobody knows are told with their lines there.
            Err(error) if refused.iter().all(|judged| judged.rule == "field") => return Err(error),
            Err(_) => return Err(tell(&refused.into_iter().map(Finding::from).collect::<Vec<_>>())),
        };
        let (name, namespace) = (deployment.metadata.name.clone(), deployment.metadata.namespace.clone());
        let spec = &deployment.spec;
        let selection = select(&name.unwrap_or_default(), &namespace.unwrap_or_default(), spec, catalog);
        let mut facts = rule::made_up_beside(spec, catalog, &selection, &document.beside);
        facts.site = site;
        let mut desired = if selection.is_refused() {
            Desired { findings: selection.findings.clone(), ..Desired::default() }
        } else {
            rule::resolve(spec, catalog, &selection, &facts)
        };
        // The catalogue's own words help more than a schema's.
        let is_told = |judged: &Judged| {
            let mut errors = desired.findings.iter().filter(|known| known.level == Level::Error);
            judged.rule == "schema" && errors.any(|known| known.field == judged.field)
        };
        let (_, untold): (Vec<_>, Vec<_>) = refused.into_iter().partition(is_told);
        desired.findings.splice(0..0, untold.into_iter().map(Finding::from));
        told(&desired)?;
        for unseen in rule::unseen(&deployment.spec, &selection.namespace, &document.beside) {
            eprintln!("not seen: {unseen}: what it sets is left out");
        }
        Ok(Self { deployment, selection, facts, desired })
    }
}

/// Tells what the API server would refuse of a file's resource, and goes no further where there is anything: it may be anything, and becomes part of a
/// script that people run.
pub fn sound(document: &Document, catalog: &Catalog) -> anyhow::Result<()> {
    let refused: Vec<Finding> = document.judged(catalog)?.into_iter().map(Finding::from).collect();
    if refused.is_empty() { Ok(()) } else { Err(tell(&refused)) }
}

/// Tells what is wrong, and goes no further where that is refused.
pub fn told(desired: &Desired) -> anyhow::Result<()> {
    let is_refused = desired.findings.iter().any(|finding| finding.level == Level::Error);
    let error = tell(&desired.findings);
    if is_refused { Err(error) } else { Ok(()) }
}

/// Tells findings; what is to be said of them where they are errors.
fn tell(findings: &[Finding]) -> anyhow::Error {
    for finding in findings {
        eprintln!("{}: {finding}", finding.level.word());
    }
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    anyhow!("the resource is refused: {errors} error(s), each said above")
}
