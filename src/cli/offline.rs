//! What a file means where no cluster is asked.

use super::document::Document;
use crate::api::OpenStackDeployment;
use crate::catalog::{Catalog, Level};
use crate::desired::{Desired, Facts, Finding, Selection, select};
use crate::observed::Site;
use crate::rule::{self, Kind, Question, Schemas, keys_of};

/// The resource of a file, and what it means with those beside it; credentials and Ceph are made up.
pub struct Offline {
    pub deployment: OpenStackDeployment,
    pub selection: Selection,
    pub facts: Facts,
    pub desired: Desired,
}

/// A resource that is refused: what is said of it, which has been told.
#[derive(Debug, thiserror::Error)]
#[error("the resource is refused: {} error(s), each said above", errors(.0))]
pub struct Refused(pub Vec<Finding>);

fn errors(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.level == Level::Error).count()
}

impl Offline {
    /// # Errors
    /// Where the resource is refused ([`Refused`]): every finding has been told.
    pub fn of(document: &Document, catalog: &Catalog, site: Site) -> anyhow::Result<Self> {
        let meant = Self::meant(document, catalog, site)?;
        refuse(meant.desired.findings.clone(), Some(document))?;
        meant.tell_unseen(document);
        Ok(meant)
    }

    /// What it means though a value in it may be refused: the other values are not another's fault. That it is refused is told in one line.
    ///
    /// # Errors
    /// Where it has no sound shape, or selects nothing: every finding has been told.
    pub fn explained(document: &Document, catalog: &Catalog) -> anyhow::Result<Self> {
        let meant = Self::meant(document, catalog, Site::default())?;
        match errors(&meant.desired.findings) {
            0 => {}
            count => eprintln!("note: the resource is refused: {count} error(s), which `osdpl validate` tells"),
        }
        meant.tell_unseen(document);
        Ok(meant)
    }

    fn tell_unseen(&self, document: &Document) {
        for unseen in rule::unseen(&self.deployment.spec, &self.selection.namespace, &document.beside) {
            eprintln!("not seen: {unseen}: what it sets is left out");
        }
        if self.deployment.spec.images.rewrites() {
            let unknown = self.selection.releases.keys().filter(|name| !self.facts.charts.contains_key(*name));
            let unknown = unknown.map(String::as_str).collect::<Vec<_>>().join(", ");
            if !unknown.is_empty() {
                eprintln!(
                    "not seen: the images that the charts of {unknown} name themselves, which spec.images rewrites: they are left as they are"
                );
            }
        }
    }

    fn meant(document: &Document, catalog: &Catalog, site: Site) -> anyhow::Result<Self> {
        let schemas = Schemas::new(catalog)?;
        let object = document.object();
        let is_sound = schemas.judge(Kind::OpenStackDeployment, &object).is_empty();
        let question = Question { catalog, schemas: &schemas, beside: &document.beside, site: &site, now: None };
        let all = || -> Vec<Finding> {
            question.document(Kind::OpenStackDeployment, &object).into_iter().map(Finding::from).collect()
        };
        if !is_sound {
            refuse(all(), Some(document))?;
        }
        let deployment = document.deployment()?;
        let (name, namespace) = (deployment.metadata.name.clone(), deployment.metadata.namespace.clone());
        let spec = &deployment.spec;
        let selection = select(&name.unwrap_or_default(), &namespace.unwrap_or_default(), spec, catalog);
        if selection.is_refused() {
            refuse(all(), Some(document))?;
        }
        let mut facts = rule::made_up_beside(spec, catalog, &selection, &document.beside);
        facts.site = site;
        let desired = rule::resolve(spec, catalog, &selection, &facts);
        Ok(Self { deployment, selection, facts, desired })
    }
}

/// Tells what the API server would refuse of a file's resource, and goes no further where there is anything: it may be anything, and becomes part of a
/// script that people run.
pub fn sound(document: &Document, catalog: &Catalog) -> anyhow::Result<()> {
    let refused = Schemas::new(catalog)?.judge(Kind::OpenStackDeployment, &document.object());
    refuse(refused.into_iter().map(Finding::from).collect(), Some(document))
}

/// Tells what is wrong, and goes no further where that is refused.
pub fn told(desired: &Desired) -> anyhow::Result<()> {
    refuse(desired.findings.clone(), None)
}

/// Tells findings, with their lines where they are of a file; goes no further where one is an error.
fn refuse(findings: Vec<Finding>, document: Option<&Document>) -> anyhow::Result<()> {
    for finding in &findings {
        let keys = keys_of(&finding.field);
        let place = document.map(|document| document.line(keys.iter().map(String::as_str)) + ": ");
        eprintln!("{}{}: {finding}", place.unwrap_or_default(), finding.level.word());
    }
    if errors(&findings) == 0 { Ok(()) } else { Err(Refused(findings).into()) }
}
