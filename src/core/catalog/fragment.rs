//! Values under a condition. They are kept as texts: of all that a catalogue could say, a cloud asks for a part.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::Service;
use super::file::{self, Group};
use super::keys::Keys;
use osdpl_values::expr::{self, Expression, Scope, Template};
use osdpl_values::{Digest, Layer, Origin, Path, PathError, Values, canonical};

/// Values under a condition, for some releases.
#[derive(Debug)]
pub struct Fragment {
    /// The file it was read from.
    pub file: String,
    /// The field in the file: `fragments[2]`.
    pub field: String,
    /// The reason, for people.
    pub why: String,
    /// The condition; always where `None`.
    pub when: Option<Expression>,
    /// What releases get that it names.
    pub named: BTreeMap<String, Body>,
    /// What every release gets.
    pub every: Option<Every>,
}

impl Fragment {
    /// What a release gets.
    pub fn body(&self, release: &str) -> Option<&Body> {
        self.named.get(release).or_else(|| self.every.as_ref()?.body(release))
    }
}

/// Whom values for every release reach.
#[derive(Debug, Default)]
pub struct Reach {
    releases: BTreeMap<String, Reached>,
    /// What keys each chart knows.
    pub keys: Keys,
}

#[derive(Debug)]
struct Reached {
    index: usize,
    service: String,
    chart: String,
    group: Group,
    said: OnceLock<Digest>,
}

impl Reach {
    /// The releases of all services.
    pub(super) fn new(services: &BTreeMap<String, Service>, keys: Keys) -> Self {
        let mut releases = BTreeMap::new();
        for (service, entry) in services {
            for (name, release) in &entry.releases {
                let (index, service, chart) = (releases.len(), service.clone(), release.chart.clone());
                let reached = Reached { index, service, chart, group: entry.group, said: OnceLock::new() };
                releases.entry(name.clone()).or_insert(reached);
            }
        }
        Self { releases, keys }
    }

    /// The service that a release belongs to.
    pub(super) fn service(&self, release: &str) -> Option<&String> {
        Some(&self.releases.get(release)?.service)
    }

    /// What was made for a release, which is made once.
    pub(super) fn said(&self, release: &str, make: impl FnOnce() -> Digest) -> Digest {
        match self.releases.get(release) {
            Some(reached) => reached.said.get_or_init(make).clone(),
            None => make(),
        }
    }
}

/// Values for every release, without the keys that its chart does not know.
#[derive(Debug)]
pub struct Every {
    /// All of them.
    pub whole: Body,
    group: Option<Group>,
    except: Vec<String>,
    reach: Arc<Reach>,
    /// What was asked for, by the number of the release.
    bodies: Box<[OnceLock<Option<Box<Body>>>]>,
}

impl Every {
    /// Values as a file has them.
    pub fn new(entry: file::Every, reach: &Arc<Reach>) -> Self {
        let file::Every { group, except, values } = entry;
        let bodies = reach.releases.values().map(|_| OnceLock::new()).collect();
        Self { whole: Body::new(&values.into(), Vec::new()), group, except, reach: Arc::clone(reach), bodies }
    }

    /// What is left for a release; `None` where that is nothing.
    pub fn body(&self, release: &str) -> Option<&Body> {
        let Reached { index, chart, group, .. } = self.reach.releases.get(release)?;
        if self.group.is_some_and(|wanted| wanted != *group) || self.except.iter().any(|other| other == release) {
            return None;
        }
        let left = || {
            let tree = self.reach.keys.get(chart)?;
            let known = tree.known(&self.whole.values());
            (!known.is_empty()).then(|| Box::new(Body::new(&known.into(), Vec::new())))
        };
        self.bodies.get(*index)?.get_or_init(left).as_deref()
    }
}

/// Values and removals for one release.
#[derive(Debug)]
pub struct Body {
    /// Paths set to null.
    pub unset: Vec<Path>,
    /// The values as canonical JSON and then what is removed, one spelling for equal texts: part of the catalogue's digest.
    pub source: Box<str>,
    template: OnceLock<Template>,
}

impl Body {
    /// Values with expressions in them, which are compiled when they are first evaluated.
    pub fn new(values: &serde_json::Value, unset: Vec<(String, Path)>) -> Self {
        let (texts, unset): (Vec<String>, Vec<Path>) = unset.into_iter().unzip();
        Self { source: format!("{}{texts:?}", canonical(values)).into(), unset, template: OnceLock::new() }
    }

    /// The values as they are written, expressions and all.
    pub fn values(&self) -> Values {
        // The text was made of such a map, and what is removed stands behind it.
        serde_json::Deserializer::from_str(&self.source).into_iter().find_map(Result::ok).unwrap_or_default()
    }

    /// Compiles every expression, and keeps none.
    ///
    /// # Errors
    /// For the first wrong one, with its path.
    pub fn check(&self) -> Result<(), (Path, expr::Error)> {
        Template::compile(self.values()).map(drop)
    }

    /// Evaluates the body into a layer.
    ///
    /// # Errors
    /// For the first expression that is wrong or fails, with its path.
    pub fn layer(&self, origin: Origin, scope: &Scope<'_>) -> Result<Layer, (Path, expr::Error)> {
        let (values, secret) = self.template()?.evaluate(scope)?;
        Ok(Layer { origin, values, unset: self.unset.iter().cloned().enumerate().collect(), secret, clear: Vec::new() })
    }

    fn template(&self) -> Result<&Template, (Path, expr::Error)> {
        if let Some(template) = self.template.get() {
            return Ok(template);
        }
        let template = Template::compile(self.values())?;
        Ok(self.template.get_or_init(|| template))
    }

    /// Every expression that is the whole of a scalar, with its path: where a credential can be read back from.
    pub fn whole(&self) -> Vec<(Path, String)> {
        Template::whole(&self.values())
    }
}

/// The paths in a list of them, each with its text.
///
/// # Errors
/// For the first that is none.
pub fn paths(texts: Vec<String>) -> Result<Vec<(String, Path)>, PathError> {
    texts.into_iter().map(|text| Path::parse(&text).map(|path| (text, path))).collect()
}
