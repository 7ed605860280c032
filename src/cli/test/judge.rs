//! Resolves the cloud of a case and checks expectations.

use std::rc::Rc;

use anyhow::bail;
use serde_json::{Value, json};

use super::case::Expectation;
use super::value::CheckedValue;
use crate::common::Document;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level, did_you_mean};
use osdpl_core::desired::{Desired, DesiredRelease, KeyState, classify_key, overridden_chart_version};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::Evaluation;
use osdpl_lint::validate::{Kind, ReviewInput, Schemas, keys_of_field, read_spec};
use osdpl_values::expr::{Expression, Scope};
use osdpl_values::{Path, Values, get};

/// The catalogue and its schemas.
pub struct Basis {
    pub catalog: Catalog,
    pub schemas: Schemas,
}

/// The resource of a case.
pub struct Subject {
    /// The resource with the changes of the case.
    pub object: Value,
    /// The file of the resource; `None` if the case contains the spec.
    pub document: Option<Document>,
    /// Whether the case changes the file's resource.
    pub is_changed: bool,
}

impl Subject {
    /// Creates a resource from a spec in the case itself.
    pub fn from_spec(spec: &Values) -> Self {
        let object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": spec,
        });
        Self { object, document: None, is_changed: false }
    }

    fn beside(&self) -> &[Value] {
        self.document.as_ref().map_or(&[], |document| document.beside.as_slice())
    }
}

/// A cloud, resolved with placeholder credentials.
pub struct Cloud {
    basis: Rc<Basis>,
    subject: Subject,
    spec: Option<OpenStackDeploymentSpec>,
    desired: Desired,
    /// The findings of `osdpl validate` about the resource.
    judged: Vec<Finding>,
    scope: Scope<'static>,
}

impl Cloud {
    /// Resolves this resource.
    pub fn new(subject: Subject, basis: Rc<Basis>) -> Self {
        let Basis { catalog, schemas } = &*basis;
        let (object, beside) = (&subject.object, subject.beside());
        let validator =
            ReviewInput { catalog, schemas, manifests: beside, cluster_info: &ClusterInfo::default(), now: None };
        let (judged, evaluation) = validator.review(Kind::OpenStackDeployment, object);
        // A resource that is not well-formed is refused and not evaluated.
        let spec = read_spec(object).ok();
        let (desired, scope) = match evaluation.filter(|_| spec.is_some()) {
            Some(Evaluation { selection, desired, .. }) if !selection.is_refused() => (desired, selection.scope),
            Some(Evaluation { selection, .. }) => (Desired::default(), selection.scope),
            None => (Desired::default(), Scope::new(Values::new())),
        };
        Self { basis, subject, spec, desired, judged, scope }
    }

    /// Returns the errors of the resource, with their lines if the case does not change it.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        let document = self.subject.document.as_ref().filter(|_| !self.subject.is_changed);
        let refused = self.judged.iter().filter(|judged| judged.level == Level::Error);
        refused.map(move |judged| {
            let keys = keys_of_field(&judged.location.field);
            let place = document.map(|document| document.line(keys.iter().map(String::as_str)) + ": ");
            place.unwrap_or_default() + &format_finding(judged)
        })
    }

    fn messages(&self, level: Level) -> impl Iterator<Item = String> {
        self.judged.iter().filter(move |judged| judged.level == level).map(format_finding)
    }

    /// Describes how an expectation fails; `None` if it is met.
    ///
    /// # Errors
    /// Describes what is wrong with the expectation itself.
    pub fn check(&self, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let Expectation { refused, warns, wanted, holds, .. } = expectation;
        if let Some(text) = refused {
            return Ok(within("to be refused", text, self.messages(Level::Error)));
        }
        if let Some(text) = warns {
            return Ok(within("a warning", text, self.messages(Level::Warning)));
        }
        let name = expectation.release.as_deref().unwrap_or_default();
        let catalog = &self.basis.catalog;
        if catalog.release(name).is_none() {
            let known = catalog.services.values().flat_map(|service| service.releases.keys());
            let hint = did_you_mean(name, known.map(String::as_str));
            bail!(
                "the catalogue has no release {name:?}{hint}; releases go by the catalogue's names, see `osdpl catalog`"
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
            Some(condition) => self.condition(name, release, condition),
            None => self.value(name, release, expectation),
        }
    }

    /// Checks a value. A path that is neither set nor known to the chart is most likely a typo, and would pass or fail
    /// only because of it.
    fn value(&self, name: &str, release: &DesiredRelease, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let path = Path::parse(expectation.path.as_deref().unwrap_or_default())?;
        let is_locked = |spec| overridden_chart_version(spec, &self.basis.catalog, name).is_none();
        let is_known = self.spec.as_ref().is_some_and(is_locked);
        if get(&release.values, &path).is_none()
            && is_known
            && let Some(KeyState::No(hint)) = classify_key(&self.basis.catalog, &release.chart, &path)
        {
            bail!("no layer sets {path}, and chart {} does not have it{hint}; correct the path", release.chart);
        }
        let tree = self.basis.catalog.keys().get(&release.chart).filter(|_| is_known);
        Ok(CheckedValue { name, release, path: &path, tree }.failure(expectation))
    }

    fn condition(&self, name: &str, release: &DesiredRelease, condition: &str) -> anyhow::Result<Option<String>> {
        let values = [("values".to_owned(), Value::Object(release.values.clone()))];
        let expression = Expression::compile(condition)?;
        Ok(match expression.evaluate_condition(&self.scope.nested(values.into_iter().collect())) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name}: expected that `{condition}` holds, and it does not")),
            Err(error) => Some(format!("{name}: {error}")),
        })
    }
}

/// Formats a finding; that of the whole resource without a field.
fn format_finding(judged: &Finding) -> String {
    if judged.field().is_empty() { judged.text() } else { judged.to_string() }
}

/// Returns `None` if one of the messages contains the expected part.
fn within(what: &str, part: &str, messages: impl Iterator<Item = String>) -> Option<String> {
    let messages: Vec<String> = messages.collect();
    if messages.iter().any(|text| text.contains(part)) {
        return None;
    }
    let found = if messages.is_empty() { "none".to_owned() } else { messages.join("; ") };
    Some(format!("expected {what} with {part:?}, found: {found}"))
}
