//! Fragments: values that a catalogue file sets in one or more releases, with an optional condition.
//!
//! A cloud uses only some of the fragments. So, to save memory, the catalogue keeps the values as JSON text and parses
//! them on first use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::Service;
use super::file::{self, Group};
use super::keys::{KeyTree, Keys};
use osdpl_values::expr::{self, Expression, Scope, Template};
use osdpl_values::{Digest, Layer, Origin, Path, PathError, Values, canonical};

/// Values that a catalogue file sets in some or all releases if a condition holds.
#[derive(Debug)]
pub struct Fragment {
    /// The path of the file that contains the fragment.
    pub file: String,
    /// The path of the fragment within the file, such as `fragments[2]`.
    pub field: String,
    /// The text that tells users why the catalogue sets the values.
    pub why: String,
    /// The condition under which the values apply; `None` if they always apply.
    pub when: Option<Expression>,
    /// The values for single releases, by the release's name. `Box` saves memory: a map allocates space for eleven
    /// entries at once, but most fragments have only one entry.
    pub named: BTreeMap<String, Box<Body>>,
    /// The values for every release; `None` if the fragment only sets values of single releases. Each release gets only
    /// the keys that its chart has.
    pub every: Option<ValuesForEvery>,
}

impl Fragment {
    /// Returns the values that the fragment sets in a release; `None` if it sets none.
    pub fn body(&self, release: &str) -> Option<&Body> {
        self.named.get(release).map(Box::as_ref).or_else(|| self.every.as_ref()?.body(release))
    }
}

/// All releases of the catalogue, and the key trees of their charts.
///
/// A fragment can contain values for every release. With this index, osdpl determines which of these values a release
/// gets: those whose keys the release's chart knows.
#[derive(Debug, Default)]
pub struct ReleaseIndex {
    releases: BTreeMap<String, IndexedRelease>,
    /// The key trees of all charts: the keys that `values.yaml` contains or that the templates read.
    pub keys: Keys,
}

/// The data that a `ReleaseIndex` stores about one release of the catalogue, such as its service, chart and group.
#[derive(Debug)]
struct IndexedRelease {
    position: usize,
    service: String,
    chart: String,
    group: Group,
    digest: OnceLock<Digest>,
    /// The credentials that expressions can insert into the values of the release, as pairs of service and credential
    /// name.
    credentials: OnceLock<Box<[(String, String)]>>,
}

impl ReleaseIndex {
    /// Indexes the releases of all services.
    pub(super) fn new(services: &BTreeMap<String, Service>, keys: Keys) -> Self {
        let mut releases = BTreeMap::new();
        for (service, entry) in services {
            for (name, release) in &entry.releases {
                let (position, service, chart) = (releases.len(), service.clone(), release.chart.clone());
                let (group, digest, credentials) = (entry.group, OnceLock::new(), OnceLock::new());
                let release = IndexedRelease { position, service, chart, group, digest, credentials };
                releases.entry(name.clone()).or_insert(release);
            }
        }
        Self { releases, keys }
    }

    /// Returns the name of the service that a release belongs to; `None` for an unknown release.
    pub(super) fn service(&self, release: &str) -> Option<&String> {
        Some(&self.releases.get(release)?.service)
    }

    /// Returns the digest of everything in the catalogue that can set values of a release. Calls `make`, which computes
    /// the digest, only once per release.
    pub(super) fn digest(&self, release: &str, make: impl FnOnce() -> Digest) -> Digest {
        match self.releases.get(release) {
            Some(release) => release.digest.get_or_init(make).clone(),
            None => make(),
        }
    }

    /// Returns the credentials that expressions can insert into the values of a release, as pairs of service and
    /// credential name; an empty list for an unknown release. Calls `find`, which determines the credentials, only once
    /// per release.
    pub(super) fn credentials(
        &self,
        release: &str,
        find: impl FnOnce() -> BTreeSet<(String, String)>,
    ) -> &[(String, String)] {
        let release = self.releases.get(release);
        release.map(|release| &**release.credentials.get_or_init(|| find().into_iter().collect())).unwrap_or_default()
    }
}

/// Values that a fragment sets in every release. Each release gets only the keys that its chart has.
#[derive(Debug)]
pub struct ValuesForEvery {
    /// The values as the file contains them, including keys that some charts do not know.
    pub unfiltered: Body,
    group: Option<Group>,
    except: Vec<String>,
    release_index: Arc<ReleaseIndex>,
    /// For each release, the part of `unfiltered` that the release gets, computed on first use. The index in the slice
    /// is the release's `IndexedRelease::position`.
    bodies: Box<[OnceLock<Option<Box<Body>>>]>,
}

impl ValuesForEvery {
    /// Creates the values from the field `every` of a fragment in a catalogue file.
    pub fn new(entry: file::EveryRelease, release_index: &Arc<ReleaseIndex>) -> Self {
        let file::EveryRelease { group, except, values } = entry;
        let bodies = release_index.releases.values().map(|_| OnceLock::new()).collect();
        let unfiltered = Body::new(&values.into(), Vec::new());
        Self { unfiltered, group, except, release_index: Arc::clone(release_index), bodies }
    }

    /// Returns the values for a release; `None` if the fragment is for another group or excludes the release, or if the
    /// release's chart has none of the keys in the values.
    pub fn body(&self, release: &str) -> Option<&Body> {
        let IndexedRelease { position, chart, group, .. } = self.release_index.releases.get(release)?;
        if self.group.is_some_and(|wanted| wanted != *group) || self.except.iter().any(|other| other == release) {
            return None;
        }
        let filtered = || {
            let filter = |tree: &KeyTree| tree.filter_known(&self.unfiltered.values());
            let known = self.release_index.keys.read(chart, filter)?;
            (!known.is_empty()).then(|| Box::new(Body::new(&known.into(), Vec::new())))
        };
        self.bodies.get(*position)?.get_or_init(filtered).as_deref()
    }
}

/// The values that a fragment or a service sets in one release, and the paths at which it removes the chart's defaults.
#[derive(Debug)]
pub struct Body {
    /// The paths in the values at which osdpl removes the chart's default value, by setting them to null.
    pub unset: Vec<Path>,
    /// The values as canonical JSON, followed by the paths in `unset`. Two `Body`s with the same content have the same
    /// text, so osdpl computes digests of the catalogue over this text.
    pub source: Box<str>,
    template: OnceLock<Template>,
}

impl Body {
    /// Creates a `Body` with values from a catalogue file. `unset` contains the paths at which osdpl removes the
    /// chart's default, each as text and as [`Path`]. osdpl compiles the expressions in `values` later, when it first
    /// evaluates them.
    pub fn new(values: &serde_json::Value, unset: Vec<(String, Path)>) -> Self {
        let (texts, unset): (Vec<String>, Vec<Path>) = unset.into_iter().unzip();
        Self { source: format!("{}{texts:?}", canonical(values)).into(), unset, template: OnceLock::new() }
    }

    /// Returns the values as in the file, with unevaluated expressions.
    pub fn values(&self) -> Values {
        // `source` contains two JSON documents: the values, and then the paths in `unset`. So parse only the first.
        serde_json::Deserializer::from_str(&self.source).into_iter().find_map(Result::ok).unwrap_or_default()
    }

    /// Checks that every expression can be compiled. The method does not keep the compiled expressions, to save memory.
    ///
    /// # Errors
    /// Returns the first expression that can't be compiled, with its path.
    pub(crate) fn check_expressions(&self) -> Result<(), (Path, expr::Error)> {
        Template::compile(self.values()).map(drop)
    }

    /// Evaluates the expressions in the values, and returns the result as a layer.
    ///
    /// # Errors
    /// Returns the first expression that can't be compiled or evaluated, with its path.
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

    /// Returns the path and the expression of each value that consists of exactly one expression.
    ///
    /// During an adoption, osdpl uses these paths to find the credentials of an existing cloud. If the catalogue sets a
    /// path to an expression that reads a credential, the values of the running release contain this credential at the
    /// same path.
    pub fn whole_scalar_expressions(&self) -> Vec<(Path, String)> {
        Template::whole_scalar_expressions(&self.values())
    }
}

/// Parses a list of paths, and returns each text with the parsed path.
///
/// # Errors
/// Returns the error of the first malformed path.
pub(super) fn parse_paths(texts: Vec<String>) -> Result<Vec<(String, Path)>, PathError> {
    texts.into_iter().map(|text| Path::parse(&text).map(|path| (text, path))).collect()
}
