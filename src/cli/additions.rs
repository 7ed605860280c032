//! Loads the catalogue with the additions of an `OpenStackDeployment`: the ConfigMaps that its `spec.catalog` names.
//! Reads these ConfigMaps from the file that contains the `OpenStackDeployment`, or from the cluster.

use anyhow::{Context, bail};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::common::CatalogOption;
use super::document::Document;
use super::offline::now;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::{Addition, Catalog, ExtendedCatalog, NamedAdditions, RejectedAddition, extend_catalog};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::validate::{
    self, Report, Schemas, addition_references, config_map_data, is_deployment, keys_of_field, manifests,
    named_additions,
};
use osdpl_operator::cluster::Reader;

/// A catalogue with additions, and an error for each addition that osdpl can't use. The operator would refuse an
/// `OpenStackDeployment` that names such an addition.
pub(crate) type ExtendedWithErrors = (ExtendedCatalog, Vec<Finding>);

impl CatalogOption {
    /// Loads the catalogue with the additions that the `OpenStackDeployment` in a file names. Reads the additions only
    /// from this file, and not from the cluster. If the file lacks an addition, prints a message, and continues without
    /// the addition.
    ///
    /// # Errors
    /// Returns an error if the catalogue can't be loaded, or if an addition in the file is invalid.
    pub(crate) fn load_for(&self, document: &Document) -> anyhow::Result<ExtendedCatalog> {
        let named = named_additions(&document.object(), &document.others);
        for (field, source) in &named.missing {
            eprintln!(
                "unknown: {source}, which {field} references, is not in the file, so osdpl leaves out its additions; to include them, add the object to the file"
            );
        }
        let extended = self.extended(&named.additions)?;
        let line = |finding: &Finding| {
            let keys = keys_of_field(finding.field());
            format!("{}: {finding}", document.line(keys.iter().map(String::as_str)))
        };
        // The message about a rejected addition already names the line in the `ConfigMap`. So only put the name of the
        // `ConfigMap` before it. The closure `line` would add a line of the `OpenStackDeployment` instead.
        let rejected = |RejectedAddition { source, message }: &RejectedAddition| format!("{source}: {message}");
        let errors = named.errors.iter().map(line).chain(extended.rejected.iter().map(rejected));
        let errors: Vec<String> = errors.collect();
        if errors.is_empty() { Ok(extended) } else { bail!("{}", errors.join("\n")) }
    }

    /// Loads the catalogue with the additions that an `OpenStackDeployment` of the cluster names.
    pub(crate) async fn load_live(
        &self,
        client: &Client,
        deployment: &OpenStackDeployment,
    ) -> anyhow::Result<ExtendedWithErrors> {
        let (reader, namespace) = (Reader::new(client.clone()), deployment.namespace().unwrap_or_default());
        self.with_errors(&reader.read_additions(&namespace, &deployment.spec.catalog, |_| None).await)
    }

    /// Loads the catalogue with the additions that the `OpenStackDeployment` in a file names, as if the file were
    /// applied. Reads each addition from the file or, if the file does not contain the addition, from the cluster.
    pub(crate) async fn load_applied(
        &self,
        client: &Client,
        document: &Document,
    ) -> anyhow::Result<ExtendedWithErrors> {
        let (reader, namespace) = (Reader::new(client.clone()), document.namespace());
        let references = addition_references(&document.object());
        let in_file = |name: &str| config_map_data(name, &namespace, &document.others);
        self.with_errors(&reader.read_additions(&namespace, &references, in_file).await)
    }

    fn with_errors(&self, named: &NamedAdditions) -> anyhow::Result<ExtendedWithErrors> {
        let extended = self.extended(&named.additions)?;
        let rejected = named.rejected_errors(&extended.rejected);
        let errors = named.missing_errors().chain(named.errors.clone()).chain(rejected);
        Ok((extended, errors.collect()))
    }

    /// Loads the catalogue and merges `additions` into it. An invalid addition does not make the function fail: the
    /// returned catalogue lists the addition in `rejected`.
    pub(crate) fn extended(&self, additions: &[Addition]) -> anyhow::Result<ExtendedCatalog> {
        extend_catalog(&self.texts()?, additions).with_context(|| self.error_context())
    }

    /// Validates the documents as if all of them were applied to one cluster. Validates each resource against the
    /// catalogue with the additions that this resource names.
    pub(crate) fn validate(
        &self,
        documents: &[validate::Document],
        cluster_info: &ClusterInfo,
    ) -> anyhow::Result<Report> {
        let manifests = manifests(documents);
        let additions_of = |object: &Value| named_additions(object, &manifests).additions;
        let mut rejected = Vec::new();
        let mut loaded: Vec<(Vec<Addition>, Catalog, Schemas)> = Vec::new();
        let resources = manifests.iter().filter(|object| is_deployment(object));
        for additions in resources.map(additions_of).chain([Vec::new()]) {
            if loaded.iter().all(|(known, ..)| *known != additions) {
                let extended = self.extended(&additions)?;
                rejected.extend(extended.rejected);
                let schemas = Schemas::new(&extended.catalog)?;
                loaded.push((additions, extended.catalog, schemas));
            }
        }
        let catalog_of = |object: &Value| {
            let additions = additions_of(object);
            let known = loaded.iter().find(|(known, ..)| *known == additions).unwrap_or(&loaded[0]);
            (&known.1, &known.2)
        };
        let mut report = validate::report(documents, &catalog_of, cluster_info, Some(now()));
        report.add_refused(documents, &rejected);
        Ok(report)
    }
}

/// Fails if there are errors about additions.
///
/// # Errors
/// Returns an error if `errors` is not empty. Its message contains all of `errors`.
pub(crate) fn check_additions(errors: &[Finding]) -> anyhow::Result<()> {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("\n")) }
}

/// Prints a warning for each error about additions. The caller then continues without the invalid additions.
pub(crate) fn warn_about(errors: &[Finding]) {
    for error in errors {
        eprintln!("warning: {error}");
    }
}
