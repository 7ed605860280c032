//! What a file means where no cluster is asked.

use std::collections::BTreeMap;
use std::path::Path;

use super::added::{USUAL, Wrong, in_texts_of};
use super::common::{CatalogOption, called, read};
use super::document::Document;
use super::validate::now;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, Extended, Level};
use osdpl_core::desired::{Blocked, ChartFact, Desired, Facts, Finding, Selection, select};
use osdpl_core::observed::Site;
use osdpl_lint::rule::{self, Kind, Named, Question, Report, Schemas, keys_of};

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
    pub fn of(document: &Document, catalog: &Catalog, site: &Site) -> anyhow::Result<Self> {
        Self::meant(document, catalog, site)?.told(document)
    }

    /// The same where these are its charts.
    pub fn with_charts(mut self, catalog: &Catalog, charts: BTreeMap<String, Result<ChartFact, Blocked>>) -> Self {
        let mut before = std::mem::take(&mut self.desired.findings);
        let resolve = |facts: &Facts| rule::resolve(&self.deployment.spec, catalog, &self.selection, facts);
        // What the locked charts had to be told of may not hold of these.
        let of_locked = resolve(&self.facts).findings;
        before.retain(|finding| !of_locked.contains(finding));
        self.facts.charts = charts;
        self.desired = resolve(&self.facts);
        let found = &mut self.desired.findings;
        found.extend(before.into_iter().filter(|finding| !found.contains(finding)).collect::<Vec<_>>());
        self
    }

    /// Tells what is said of it.
    ///
    /// # Errors
    /// Where it is refused.
    pub fn told(self, document: &Document) -> anyhow::Result<Self> {
        refuse(self.desired.findings.clone(), Some(document))?;
        self.tell_unseen(document);
        Ok(self)
    }

    /// What it means though a value in it may be refused: the other values are not another's fault. That it is refused is told in one line.
    ///
    /// # Errors
    /// Where it has no sound shape, or selects nothing: every finding has been told.
    pub fn explained(document: &Document, catalog: &Catalog) -> anyhow::Result<Self> {
        let meant = Self::meant(document, catalog, &Site::default())?;
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

    /// What it means, whatever is said of that.
    ///
    /// # Errors
    /// Where it has no sound shape, or selects nothing: every finding has been told.
    pub fn meant(document: &Document, catalog: &Catalog, site: &Site) -> anyhow::Result<Self> {
        let schemas = Schemas::new(catalog)?;
        let judged = Judged::new(document, catalog, &schemas, site);
        let deployment = judged.deployment()?;
        let (name, namespace) = (deployment.metadata.name.clone(), deployment.metadata.namespace.clone());
        let spec = &deployment.spec;
        let selection = select(&name.unwrap_or_default(), &namespace.unwrap_or_default(), spec, catalog);
        if selection.is_refused() {
            refuse(judged.findings(), Some(document))?;
        }
        let mut facts = rule::made_up_beside(spec, catalog, &selection, &document.beside);
        facts.site = site.clone();
        let mut desired = rule::resolve(spec, catalog, &selection, &facts);
        // The file says more than its spec: what is deployed, and certificates beside it.
        desired.findings = judged.findings();
        Ok(Self { deployment, selection, facts, desired })
    }
}

/// The resource of a file where it has a sound shape: whatever else is wrong with it is for whoever knows the cluster.
///
/// # Errors
/// Where it has none ([`Refused`]): every finding has been told, those too that `osdpl validate` has of what is sound.
pub fn shaped(document: &Document, catalog: &Catalog) -> anyhow::Result<OpenStackDeployment> {
    let (schemas, site) = (Schemas::new(catalog)?, Site::default());
    Judged::new(document, catalog, &schemas, &site).deployment()
}

/// What is said of a resource of a file that has no sound shape, a line each; `None` of one that has.
pub fn misshapen(document: &Document, catalog: &Catalog, schemas: &Schemas) -> Option<String> {
    let site = Site::default();
    let judged = Judged::new(document, catalog, schemas, &site);
    (!judged.is_sound()).then(|| lines(&mut judged.findings(), Some(document)).join("\n"))
}

/// The resource of a file beside what it is judged by.
struct Judged<'a> {
    document: &'a Document,
    question: Question<'a>,
}

impl<'a> Judged<'a> {
    fn new(document: &'a Document, catalog: &'a Catalog, schemas: &'a Schemas, site: &'a Site) -> Self {
        Self { document, question: Question { catalog, schemas, beside: &document.beside, site, now: Some(now()) } }
    }

    fn is_sound(&self) -> bool {
        self.question.schemas.judge(Kind::OpenStackDeployment, &self.document.object()).is_empty()
    }

    /// Everything that is wrong.
    fn findings(&self) -> Vec<Finding> {
        let found = self.question.document(Kind::OpenStackDeployment, &self.document.object());
        found.into_iter().map(Finding::from).collect()
    }

    fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        if !self.is_sound() {
            refuse(self.findings(), Some(self.document))?;
        }
        self.document.deployment()
    }
}

/// What `osdpl validate` finds in a file, for programs; `None` where nothing in it is refused.
pub fn report(file: &Path, option: &CatalogOption, namespace: Option<&str>) -> anyhow::Result<Option<Report>> {
    let (place, text) = (called(file), read(file)?);
    let documents = rule::split(&place, &text);
    let added = in_texts_of([(place.as_str(), text.as_str())], namespace.unwrap_or(USUAL), Wrong::Told)?;
    let Extended { catalog, refused, .. } = option.with(&added)?;
    let schemas = Schemas::new(&catalog)?;
    let mut report = rule::report(&documents, &catalog, &schemas, &Site::default(), Some(now()));
    report.refuse(&documents, &refused);
    report.visit(&Named { place, documents: &documents, is_folder: false, unread: &[] });
    Ok(Some(report).filter(|report| report.summary.errors > 0))
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

/// Tells findings; goes no further where one is an error.
fn refuse(mut findings: Vec<Finding>, document: Option<&Document>) -> anyhow::Result<()> {
    for line in lines(&mut findings, document) {
        eprintln!("{line}");
    }
    if errors(&findings) == 0 { Ok(()) } else { Err(Refused(findings).into()) }
}

/// Findings for people, those of a file put into its order, and with their lines.
fn lines(findings: &mut [Finding], document: Option<&Document>) -> Vec<String> {
    if let Some(document) = document {
        findings.sort_by_key(|finding| document.number(keys_of(&finding.field).iter().map(String::as_str)));
    }
    let line = |finding: &Finding| {
        let keys = keys_of(&finding.field);
        let place = document.map(|document| document.line(keys.iter().map(String::as_str)) + ": ");
        format!("{}{}: {finding}", place.unwrap_or_default(), finding.level.word())
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_locked_charts_had_to_be_told_of_goes_where_other_charts_are_given_and_the_rest_stays() {
        let keys = |image: &str| format!("{{images: {{tags: {{api: '={image}'}}}}, conf: map, auth: map}}");
        let (front, store) = (keys("quay.io/locked/front:1"), keys("quay.io/locked/store:1"));
        let keys = [("values/keys/front.yaml", front.as_str()), ("values/keys/store.yaml", store.as_str())];
        let catalog = Catalog::load(&osdpl_core::testing::files(&keys)).unwrap();
        let digest = format!("sha256:{}", "0".repeat(64));
        let text = format!(
            "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {{name: c}}\nspec:\n  openstackRelease: '2026.1'\n  presets: [small]\n  \
             publicDomain: cloud\n  images: {{digests: {{'quay.io/given/front:9': '{digest}'}}}}\n"
        );
        let document = Document::of("c.yaml", &text, None).unwrap();
        let meant = Offline::meant(&document, &catalog, &Site::default()).unwrap();
        let fields = |meant: &Offline| {
            let mut fields: Vec<_> = meant.desired.findings.iter().map(|finding| finding.field.clone()).collect();
            fields.sort();
            fields
        };
        let pinned = "spec.images.digests[quay.io/given/front:9]";
        assert_eq!(fields(&meant), [pinned, "spec.publicDomain"]);
        let chart = |image: &str| ChartFact {
            version: "1.0.0".into(),
            images: [("api".to_owned(), image.to_owned())].into(),
            ..ChartFact::default()
        };
        let given = [("front", "quay.io/given/front:9"), ("store", "quay.io/locked/store:1")];
        let given = given.map(|(name, image)| (name.to_owned(), Ok(chart(image)))).into();
        assert_eq!(fields(&meant.with_charts(&catalog, given)), ["spec.publicDomain"]);
    }

    #[test]
    fn a_file_of_no_sound_shape_is_refused_with_all_that_validate_says_in_the_order_of_its_lines() {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let fields = |text: &str| {
            let document = Document::of("c.yaml", text, None).unwrap();
            let refused: Refused = shaped(&document, &catalog).unwrap_err().downcast().unwrap();
            refused.0.into_iter().map(|finding| finding.field).collect::<Vec<_>>()
        };
        let text = "apiVersion: osdpl.dev/v1\nkind: OpenStackDeployment\nspec:\n  publicDomain: cloud\n  paused: maybe\n  foo: 1\n  \
                    presets: [smal]\n  services: {front: {enbled: false}}\n  openstackRelease: '2026.1'\n";
        assert_eq!(
            fields(text),
            [
                "apiVersion",
                "spec.publicDomain",
                "spec.paused",
                "spec.foo",
                "spec.presets[0]",
                "spec.services.front.enbled"
            ]
        );
        let sound = text
            .replace("v1\n", "v1alpha1\n")
            .replace("maybe", "true")
            .replace("  foo: 1\n", "")
            .replace("enb", "enab");
        let document = Document::of("c.yaml", &sound, None).unwrap();
        assert_eq!(
            shaped(&document, &catalog).unwrap().spec.presets,
            ["smal"],
            "names are for whoever has the catalogue"
        );
    }
}
