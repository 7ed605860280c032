//! A cloud beside what is expected of it.

use std::rc::Rc;

use anyhow::bail;
use serde_json::{Value, json};

use super::case::Expectation;
use super::value::Asked;
use crate::common::Document;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level, did_you_mean};
use osdpl_core::desired::{Desired, DesiredRelease, Known, known, other_version, resolve, select};
use osdpl_core::observed::Site;
use osdpl_lint::rule::{Judged, Kind, Question, Schemas, keys_of, made_up_beside, read_spec};
use osdpl_values::expr::{Expression, Scope};
use osdpl_values::{Path, Values, get};

/// What clouds are judged by.
pub struct Basis {
    pub catalog: Catalog,
    pub schemas: Schemas,
}

/// The resource that a case is about.
pub struct Subject {
    /// As the case has it.
    pub object: Value,
    /// The file that it stands in; none where its spec stands in the case.
    pub document: Option<Document>,
    /// Whether the case changes what stands there.
    pub is_changed: bool,
}

impl Subject {
    /// A spec that stands in the case itself.
    pub fn written(spec: &Values) -> Self {
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

/// A cloud, by made-up credentials.
pub struct Cloud {
    basis: Rc<Basis>,
    subject: Subject,
    spec: Option<OpenStackDeploymentSpec>,
    desired: Desired,
    /// What is said of the resource: what `osdpl validate` says.
    judged: Vec<Judged>,
    scope: Scope<'static>,
}

impl Cloud {
    /// The cloud of this resource.
    pub fn new(subject: Subject, basis: Rc<Basis>) -> Self {
        let Basis { catalog, schemas } = &*basis;
        let (object, beside) = (&subject.object, subject.beside());
        let question = Question { catalog, schemas, beside, site: &Site::default(), now: None };
        let judged = question.document(Kind::OpenStackDeployment, object);
        let (mut desired, mut scope) = (Desired::default(), Scope::new(Values::new()));
        // What has no sound shape is refused, and means nothing.
        let spec = read_spec(object).ok();
        if let Some(spec) = &spec {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
            let selection = select(text("name"), text("namespace"), spec, catalog);
            if !selection.is_refused() {
                desired = resolve(spec, catalog, &selection, &made_up_beside(spec, catalog, &selection, beside));
            }
            scope = selection.scope;
        }
        Self { basis, subject, spec, desired, judged, scope }
    }

    /// Why it is refused, with the lines of its file where the case leaves that as it stands.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        let document = self.subject.document.as_ref().filter(|_| !self.subject.is_changed);
        let refused = self.judged.iter().filter(|judged| judged.level == Level::Error);
        refused.map(move |judged| {
            let keys = keys_of(&judged.field);
            let place = document.map(|document| document.line(keys.iter().map(String::as_str)) + ": ");
            place.unwrap_or_default() + &told(judged)
        })
    }

    fn said(&self, level: Level) -> impl Iterator<Item = String> {
        self.judged.iter().filter(move |judged| judged.level == level).map(told)
    }

    /// How an expectation fails; `None` where it holds.
    ///
    /// # Errors
    /// What is wrong with the expectation itself.
    pub fn judge(&self, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let Expectation { refused, warns, wanted, holds, .. } = expectation;
        if let Some(text) = refused {
            return Ok(within("to be refused", text, self.said(Level::Error)));
        }
        if let Some(text) = warns {
            return Ok(within("a warning", text, self.said(Level::Warning)));
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

    /// What is said of a value that nobody sets and the chart does not know is a slip of the pen, and would hold, or not, for that alone.
    fn value(&self, name: &str, release: &DesiredRelease, expectation: &Expectation) -> anyhow::Result<Option<String>> {
        let path = Path::parse(expectation.path.as_deref().unwrap_or_default())?;
        let is_locked = |spec| other_version(spec, &self.basis.catalog, name).is_none();
        let is_known = self.spec.as_ref().is_some_and(is_locked);
        if get(&release.values, &path).is_none()
            && is_known
            && let Some(Known::No(hint)) = known(&self.basis.catalog, &release.chart, &path)
        {
            bail!("nobody sets {path}, and chart {} does not know it{hint}; correct the path", release.chart);
        }
        let tree = self.basis.catalog.keys().get(&release.chart).filter(|_| is_known);
        Ok(Asked { name, release, path: &path, tree }.fails(expectation))
    }

    fn condition(&self, name: &str, release: &DesiredRelease, condition: &str) -> anyhow::Result<Option<String>> {
        let values = [("values".to_owned(), Value::Object(release.values.clone()))];
        let expression = Expression::compile(condition)?;
        Ok(match expression.holds(&self.scope.inner(values.into_iter().collect())) {
            Ok(true) => None,
            Ok(false) => Some(format!("{name}: expected that `{condition}` holds, and it does not")),
            Err(error) => Some(format!("{name}: {error}")),
        })
    }
}

/// The field and what is said of it; a message that begins with its field needs it no second time.
fn told(judged: &Judged) -> String {
    if judged.field.is_empty() || judged.message.starts_with(&judged.field) {
        return judged.message.clone();
    }
    format!("{}: {}", judged.field, judged.message)
}

/// Whether one of the texts has this part.
fn within(what: &str, part: &str, said: impl Iterator<Item = String>) -> Option<String> {
    let said: Vec<String> = said.collect();
    if said.iter().any(|text| text.contains(part)) {
        return None;
    }
    let found = if said.is_empty() { "nothing is said".to_owned() } else { said.join("; ") };
    Some(format!("expected {what} with {part:?}, found: {found}"))
}
