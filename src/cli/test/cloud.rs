//! Resolves the cloud of a test case into its releases, and checks expectations against them.

use std::rc::Rc;

use anyhow::bail;
use serde_json::{Value, json};

use super::case::Expectation;
use super::value::CheckedValue;
use crate::document::Document;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level, did_you_mean};
use osdpl_core::desired::{Desired, DesiredRelease, KeyState, classify_key, overridden_chart_version};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::Evaluation;
use osdpl_lint::validate::{Kind, ReviewInput, Schemas, keys_of_field, read_spec};
use osdpl_values::expr::{Expression, Scope};
use osdpl_values::{Path, Values, get};

/// A loaded catalogue, and the schemas of osdpl's CRDs, against which osdpl validates resources. The schemas contain
/// the catalogue's features.
pub(crate) struct LoadedCatalog {
    pub catalog: Catalog,
    pub schemas: Schemas,
}

/// The `OpenStackDeployment` that a test case describes.
pub(crate) struct Resource {
    /// The `OpenStackDeployment` after osdpl has applied the changes of the case.
    pub object: Value,
    /// The file of the `OpenStackDeployment`; `None` if the case contains the spec.
    pub document: Option<Document>,
    /// Whether the case changes the `OpenStackDeployment` that the file contains.
    pub is_changed: bool,
}

impl Resource {
    /// Creates a resource from the spec that a case contains.
    pub(crate) fn from_spec(spec: &Values) -> Self {
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": spec,
        });
        Self { object, document: None, is_changed: false }
    }

    /// Returns the other objects in the file of the `OpenStackDeployment`, such as Secrets; empty if the case contains
    /// the spec.
    fn others(&self) -> &[Value] {
        self.document.as_ref().map_or(&[], |document| document.others.as_slice())
    }
}

/// The cloud of a test case. osdpl has resolved it with placeholder credentials.
pub(crate) struct Cloud {
    loaded: Rc<LoadedCatalog>,
    resource: Resource,
    spec: Option<OpenStackDeploymentSpec>,
    desired: Desired,
    /// The findings of `osdpl validate` about the resource.
    findings: Vec<Finding>,
    scope: Scope<'static>,
    /// One line for each fact that a placeholder replaces, except for credentials.
    pub placeholders: Vec<String>,
}

impl Cloud {
    /// Resolves the resource of a case: computes the desired releases and the findings.
    pub(crate) fn new(resource: Resource, loaded: Rc<LoadedCatalog>) -> Self {
        let LoadedCatalog { catalog, schemas } = &*loaded;
        let (object, others) = (&resource.object, resource.others());
        let input =
            ReviewInput { catalog, schemas, manifests: others, cluster_info: &ClusterInfo::default(), now: None };
        let (findings, evaluation) = input.review(Kind::OpenStackDeployment, object);
        // If the resource can't be parsed, do not evaluate it. Its findings then contain errors, so osdpl refuses it
        // anyway.
        let spec = read_spec(object).ok();
        let (desired, scope, placeholders) = match evaluation.filter(|_| spec.is_some()) {
            Some(Evaluation { selection, desired, placeholders, .. }) if !selection.is_refused() => {
                (desired, selection.scope, placeholders)
            }
            Some(Evaluation { selection, .. }) => (Desired::default(), selection.scope, Vec::new()),
            None => (Desired::default(), Scope::new(Values::new()), Vec::new()),
        };
        Self { loaded, resource, spec, desired, findings, scope, placeholders }
    }

    /// Returns the errors in the resource, for which osdpl refuses the cloud. Each error begins with the file and line
    /// of the field, unless the case changes the resource or contains the spec itself.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = String> {
        let document = self.resource.document.as_ref().filter(|_| !self.resource.is_changed);
        let errors = self.findings.iter().filter(|finding| finding.level == Level::Error);
        errors.map(move |finding| {
            let keys = keys_of_field(&finding.location.field);
            let location = document.map(|document| document.line(keys.iter().map(String::as_str)) + ": ");
            location.unwrap_or_default() + &format_finding(finding)
        })
    }

    fn messages(&self, level: Level) -> impl Iterator<Item = String> {
        self.findings.iter().filter(move |finding| finding.level == level).map(format_finding)
    }

    /// Describes how the cloud differs from an expectation; `None` if the cloud meets the expectation.
    ///
    /// # Errors
    /// Returns an error if the expectation itself is invalid, for example because its path is misspelled.
    pub(crate) fn check(&self, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let Expectation { refused, warns, wanted, holds, .. } = expectation;
        if let Some(text) = refused {
            return Ok(missing_message("an error", text, self.messages(Level::Error)));
        }
        if let Some(text) = warns {
            return Ok(missing_message("a warning", text, self.messages(Level::Warning)));
        }
        let name = expectation.release.as_deref().unwrap_or_default();
        let catalog = &self.loaded.catalog;
        if catalog.release(name).is_none() {
            let known = catalog.services.values().flat_map(|service| service.releases.keys());
            let hint = did_you_mean(name, known.map(String::as_str));
            bail!(
                "the catalogue has no release {name:?}{hint}; use a name that `osdpl catalog services SERVICE` lists"
            );
        }
        let release = self.desired.releases.get(name);
        match (wanted, release) {
            (Some(wanted), release) if *wanted == release.is_some() => return Ok(None),
            (Some(true), _) | (None, None) => {
                return Ok(Some(format!("expected release {name}, but it is not part of this cloud")));
            }
            (Some(false), _) => return Ok(Some(format!("expected no release {name}, but it is part of this cloud"))),
            (None, Some(_)) => {}
        }
        let Some(release) = release else { return Ok(None) };
        if let Some(blocked) = &release.blocked {
            return Ok(Some(format!("release {name} has no values: {}", blocked.message)));
        }
        match holds {
            Some(condition) => self.check_condition(name, release, condition),
            None => self.check_value(name, release, expectation),
        }
    }

    /// Compares the value at the expectation's path with the expectation.
    ///
    /// # Errors
    /// Returns an error if no layer sets the path, and the chart does not have it either. Such a path is probably
    /// misspelled. Without the error, an expectation such as `exists: false` would pass by accident.
    fn check_value(
        &self,
        name: &str,
        release: &DesiredRelease,
        expectation: &Expectation,
    ) -> anyhow::Result<Option<String>> {
        let path = Path::parse(expectation.path.as_deref().unwrap_or_default())?;
        let is_locked = |spec| overridden_chart_version(spec, &self.loaded.catalog, name).is_none();
        let is_known = self.spec.as_ref().is_some_and(is_locked);
        if get(&release.values, &path).is_none()
            && is_known
            && let Some(KeyState::No(hint)) = classify_key(&self.loaded.catalog, &release.chart, &path)
        {
            bail!("no layer sets {path}, and chart {} does not have this key{hint}; correct the path", release.chart);
        }
        let tree = self.loaded.catalog.keys().get(&release.chart).filter(|_| is_known);
        Ok(CheckedValue { name, release, path: &path, tree }.failure(expectation))
    }

    fn check_condition(&self, name: &str, release: &DesiredRelease, condition: &str) -> anyhow::Result<Option<String>> {
        let values = [("values".to_owned(), Value::Object(release.values.clone()))];
        let expression = Expression::compile(condition)?;
        Ok(match expression.evaluate_condition(&self.scope.nested(values.into_iter().collect())) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name}: expected that `{condition}` holds, but it does not")),
            Err(error) => Some(format!("{name}: {error}")),
        })
    }
}

/// Formats a finding with its field, or without a field if the finding is about the whole resource.
fn format_finding(finding: &Finding) -> String {
    if finding.field().is_empty() { finding.text() } else { finding.to_string() }
}

/// Returns the description of a failure if none of the messages contains `part`; `None` if at least one does.
fn missing_message(expected: &str, part: &str, messages: impl Iterator<Item = String>) -> Option<String> {
    let messages: Vec<String> = messages.collect();
    if messages.iter().any(|text| text.contains(part)) {
        return None;
    }
    let found = if messages.is_empty() { "none".to_owned() } else { messages.join("; ") };
    Some(format!("expected {expected} that contains {part:?}, found: {found}"))
}
