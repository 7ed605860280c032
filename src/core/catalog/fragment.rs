//! Conditional values. They are stored as texts and parsed when they are used, because a cloud uses only a part of
//! them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::Service;
use super::file::{self, Group};
use super::keys::Keys;
use osdpl_values::expr::{self, Expression, Scope, Template};
use osdpl_values::{Digest, Layer, Origin, Path, PathError, Values, canonical};

/// Conditional values for some releases.
#[derive(Debug)]
pub struct Fragment {
    /// The file it was read from.
    pub file: String,
    /// The field in the file: `fragments[2]`.
    pub field: String,
    /// The reason.
    pub why: String,
    /// The condition; unconditional if `None`.
    pub when: Option<Expression>,
    /// Values for the named releases.
    pub named: BTreeMap<String, Body>,
    /// Values for every release.
    pub every: Option<ValuesForEvery>,
}

impl Fragment {
    /// Returns the values for a release.
    pub fn body(&self, release: &str) -> Option<&Body> {
        self.named.get(release).or_else(|| self.every.as_ref()?.body(release))
    }
}

/// The releases and charts that values for every release apply to.
#[derive(Debug, Default)]
pub struct ReleaseIndex {
    releases: BTreeMap<String, IndexedRelease>,
    /// The known keys of the charts.
    pub keys: Keys,
}

#[derive(Debug)]
struct IndexedRelease {
    position: usize,
    service: String,
    chart: String,
    group: Group,
    digest: OnceLock<Digest>,
}

impl ReleaseIndex {
    /// Collects the releases of all services.
    pub(super) fn new(services: &BTreeMap<String, Service>, keys: Keys) -> Self {
        let mut releases = BTreeMap::new();
        for (service, entry) in services {
            for (name, release) in &entry.releases {
                let (position, service, chart) = (releases.len(), service.clone(), release.chart.clone());
                let release = IndexedRelease { position, service, chart, group: entry.group, digest: OnceLock::new() };
                releases.entry(name.clone()).or_insert(release);
            }
        }
        Self { releases, keys }
    }

    /// Returns the service of a release.
    pub(super) fn service(&self, release: &str) -> Option<&String> {
        Some(&self.releases.get(release)?.service)
    }

    /// Returns the cached digest of a release. It is computed once.
    pub(super) fn digest(&self, release: &str, make: impl FnOnce() -> Digest) -> Digest {
        match self.releases.get(release) {
            Some(release) => release.digest.get_or_init(make).clone(),
            None => make(),
        }
    }
}

/// Values for every release, without the keys that its chart does not have.
#[derive(Debug)]
pub struct ValuesForEvery {
    /// All values, unfiltered.
    pub unfiltered: Body,
    group: Option<Group>,
    except: Vec<String>,
    release_index: Arc<ReleaseIndex>,
    /// The filtered values per release index, computed on demand.
    bodies: Box<[OnceLock<Option<Box<Body>>>]>,
}

impl ValuesForEvery {
    /// Creates the values from a file's entry.
    pub fn new(entry: file::EveryRelease, release_index: &Arc<ReleaseIndex>) -> Self {
        let file::EveryRelease { group, except, values } = entry;
        let bodies = release_index.releases.values().map(|_| OnceLock::new()).collect();
        let unfiltered = Body::new(&values.into(), Vec::new());
        Self { unfiltered, group, except, release_index: Arc::clone(release_index), bodies }
    }

    /// Returns the values for a release; `None` if none are left.
    pub fn body(&self, release: &str) -> Option<&Body> {
        let IndexedRelease { position, chart, group, .. } = self.release_index.releases.get(release)?;
        if self.group.is_some_and(|wanted| wanted != *group) || self.except.iter().any(|other| other == release) {
            return None;
        }
        let filtered = || {
            let tree = self.release_index.keys.get(chart)?;
            let known = tree.filter_known(&self.unfiltered.values());
            (!known.is_empty()).then(|| Box::new(Body::new(&known.into(), Vec::new())))
        };
        self.bodies.get(*position)?.get_or_init(filtered).as_deref()
    }
}

/// Values and removals for one release.
#[derive(Debug)]
pub struct Body {
    /// Paths set to null.
    pub unset: Vec<Path>,
    /// The values as canonical JSON, followed by the removed paths. Equal content gives equal text. Part of the
    /// catalogue's digest.
    pub source: Box<str>,
    template: OnceLock<Template>,
}

impl Body {
    /// Creates a body. Expressions in the values are compiled when they are first evaluated.
    pub fn new(values: &serde_json::Value, unset: Vec<(String, Path)>) -> Self {
        let (texts, unset): (Vec<String>, Vec<Path>) = unset.into_iter().unzip();
        Self { source: format!("{}{texts:?}", canonical(values)).into(), unset, template: OnceLock::new() }
    }

    /// Returns the values as written, with expressions.
    pub fn values(&self) -> Values {
        // The text starts with a serialized map, followed by the removed paths.
        serde_json::Deserializer::from_str(&self.source).into_iter().find_map(Result::ok).unwrap_or_default()
    }

    /// Compiles every expression to check it, without keeping the result.
    ///
    /// # Errors
    /// For the first wrong expression, with its path.
    pub(crate) fn check_expressions(&self) -> Result<(), (Path, expr::Error)> {
        Template::compile(self.values()).map(drop)
    }

    /// Evaluates the body into a layer.
    ///
    /// # Errors
    /// For the first expression that is wrong or fails, with its path.
    pub fn layer(&self, origin: Origin, scope: &Scope<'_>) -> Result<Layer, (Path, expr::Error)> {
        let (values, secret) = self.template()?.evaluate(scope)?;
        Ok(Layer {
            origin,
            values,
            unset: self.unset.iter().cloned().enumerate().collect(),
            secret,
            plain_text: Vec::new(),
        })
    }

    fn template(&self) -> Result<&Template, (Path, expr::Error)> {
        if let Some(template) = self.template.get() {
            return Ok(template);
        }
        let template = Template::compile(self.values())?;
        Ok(self.template.get_or_init(|| template))
    }

    /// Returns every expression that is a whole scalar, with its path. From such a path a credential can be read back.
    pub fn whole_scalar_expressions(&self) -> Vec<(Path, String)> {
        Template::whole_scalar_expressions(&self.values())
    }
}

/// Parses a list of paths and keeps each text.
///
/// # Errors
/// For the first invalid path.
pub(super) fn parse_paths(texts: Vec<String>) -> Result<Vec<(String, Path)>, PathError> {
    texts.into_iter().map(|text| Path::parse(&text).map(|path| (text, path))).collect()
}
