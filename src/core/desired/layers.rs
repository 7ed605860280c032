//! Builds the layers of values that osdpl merges for one release. Each layer overrides the layers before it.

use super::passwords::{self, plain_text_secret_paths};
use super::source::Source;
use super::{Facts, Finding, Selection, Unavailable, images, sizes};
use crate::api::{OpenStackDeploymentSpec, Overrides, ValuesKind};
use crate::catalog::{Body, Catalog, Fragment, Group, Level, SECRET_MARK, credentials_in};
use osdpl_values::expr::{Error, Work};
use osdpl_values::{Layer, Origin, Path, Values, leaves, merge_layers};

/// The folder of the catalogue that contains the features. Fragments of features copy settings from the spec into
/// values. So osdpl searches the layers that come from this folder for passwords that a user wrote into the spec.
const FEATURES: &str = "values/features/";

/// The available layers of a release, and the reasons why osdpl can't run helm for the release, such as a layer that is
/// not available.
pub(super) struct Stack {
    /// The available layers; each layer overrides the layers before it.
    pub layers: Vec<Layer>,
    /// The reasons why osdpl can't run helm for the release; empty if it can run helm.
    pub problems: Vec<Finding>,
    /// Whether all layers are available. If the spec names an invalid path in `unset`, the stack still counts as
    /// complete, because osdpl can check the values without this path.
    pub is_complete: bool,
}

/// Returns the layers of release `name`; each layer overrides the layers before it.
///
/// # Errors
/// Returns a finding for each layer that is not available, and for each invalid path in `unset`. Any of these findings
/// prevents osdpl from running helm for the release.
pub fn layers(
    name: &str,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
    facts: &Facts,
) -> Result<Vec<Layer>, Vec<Finding>> {
    let Some((service, release)) = catalog.release(name) else { return Ok(Vec::new()) };
    let common = super::variables::common(catalog, selection, facts);
    let scope = super::variables::scope(&common, facts, name);
    let passwords = &passwords::find_passwords(&selection.features);
    let Stack { mut layers, problems, .. } =
        Source { spec, catalog, selection, facts, service, name, release, passwords, scope: &scope }.layers();
    if !problems.is_empty() {
        return Err(problems);
    }
    let per_node = super::per_node::layer(spec, catalog, name, &scope, || merge_layers(&layers), &mut Vec::new());
    layers.extend(per_node);
    Ok(layers)
}

impl Source<'_> {
    pub(super) fn layers(&self) -> Stack {
        let (mut layers, mut problems, mut unset_errors) = (Vec::new(), Vec::new(), Vec::new());
        self.catalogue(&mut layers, &mut problems);
        let presets = self.spec.presets.iter().filter_map(|name| self.catalog.presets.get(name));
        presets.for_each(|preset| self.fragments(&preset.fragments, &mut layers, &mut problems));
        for feature in self.catalog.features.values() {
            self.fragments(&feature.fragments, &mut layers, &mut problems);
        }
        layers.extend(sizes::layer(self, &layers));
        let chart = self.facts.charts.get(self.name).and_then(|chart| chart.as_ref().ok());
        layers.extend(images::layer(&self.spec.images, &layers, chart));
        self.add_spec_layers(&mut layers, &mut problems, &mut unset_errors);
        layers.retain(|layer| !layer.is_empty());
        let is_complete = problems.is_empty();
        problems.extend(unset_errors);
        Stack { layers, problems, is_complete }
    }

    /// Adds the layers of the catalogue, except for the layers of presets and features.
    fn catalogue(&self, layers: &mut Vec<Layer>, problems: &mut Vec<Finding>) {
        self.fragments(&self.catalog.shared, layers, problems);
        let file = self.catalog.services.get(self.service).map_or("", |service| service.file.as_str());
        let field = format!("releases.{}.values", self.name);
        self.body(&self.release.base, file, &field, layers, problems);
        self.fragments(&self.release.fragments, layers, problems);
        if let Some(openstack) = self.catalog.openstack.get(&self.spec.openstack_release) {
            self.fragments(&openstack.fragments, layers, problems);
        }
    }

    fn fragments(&self, fragments: &[Fragment], layers: &mut Vec<Layer>, problems: &mut Vec<Finding>) {
        for fragment in fragments {
            if self.scope.is_exhausted() {
                // Each further value would exceed the limit, too. Do not read it from the catalogue, because the
                // catalogue then keeps it in memory for this release.
                problems.push(exhausted());
                return;
            }
            let Some(body) = fragment.body(self.name) else { continue };
            let location = self.catalog.file_location(&fragment.file);
            let field = format_args!("{location} {}", fragment.field);
            let when = fragment.when.as_ref();
            if let Some(problem) = when.and_then(|when| self.unreadable_facts(when.source())) {
                problems.push(problem);
            } else if super::conditions::holds(when, self.scope, location, &field, problems) {
                self.body(body, &fragment.file, &fragment.field, layers, problems);
            }
        }
    }

    fn body(&self, body: &Body, file: &str, field: &str, layers: &mut Vec<Layer>, problems: &mut Vec<Finding>) {
        let origin = Origin::File { file: file.to_owned(), field: field.to_owned() };
        match body.layer(origin, self.scope) {
            Ok(mut layer) => {
                if file.starts_with(FEATURES) {
                    layer.plain_text = passwords::find_paths(&layer, self.passwords);
                } else if self.catalog.added.contains_key(file) {
                    layer.plain_text = plain_text_secret_paths(&layer.values);
                }
                layer.secret.extend_from_slice(&layer.plain_text);
                layers.push(layer);
            }
            Err((path, error)) => {
                problems.push(self.problem(format!("{} {field}.{path}", self.catalog.file_location(file)), &error));
            }
        }
    }

    /// Returns a finding if an expression reads facts of a release's Jobs (`facts.…`) that osdpl can't read.
    fn unreadable_facts(&self, expression: &str) -> Option<Finding> {
        let (release, problem) = super::job_facts::unreadable(expression, self.facts)?;
        let field = format!("the facts of release {release}");
        Some(Finding::new(Level::Error, field, problem.to_string()))
    }

    /// Returns the finding about an expression that failed.
    ///
    /// If the expression failed because a Secret, a credential, a job fact or Ceph is not available, the finding names
    /// what is missing, and not the CEL error.
    pub(super) fn problem(&self, location: String, error: &Error) -> Finding {
        if let Error::UnavailableSecret { name, key, .. } = error {
            return self.unread(location, name, key);
        }
        if let Error::TooMuch(problem) = error {
            return Finding::new(Level::Error, location, problem.clone());
        }
        if let Some(problem) = self.unreadable_facts(error.expression()) {
            return problem;
        }
        let declared = self.facts.ceph.as_ref();
        let ceph_problem = |name: &str| declared.and_then(|declared| declared.missing_reason(name));
        if let Some(message) = crate::ceph::ceph_names_in(error.expression()).find_map(ceph_problem) {
            return Finding::new(Level::Error, "spec.features.storage.ceph", message);
        }
        let mut used = credentials_in(error.expression());
        let missing = used.find_map(|(service, name)| {
            let problem = self.facts.missing.get(&(service.to_owned(), name.to_owned()))?;
            Some((format!("credential {service}.{name}"), problem.clone()))
        });
        let (field, message) = missing.unwrap_or_else(|| {
            let remedy = if super::conditions::is_added(&location) {
                "correct the expression, or set the fields of the spec that the expression reads"
            } else {
                "set the fields of the spec that the expression reads, or report this bug of the catalogue"
            };
            (location, format!("{error}; {remedy}"))
        });
        Finding::new(Level::Error, field, message)
    }

    /// Returns the finding that osdpl does not have the content of the key `key` of the Secret `name`. The finding
    /// refers to the field of the spec that names the Secret and the key or, if there is no such field, to `location`.
    fn unread(&self, location: String, name: &str, key: &str) -> Finding {
        let field = self.selection.secrets.iter().find(|field| field.name == name && field.key == key);
        let problem = self.facts.secrets.get(&(name.to_owned(), key.to_owned()));
        let (field, message) = match (field, problem) {
            (Some(field), Some(Err(problem))) => (field.field.clone(), problem.to_string()),
            (Some(field), _) => (field.field.clone(), format!("osdpl is still reading key {key:?} of Secret {name}")),
            (None, _) => (
                location,
                format!(
                    "osdpl does not read key {key:?} of Secret {name}, because no field with the mark {SECRET_MARK} in \
                     a feature's schema names the key; mark the field in the catalogue"
                ),
            ),
        };
        Finding::new(Level::Error, field, message)
    }

    /// Adds the layers of `spec.common` and `spec.services` that apply to this release.
    ///
    /// Adds errors about invalid paths in `unset` to `unset_errors`, and all other errors to `problems`. An error in
    /// `problems` means that a layer is missing, so osdpl can't check the values. An error in `unset_errors` does not
    /// prevent the check.
    fn add_spec_layers(&self, layers: &mut Vec<Layer>, problems: &mut Vec<Finding>, unset_errors: &mut Vec<Finding>) {
        let common = &self.spec.common;
        add_overrides(&common.all, "spec.common", layers, unset_errors);
        let group = self.catalog.services.get(self.service).map(|service| service.group);
        match group {
            Some(Group::Infra) => add_overrides(&common.infra, "spec.common.infra", layers, unset_errors),
            Some(Group::Openstack) => add_overrides(&common.openstack, "spec.common.openstack", layers, unset_errors),
            None => {}
        }
        let Some(own) = self.own() else { return };
        let field = format!("spec.services.{}.releases.{}", self.service, self.name);
        for (index, source) in own.values_from.iter().enumerate() {
            let key = source.key.clone().unwrap_or_else(|| "values.yaml".into());
            let field = format!("{field}.valuesFrom[{index}]");
            match self.facts.values_from.get(&(source.kind, source.name.clone(), key.clone())) {
                Some(Ok(values)) => {
                    let origin = Origin::Object(format!("{:?} {}, key {key} ({field})", source.kind, source.name));
                    let mut layer = Layer::new(origin, values.clone());
                    layer.secret =
                        if source.kind == ValuesKind::Secret { all(values) } else { plain_text_secret_paths(values) };
                    layers.push(layer);
                }
                Some(Err(Unavailable::Missing(_))) if source.optional => {}
                Some(Err(problem)) => {
                    problems.push(Finding::new(Level::Error, field, problem.to_string()));
                }
                None => {}
            }
        }
        add_overrides(&own.overrides, &field, layers, unset_errors);
    }
}

/// Returns the finding about the values that osdpl leaves out because [`Work::OF_ALL`] is exceeded.
fn exhausted() -> Finding {
    let Work { steps, bytes } = Work::OF_ALL;
    let message = format!(
        "the values are incomplete, because all values and expressions together need more than {steps} steps or {} \
         MiB; shorten the values and expressions in the additions",
        bytes >> 20
    );
    Finding::new(Level::Error, "the catalogue", message)
}

/// Returns the paths of all values in a layer that comes from a Secret. osdpl treats each of these values as secret.
/// Leaves out empty maps. An empty map contains no secret, and other layers may set public values below it.
fn all(values: &Values) -> Vec<Path> {
    let set = leaves(values).into_iter().filter(|(_, value)| !value.is_object());
    set.map(|(path, _)| path).collect()
}

/// Adds the layer with `overrides.values` and `overrides.unset`. `field` is the path of `overrides` in the spec.
fn add_overrides(overrides: &Overrides, field: &str, layers: &mut Vec<Layer>, unset_errors: &mut Vec<Finding>) {
    if overrides.values.is_empty() && overrides.unset.is_empty() {
        return;
    }
    let mut layer = Layer::new(Origin::Field(format!("{field}.values")), overrides.values.clone());
    layer.secret = plain_text_secret_paths(&overrides.values);
    for (index, text) in overrides.unset.iter().enumerate() {
        match Path::parse(text) {
            Ok(path) => layer.unset.push((index, path)),
            Err(error) => {
                unset_errors.push(Finding::new(Level::Error, format!("{field}.unset[{index}]"), error.to_string()));
            }
        }
    }
    layers.push(layer);
}
