//! Resolves the cloud of a case and checks expectations.

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

/// A loaded catalogue, with the schemas that osdpl validates resources against.
pub(crate) struct LoadedCatalog {
    pub catalog: Catalog,
    pub schemas: Schemas,
}

/// The resource of a case.
pub(crate) struct Resource {
    /// The resource with the changes of the case.
    pub object: Value,
    /// The file of the resource; `None` if the case contains the spec.
    pub document: Option<Document>,
    /// Whether the case changes the file's resource.
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

    /// Returns the objects in the resource's file other than the resource; empty if the resource has no file.
    fn others(&self) -> &[Value] {
        self.document.as_ref().map_or(&[], |document| document.others.as_slice())
    }
}

/// The cloud of a test case, which osdpl resolved with placeholder credentials.
pub(crate) struct Cloud {
    loaded: Rc<LoadedCatalog>,
    resource: Resource,
    spec: Option<OpenStackDeploymentSpec>,
    desired: Desired,
    /// The findings of `osdpl validate` about the resource.
    findings: Vec<Finding>,
    scope: Scope<'static>,
}

impl Cloud {
    /// Resolves the resource of a case.
    pub(crate) fn new(resource: Resource, loaded: Rc<LoadedCatalog>) -> Self {
        let LoadedCatalog { catalog, schemas } = &*loaded;
        let (object, others) = (&resource.object, resource.others());
        let input =
            ReviewInput { catalog, schemas, manifests: others, cluster_info: &ClusterInfo::default(), now: None };
        let (findings, evaluation) = input.review(Kind::OpenStackDeployment, object);
        // Do not evaluate a resource that can't be parsed. Its findings contain errors, so osdpl refuses the resource.
        let spec = read_spec(object).ok();
        let (desired, scope) = match evaluation.filter(|_| spec.is_some()) {
            Some(Evaluation { selection, desired, .. }) if !selection.is_refused() => (desired, selection.scope),
            Some(Evaluation { selection, .. }) => (Desired::default(), selection.scope),
            None => (Desired::default(), Scope::new(Values::new())),
        };
        Self { loaded, resource, spec, desired, findings, scope }
    }

    /// Returns the errors of the resource. If the case does not change the resource, each error contains the file and
    /// line of the field.
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

    /// Describes how the cloud fails an expectation; `None` if the expectation is met.
    ///
    /// # Errors
    /// Returns an error if the expectation itself is invalid, for example because its path is misspelled.
    pub(crate) fn check(&self, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let Expectation { refused, warns, wanted, holds, .. } = expectation;
        if let Some(text) = refused {
            return Ok(missing_message("to be refused", text, self.messages(Level::Error)));
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
                "the catalogue has no release {name:?}{hint}; use the catalogue's names, which `osdpl catalog` lists"
            );
        }
        let release = self.desired.releases.get(name);
        match (wanted, release) {
            (Some(wanted), release) if *wanted == release.is_some() => return Ok(None),
            (Some(true), _) | (None, None) => return Ok(Some(format!("release {name} is not part of this cloud"))),
            (Some(false), _) => return Ok(Some(format!("release {name} is part of this cloud"))),
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
    /// Returns an error if no layer sets the path and the chart does not have it. The path is then most likely
    /// misspelled, and an expectation such as `exists: false` would pass by accident.
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
            Ok(false) => Some(format!("{name}: expected that `{condition}` holds, and it does not")),
            Err(error) => Some(format!("{name}: {error}")),
        })
    }
}

/// Formats a finding, without a field if it concerns the whole resource.
fn format_finding(finding: &Finding) -> String {
    if finding.field().is_empty() { finding.text() } else { finding.to_string() }
}

/// Returns a failure if no message contains `part`; `None` if at least one message contains `part`.
fn missing_message(expected: &str, part: &str, messages: impl Iterator<Item = String>) -> Option<String> {
    let messages: Vec<String> = messages.collect();
    if messages.iter().any(|text| text.contains(part)) {
        return None;
    }
    let found = if messages.is_empty() { "none".to_owned() } else { messages.join("; ") };
    Some(format!("expected {expected} with {part:?}, found: {found}"))
}
