//! Resolves and validates the `OpenStackDeployment` of a file without a cluster.

use std::collections::BTreeMap;
use std::path::Path;

use super::common::CatalogOption;
use super::document::{Document, locate};
use super::input::{display_name, read};
use k8s_openapi::jiff::Timestamp;

use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{Blocked, ChartInfo, Desired, Facts, Finding, Selection};
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::validate::{self, Argument, Kind, Report, ReviewInput, Schemas};
use osdpl_lint::{Evaluation, Input};

/// The `OpenStackDeployment` of a file, resolved without a cluster. Placeholders replace the credentials, and the Ceph
/// settings that the file does not contain.
pub(crate) struct Offline {
    pub deployment: OpenStackDeployment,
    pub selection: Selection,
    pub facts: Facts,
    pub desired: Desired,
    /// One line for each fact that a placeholder replaces, except for credentials.
    pub placeholders: Vec<String>,
}

/// The error for an `OpenStackDeployment` that has errors. The function that returns this error has already printed the
/// findings.
#[derive(Debug, thiserror::Error)]
#[error("the resource is refused: {} error(s), see above", errors(.0))]
pub(crate) struct Refused(pub Vec<Finding>);

fn errors(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.level == Level::Error).count()
}

impl Offline {
    /// Resolves the `OpenStackDeployment` of a file, and prints the findings about it.
    ///
    /// # Errors
    /// Returns an error if the resource is refused ([`Refused`]). Before the error, the function prints every finding.
    pub(crate) fn resolve_strictly(document: &Document, catalog: &Catalog) -> anyhow::Result<Self> {
        Self::resolve(document, catalog, &ClusterInfo::default())?.report_findings(document)
    }

    /// Resolves the `OpenStackDeployment` again, with the charts in `charts` instead of the charts that the lock names.
    /// `charts` maps the name of a release to its chart, or to the reason why osdpl can't use the chart.
    pub(crate) fn with_charts(
        mut self,
        catalog: &Catalog,
        charts: BTreeMap<String, Result<ChartInfo, Blocked>>,
    ) -> Self {
        let mut findings = std::mem::take(&mut self.desired.findings);
        let input = Input::of_resource(&self.deployment, &self.deployment.spec, catalog);
        let resolve_with = |facts: &Facts| input.resolve(&self.selection, facts);
        // Drop the findings that result from the charts that the lock names, because osdpl resolves the resource again
        // with the charts in `charts`.
        let of_locked_charts = resolve_with(&self.facts).findings;
        findings.retain(|finding| !of_locked_charts.contains(finding));
        self.facts.charts = charts;
        self.desired = resolve_with(&self.facts);
        findings.retain(|finding| !self.desired.findings.contains(finding));
        self.desired.findings.append(&mut findings);
        self
    }

    /// Prints the findings about the `OpenStackDeployment`, and then which data osdpl lacks because it has no cluster.
    ///
    /// # Errors
    /// Returns an error if the resource is refused.
    pub(crate) fn report_findings(self, document: &Document) -> anyhow::Result<Self> {
        print_and_check(&self.desired.findings, Some(document))?;
        self.report_missing();
        Ok(self)
    }

    /// Resolves the `OpenStackDeployment` of a file even if it has errors, so that `osdpl explain` can explain its
    /// values. Prints the number of errors.
    ///
    /// # Errors
    /// Returns an error if the resource does not match the CRD's schema, or if osdpl can't determine the cloud's
    /// releases, for example because a preset is unknown. Before the error, the function prints every finding.
    pub(crate) fn resolve_leniently(document: &Document, catalog: &Catalog) -> anyhow::Result<Self> {
        let resolved = Self::resolve(document, catalog, &ClusterInfo::default())?;
        match errors(&resolved.desired.findings) {
            0 => {}
            count => eprintln!("note: the resource is refused: {count} error(s); run `osdpl validate` to see them"),
        }
        resolved.report_missing();
        Ok(resolved)
    }

    /// Prints which data osdpl lacks without a cluster: the facts that placeholders replace and, if `spec.images`
    /// rewrites images, the default images of unknown charts.
    fn report_missing(&self) {
        for placeholder in &self.placeholders {
            eprintln!("placeholder: {placeholder}");
        }
        if self.deployment.spec.images.rewrites() {
            let unknown = self.selection.releases.keys().filter(|name| !self.facts.charts.contains_key(*name));
            let unknown = unknown.map(String::as_str).collect::<Vec<_>>().join(", ");
            if !unknown.is_empty() {
                eprintln!(
                    "unknown: the default images of the charts of {unknown}; osdpl can't show how spec.images rewrites these images"
                );
            }
        }
    }

    /// Resolves the `OpenStackDeployment` of a file even if it has errors, provided that osdpl can determine the
    /// cloud's releases.
    ///
    /// # Errors
    /// Returns an error if the resource does not match the CRD's schema, or if osdpl can't determine the cloud's
    /// releases, for example because a preset is unknown. Before the error, the function prints every finding.
    pub(crate) fn resolve(document: &Document, catalog: &Catalog, cluster_info: &ClusterInfo) -> anyhow::Result<Self> {
        let schemas = Schemas::new(catalog)?;
        let validation = Validation::new(document, catalog, &schemas, cluster_info);
        let deployment = validation.deployment()?;
        let (findings, evaluation) = validation.review();
        let is_refused = evaluation.as_ref().is_none_or(|evaluation| evaluation.selection.is_refused());
        let Some(Evaluation { selection, facts, placeholders, desired }) = evaluation.filter(|_| !is_refused) else {
            return Err(print_and_check(&findings, Some(document))
                .err()
                .unwrap_or_else(|| anyhow::anyhow!("the resource is refused")));
        };
        // `desired` contains only findings about values. Replace them with `findings`, which are about every field of
        // the file.
        let desired = Desired { findings, ..desired };
        Ok(Self { deployment, selection, facts, desired, placeholders })
    }
}

/// Parses the `OpenStackDeployment` of a file if it matches the CRD's schema.
///
/// Checks only the schema. The callers do the other checks, because these may need facts from the cluster.
///
/// # Errors
/// Returns an error if the resource does not match the schema ([`Refused`]). Before the error, the function prints
/// every finding of `osdpl validate`.
pub(crate) fn well_formed(document: &Document, catalog: &Catalog) -> anyhow::Result<OpenStackDeployment> {
    let (schemas, cluster_info) = (Schemas::new(catalog)?, ClusterInfo::default());
    Validation::new(document, catalog, &schemas, &cluster_info).deployment()
}

/// Returns the findings about an `OpenStackDeployment` that does not match the CRD's schema, as text with one finding
/// per line. Returns `None` if the `OpenStackDeployment` matches the schema.
pub(crate) fn shape_errors(document: &Document, catalog: &Catalog, schemas: &Schemas) -> Option<String> {
    let cluster_info = ClusterInfo::default();
    let validation = Validation::new(document, catalog, schemas, &cluster_info);
    (!validation.is_well_formed()).then(|| lines(&locate_all(&validation.findings(), Some(document))).join("\n"))
}

/// The `OpenStackDeployment` of a file, and the other inputs of its validation.
struct Validation<'a> {
    document: &'a Document,
    input: ReviewInput<'a>,
}

impl<'a> Validation<'a> {
    fn new(document: &'a Document, catalog: &'a Catalog, schemas: &'a Schemas, cluster_info: &'a ClusterInfo) -> Self {
        let input = ReviewInput { catalog, schemas, manifests: &document.others, cluster_info, now: Some(now()) };
        Self { document, input }
    }

    fn is_well_formed(&self) -> bool {
        self.input.schemas.check(Kind::OpenStackDeployment, &self.document.object()).is_empty()
    }

    /// Returns all findings about the `OpenStackDeployment`.
    fn findings(&self) -> Vec<Finding> {
        self.review().0
    }

    /// Returns all findings about the `OpenStackDeployment` and, if osdpl could parse the `OpenStackDeployment`, the
    /// releases and values that result from it.
    fn review(&self) -> (Vec<Finding>, Option<Evaluation>) {
        self.input.review(Kind::OpenStackDeployment, &self.document.object())
    }

    fn deployment(&self) -> anyhow::Result<OpenStackDeployment> {
        if !self.is_well_formed() {
            print_and_check(&self.findings(), Some(self.document))?;
        }
        self.document.deployment()
    }
}

/// Returns the current time, with which osdpl checks whether certificates have expired.
#[allow(clippy::disallowed_methods, reason = "the command line checks expiry against the system clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the report of `osdpl validate` about a file if the file has errors; `None` otherwise.
pub(crate) fn report(file: &Path, option: &CatalogOption) -> anyhow::Result<Option<Report>> {
    let (name, text) = (display_name(file), read(file)?);
    let documents = validate::split_documents(&name, &text);
    let mut report = option.validate(&documents, &ClusterInfo::default())?;
    report.check_argument(&Argument { name, documents: &documents, is_folder: false, unread: &[] });
    Ok(Some(report).filter(|report| report.summary.errors > 0))
}

/// Prints the findings about an `OpenStackDeployment` of the cluster, and fails if one is an error.
pub(crate) fn report_findings(desired: &Desired) -> anyhow::Result<()> {
    print_and_check(&desired.findings, None)
}

/// Prints findings, and fails if one of them is an error. If the findings are about an `OpenStackDeployment` in a file
/// (`document`), prints the file and line of each finding.
fn print_and_check(findings: &[Finding], document: Option<&Document>) -> anyhow::Result<()> {
    let findings = locate_all(findings, document);
    for line in lines(&findings) {
        eprintln!("{line}");
    }
    if errors(&findings) == 0 { Ok(()) } else { Err(Refused(findings).into()) }
}

/// Returns the findings with the file and line of each finding, sorted by line. If the findings are not about an
/// `OpenStackDeployment` in a file, returns them unchanged.
fn locate_all(findings: &[Finding], document: Option<&Document>) -> Vec<Finding> {
    let mut located: Vec<Finding> = findings.iter().map(|finding| locate(finding, document)).collect();
    located.sort_by_key(Finding::line);
    located
}

/// Formats findings, one per line. A finding about an `OpenStackDeployment` in a file begins with the file and line.
fn lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let source = finding.location.source.as_ref();
        let location = source.map(|source| format!("{}:{}: ", source.file, source.line)).unwrap_or_default();
        format!("{location}{}: {finding}", finding.level.as_str())
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_findings_of_the_locked_charts_for_other_charts() {
        let keys = |image: &str| format!("{{images: {{tags: {{api: '={image}'}}}}, conf: map, auth: map}}");
        let (front, store) = (keys("quay.io/locked/front:1"), keys("quay.io/locked/store:1"));
        let keys = [("values/keys/front.yaml", front.as_str()), ("values/keys/store.yaml", store.as_str())];
        let catalog = Catalog::load(&osdpl_core::testing::files(&keys)).unwrap();
        let digest = format!("sha256:{}", "0".repeat(64));
        let text = format!(
            "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {{name: c}}\nspec:\n  openstackRelease: '2026.1'\n  presets: [small]\n  \
             publicDomain: cloud\n  images: {{digests: {{'quay.io/given/front:9': '{digest}'}}}}\n"
        );
        let document = Document::parse("c.yaml", &text, None).unwrap();
        let resolved = Offline::resolve(&document, &catalog, &ClusterInfo::default()).unwrap();
        let fields = |offline: &Offline| {
            let mut fields: Vec<_> =
                offline.desired.findings.iter().map(|finding| finding.location.field.clone()).collect();
            fields.sort();
            fields
        };
        let pinned = "spec.images.digests[quay.io/given/front:9]";
        assert_eq!(fields(&resolved), [pinned, "spec.publicDomain"]);
        let chart = |image: &str| ChartInfo {
            version: "1.0.0".into(),
            images: [("api".to_owned(), image.to_owned())].into(),
            ..ChartInfo::default()
        };
        let given = [("front", "quay.io/given/front:9"), ("store", "quay.io/locked/store:1")];
        let given = given.map(|(name, image)| (name.to_owned(), Ok(chart(image)))).into();
        assert_eq!(fields(&resolved.with_charts(&catalog, given)), ["spec.publicDomain"]);
    }

    #[test]
    fn reports_all_findings_of_malformed_files_in_line_order() {
        let catalog = Catalog::load(&osdpl_core::testing::files(&[])).unwrap();
        let fields = |text: &str| {
            let document = Document::parse("c.yaml", text, None).unwrap();
            let refused: Refused = well_formed(&document, &catalog).unwrap_err().downcast().unwrap();
            refused.0.into_iter().map(|finding| finding.location.field).collect::<Vec<_>>()
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
        let well_formed_text = text
            .replace("v1\n", "v1alpha1\n")
            .replace("maybe", "true")
            .replace("  foo: 1\n", "")
            .replace("enb", "enab");
        let document = Document::parse("c.yaml", &well_formed_text, None).unwrap();
        assert_eq!(
            well_formed(&document, &catalog).unwrap().spec.presets,
            ["smal"],
            "the schema check must accept a resource with an unknown preset"
        );
    }
}
