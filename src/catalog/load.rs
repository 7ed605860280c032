//! From texts to a [`Catalog`]: every file is read, every expression compiled, every error collected.

mod service;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::fragment::BodyError;
use super::{
    Body, Catalog, Check, Component, Error, Errors, Feature, Files, Fragment, KeyTree, OpenStackRelease, Preset, check,
    file, judgement,
};
use crate::drift::Tolerated;
use crate::expr::Expression;
use crate::values::Values;
use crate::yaml;

impl Catalog {
    /// Reads a whole catalogue.
    ///
    /// # Errors
    /// Everything that is wrong with any file, at once.
    pub fn load(files: &Files) -> Result<Self, Errors> {
        let mut loader = Loader { files, errors: Vec::new(), keys: BTreeMap::new(), charts: Vec::new() };
        let catalog = loader.load();
        if loader.errors.is_empty() {
            loader.errors = check::check(&catalog);
        }
        if loader.errors.is_empty() { Ok(catalog) } else { Err(Errors(loader.errors)) }
    }
}

struct Loader<'a> {
    files: &'a Files,
    errors: Vec<Error>,
    keys: BTreeMap<String, KeyTree>,
    /// (release, chart, group), for fragments that go to every release.
    charts: Vec<(String, String, file::Group)>,
}

impl Loader<'_> {
    fn load(&mut self) -> Catalog {
        self.keys = self.folder("values/keys/").into_iter().collect();
        let services: Vec<(String, file::Service)> = self.folder("values/services/");
        for (_, service) in &services {
            for (name, release) in &service.releases {
                self.charts.push((name.clone(), release.chart.clone().unwrap_or_else(|| name.clone()), service.group));
            }
        }
        let shared: Vec<(String, file::Shared)> = self.folder("values/shared/");
        let shared = shared.into_iter().flat_map(|(name, entry)| {
            self.named("values/shared/", &name, &entry.shared);
            self.fragments(&format!("values/shared/{name}.yaml"), entry.fragments)
        });
        let shared = shared.collect();
        let services: BTreeMap<_, _> =
            services.into_iter().map(|(name, entry)| (name.clone(), self.service(&name, entry))).collect();
        let presets: Vec<(String, file::Preset)> = self.folder("presets/");
        let presets = presets.into_iter().map(|(name, entry)| (name.clone(), self.preset(&name, entry))).collect();
        let features: Vec<(String, file::Feature)> = self.folder("values/features/");
        let features = features.into_iter().map(|(name, entry)| (name.clone(), self.feature(&name, entry))).collect();
        let openstack: Vec<(String, file::OpenStackRelease)> = self.folder("values/openstack/");
        let openstack =
            openstack.into_iter().map(|(name, entry)| (name.clone(), self.openstack(&name, entry))).collect();
        let lock = self.parse::<file::Lock>("values/lock.yaml").map(|lock| lock.charts).unwrap_or_default();
        let tolerated = self.parse::<file::Drift>("values/drift.yaml").unwrap_or_default();
        let tolerated = Tolerated {
            managers: tolerated.managers.into_keys().collect(),
            fields: tolerated.fields.into_keys().collect(),
        };
        let file::Nodes { roles, rollout } = self.parse::<file::Nodes>("values/nodes.yaml").unwrap_or_default();
        let keys = std::mem::take(&mut self.keys);
        let judgements = judgement::read(self.files, &services, &keys, &mut self.errors);
        Catalog { services, presets, features, openstack, shared, lock, keys, tolerated, roles, rollout, judgements }
    }

    /// The parsed files right below a folder, by their names without `.yaml`.
    fn folder<T: DeserializeOwned>(&mut self, folder: &str) -> Vec<(String, T)> {
        let files = self.files;
        let names = files.keys().filter_map(|path| path.strip_prefix(folder)?.strip_suffix(".yaml"));
        let names: Vec<_> = names.filter(|name| !name.contains('/')).map(str::to_owned).collect();
        names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.parse(&format!("{folder}{name}.yaml"))?)))
            .collect()
    }

    fn parse<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        match yaml::parse(path, self.files.get(path)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(error.into());
                None
            }
        }
    }

    fn named(&mut self, folder: &str, name: &str, said: &str) {
        if name != said {
            let problem = format!("the file is called {name:?} and says it is {said:?}; make the two equal");
            self.errors.push(Error::Other { file: format!("{folder}{name}.yaml"), problem });
        }
    }

    fn preset(&mut self, name: &str, entry: file::Preset) -> Preset {
        self.named("presets/", name, &entry.preset);
        let path = format!("presets/{name}.yaml");
        let fragments = self.fragments(&path, entry.fragments);
        let checks = self.checks(&path, entry.checks);
        let file::Preset { description, services, features, .. } = entry;
        Preset { file: path, description, services, features, fragments, checks }
    }

    fn feature(&mut self, name: &str, entry: file::Feature) -> Feature {
        self.named("values/features/", name, &entry.feature);
        let path = format!("values/features/{name}.yaml");
        let fragments = self.fragments(&path, entry.fragments);
        let checks = self.checks(&path, entry.checks);
        let file::Feature { description, schema, default, .. } = entry;
        Feature { file: path, description, schema, default, fragments, checks }
    }

    fn openstack(&mut self, name: &str, entry: file::OpenStackRelease) -> OpenStackRelease {
        self.named("values/openstack/", name, &entry.openstack_release);
        let path = format!("values/openstack/{name}.yaml");
        let fragments = self.fragments(&path, entry.fragments);
        let file::OpenStackRelease { description, mut variables, upgrades_from, .. } = entry;
        variables.insert("release".into(), name.into());
        OpenStackRelease { file: path, description, variables, upgrades_from, fragments }
    }

    fn fragments(&mut self, path: &str, entries: Vec<file::Fragment>) -> Vec<Fragment> {
        let entries = entries.into_iter().enumerate();
        entries.map(|(index, entry)| self.fragment(path, format!("fragments[{index}]"), entry)).collect()
    }

    fn fragment(&mut self, path: &str, field: String, entry: file::Fragment) -> Fragment {
        let when = self.condition(path, &format!("{field}.when"), entry.when);
        let mut bodies = BTreeMap::new();
        if let Some(every) = entry.every {
            for (release, chart, group) in self.charts.clone() {
                if every.except.contains(&release) || every.group.is_some_and(|wanted| wanted != group) {
                    continue;
                }
                let Some(tree) = self.keys.get(&chart) else { continue };
                let known = crate::expr::Template::pruned(&every.values, &|path| tree.knows(path));
                if !known.is_empty() {
                    bodies.insert(release, self.body(path, &format!("{field}.every"), known, &[]));
                }
            }
        }
        for (release, body) in entry.releases {
            let field = format!("{field}.releases.{release}");
            if bodies.contains_key(&release) {
                let problem = format!(
                    "{field}: the release is in `every` as well; split the fragment in two, the later one wins"
                );
                self.errors.push(Error::Other { file: path.into(), problem });
            }
            bodies.insert(release, self.body(path, &field, body.values, &body.unset));
        }
        Fragment { file: path.into(), field, why: entry.why, when, bodies }
    }

    fn checks(&mut self, path: &str, entries: Vec<file::Check>) -> Vec<Check> {
        let mut checks = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            if let Some(when) = self.condition(path, &format!("checks[{index}].when"), Some(entry.when)) {
                checks.push(Check { when, level: entry.level, field: entry.field, message: entry.message });
            }
        }
        checks
    }

    fn components(&mut self, path: &str, field: &str, texts: &[String]) -> Vec<Component> {
        texts.iter().filter_map(|text| self.component(path, field, text)).collect()
    }

    fn component(&mut self, path: &str, field: &str, text: &str) -> Option<Component> {
        let component = Component::parse(text);
        if component.is_none() {
            let problem =
                format!("{field}: {text:?} is no component; write application/component, such as keystone/api");
            self.errors.push(Error::Other { file: path.into(), problem });
        }
        component
    }

    fn condition(&mut self, path: &str, field: &str, text: Option<String>) -> Option<Expression> {
        let text = text?;
        Expression::compile(&text).map_err(|error| self.expression(path, field, &text, error)).ok()
    }

    fn body(&mut self, path: &str, field: &str, values: Values, unset: &[String]) -> Body {
        Body::compile(values, unset).unwrap_or_else(|error| {
            match error {
                BodyError::Expression(at, error) => {
                    self.expression(
                        path,
                        &format!("{field}.values.{at}"),
                        at.keys().last().map_or("", |key| key),
                        error,
                    );
                }
                BodyError::Path(error) => {
                    self.errors.push(Error::Path { file: path.into(), field: format!("{field}.unset"), error });
                }
            }
            Body { template: crate::expr::Template::default(), unset: Vec::new(), source: String::new() }
        })
    }

    fn expression(&mut self, path: &str, field: &str, near: &str, error: crate::expr::Error) {
        let text = self.files.get(path).map_or("", String::as_str);
        let line = text
            .lines()
            .position(|line| line.contains(error.expression()) || line.contains(near))
            .map_or(0, |line| line + 1);
        self.errors.push(Error::Expression { file: path.into(), line, field: field.into(), error });
    }
}
