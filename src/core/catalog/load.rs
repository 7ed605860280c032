//! Loads a [`Catalog`] from the texts of its files.
//!
//! The loader parses every file and collects all errors. In files that users added, it also compiles the expressions,
//! to report the invalid ones.

mod feature;
mod service;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::fragment::{ReleaseIndex, ValuesForEvery, parse_paths};
use super::{
    Body, Catalog, Certificates, Check, Component, Error, Errors, Feature, Files, Fragment, Keys, LazyTree,
    OpenStackRelease, OptionFiles, Preset, Text, check, checks, file, find,
};
use crate::drift::ToleratedChanges;
use osdpl_values::expr::{Expression, Template};
use osdpl_values::{CollectSorted, Values};

impl Catalog {
    /// Loads a catalogue from the texts of its files.
    ///
    /// The method does not check expressions in built-in files ([`super::Text::BuiltIn`]). If all files are built in,
    /// it also skips the checks that compare the files with each other. osdpl's own tests run these checks on the
    /// built-in files.
    ///
    /// # Errors
    /// Returns the errors in all files. The checks that compare the files with each other run only if no file has an
    /// error.
    pub fn load(files: &Files) -> Result<Self, Errors> {
        let mut loader = Loader { files, errors: Vec::new(), is_user_provided: true, release_index: Arc::default() };
        let catalog = loader.load();
        let is_user_provided = files.values().any(|text| matches!(text, Text::UserProvided(_)));
        if loader.errors.is_empty() && is_user_provided {
            loader.errors = check::check(&catalog);
        }
        if loader.errors.is_empty() { Ok(catalog) } else { Err(Errors(loader.errors)) }
    }
}

/// The state of loading a catalogue: the files, the errors so far, and the releases.
struct Loader<'a> {
    files: &'a Files,
    errors: Vec<Error>,
    /// Whether a user provided the file that is being loaded. The loader skips most checks of built-in files, because
    /// osdpl's own tests check these files.
    is_user_provided: bool,
    /// All releases, and the key trees of their charts.
    release_index: Arc<ReleaseIndex>,
}

impl Loader<'_> {
    fn load(&mut self) -> Catalog {
        let keys = self.keys();
        let options = self.options();
        let services = self.folder("values/services/", Self::service);
        self.release_index = Arc::new(ReleaseIndex::new(&services, keys));
        let providers = find::providers(&services);
        let shared = self.folder("values/shared/", Self::shared).into_values().flatten().collect();
        let presets = self.folder("presets/", Self::preset);
        let features = self.folder("values/features/", Self::feature);
        let openstack = self.folder("values/openstack/", Self::openstack);
        let lock = self.parse::<file::Lock>("values/lock.yaml").map(|lock| lock.charts).unwrap_or_default();
        let tolerated = self.parse::<file::Drift>("values/drift.yaml").unwrap_or_default();
        let tolerated = ToleratedChanges {
            managers: tolerated.managers.into_keys().collect_set(),
            fields: tolerated.fields.into_keys().collect_set(),
        };
        let file::Nodes { roles, rollout } = self.parse::<file::Nodes>("values/nodes.yaml").unwrap_or_default();
        let mut rule_errors = Vec::new();
        let cross_checks = checks::read(self.files, &services, &mut rule_errors);
        let unread_by_hooks = checks::read_unread_by_hooks(self.files, &services, &mut rule_errors);
        // If a service could not be loaded, its releases are unknown, and every entry of `values/rules.yaml`,
        // `values/couplings.yaml` and `values/hooks.yaml` that names one of these releases causes an error. Drop these
        // errors, because the error about the service explains them.
        if services.len() == self.names("values/services/", &[".yaml"]).len() {
            self.errors.append(&mut rule_errors);
        }
        Catalog {
            services,
            presets,
            features,
            openstack,
            shared,
            lock,
            release_index: Arc::clone(&self.release_index),
            options,
            providers,
            tolerated,
            unread_by_hooks,
            roles,
            rollout,
            cross_checks,
            added: BTreeMap::new(),
            additions: BTreeMap::new(),
        }
    }

    fn keys(&mut self) -> Keys {
        let mut keys = Keys::default();
        for (name, path) in self.names("values/keys/", &[".json", ".yaml"]) {
            let added = keys.add(name, &path, &self.files[&path]);
            self.errors.extend(added.err().map(Error::from));
        }
        keys
    }

    fn options(&mut self) -> OptionFiles {
        let mut options = OptionFiles::default();
        for (name, path) in self.names("values/options/shared/", &[".json"]) {
            let text = self.files[&path].clone();
            options.add_shared(name, path, text);
        }
        for (name, path) in self.names("values/options/", &[".json", ".yaml"]) {
            let added = options.add(&name, &path, &self.files[&path]);
            self.errors.extend(added.err().into_iter().flatten());
        }
        options
    }

    /// Returns the files directly in `folder` whose names end with one of `endings`: for each file, the name without
    /// the ending, and the path.
    fn names(&self, folder: &str, endings: &[&str]) -> Vec<(String, String)> {
        let named = |path: &String| {
            let name = path.strip_prefix(folder)?;
            let name = endings.iter().find_map(|ending| name.strip_suffix(ending))?;
            (!name.contains('/')).then(|| (name.to_owned(), path.clone()))
        };
        self.files.keys().filter_map(named).collect()
    }

    /// Loads the YAML files directly in a folder, and calls `make` with each parsed file. Returns what `make` returns,
    /// by the file's name without `.yaml`.
    ///
    /// The method loads one file after the other, so that only one parsed file is in memory at a time.
    fn folder<T: DeserializeOwned, U>(
        &mut self,
        folder: &str,
        make: impl Fn(&mut Self, &str, T) -> U,
    ) -> BTreeMap<String, U> {
        let files = self.names(folder, &[".yaml"]).into_iter();
        let read = files.filter_map(|(name, path)| {
            let entry = self.parse(&path)?;
            let entry = make(self, &name, entry);
            Some((name, entry))
        });
        read.collect_map()
    }

    fn parse<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        let text = self.files.get(path)?;
        self.is_user_provided = matches!(text, Text::UserProvided(_));
        text.read(path).map_err(|error| self.errors.push(error.into())).ok()
    }

    fn check_name(&mut self, folder: &str, name: &str, declared: &str) {
        if name != declared {
            let problem = format!("the file is named {name:?} but declares {declared:?}; use the same name for both");
            self.errors.push(Error::Other { file: format!("{folder}{name}.yaml"), problem });
        }
    }

    fn shared(&mut self, name: &str, entry: file::Shared) -> Vec<Fragment> {
        self.check_name("values/shared/", name, &entry.shared);
        self.fragments(&format!("values/shared/{name}.yaml"), entry.fragments)
    }

    fn preset(&mut self, name: &str, entry: file::Preset) -> Preset {
        self.check_name("presets/", name, &entry.preset);
        let path = format!("presets/{name}.yaml");
        let fragments = self.fragments(&path, entry.fragments);
        let checks = self.checks(&path, entry.checks);
        let file::Preset { description, services, features, excludes, .. } = entry;
        Preset { file: path, description, services, features, fragments, excludes, checks }
    }

    fn feature(&mut self, name: &str, entry: file::Feature) -> Feature {
        self.check_name("values/features/", name, &entry.feature);
        let path = format!("values/features/{name}.yaml");
        if self.is_user_provided {
            let wrong = feature::problems(&entry.schema, &entry.default).into_iter();
            self.errors.extend(wrong.map(|problem| Error::Other { file: path.clone(), problem }));
        }
        let fragments = self.fragments(&path, entry.fragments);
        let checks = self.checks(&path, entry.checks);
        let certificates = self.certificates(&path, entry.certificates);
        let file::Feature { description, schema, default, .. } = entry;
        Feature { file: path, description, schema: LazyTree::new(&schema), default, fragments, certificates, checks }
    }

    fn openstack(&mut self, name: &str, entry: file::OpenStackRelease) -> OpenStackRelease {
        self.check_name("values/openstack/", name, &entry.openstack_release);
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
        let every = entry.every.map(|every| ValuesForEvery::new(every, &self.release_index));
        if let Some(every) = every.as_ref().filter(|_| self.is_user_provided) {
            self.expressions(path, &format!("{field}.every.values"), &every.unfiltered);
        }
        let mut named = BTreeMap::new();
        for (release, body) in entry.releases {
            let field = format!("{field}.releases.{release}");
            if self.is_user_provided && every.as_ref().is_some_and(|every| every.body(&release).is_some()) {
                let problem = format!(
                    "{field}: `every` also sets values for this release; split the fragment into two (the values of \
                     the later fragment apply)"
                );
                self.errors.push(Error::Other { file: path.into(), problem });
            }
            named.insert(release, Box::new(self.body(path, &field, body.values, body.unset)));
        }
        Fragment { file: path.into(), field, why: entry.why, when, named, every }
    }

    fn checks(&mut self, path: &str, entries: Vec<file::Check>) -> Vec<Check> {
        let mut checks = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            if self.is_user_provided {
                self.message(path, &format!("checks[{index}].message"), &entry.message);
            }
            if let Some(when) = self.condition(path, &format!("checks[{index}].when"), Some(entry.when)) {
                checks.push(Check { when, level: entry.level, field: entry.field, message: entry.message });
            }
        }
        checks
    }

    /// Checks that the expressions (`${…}`) in a check's message are valid, and that they read neither facts nor
    /// secrets.
    ///
    /// Facts are forbidden, because osdpl also runs the check while the releases whose Jobs record the facts are not
    /// installed yet. Secrets are forbidden, because everybody can read the message.
    fn message(&mut self, path: &str, field: &str, message: &str) {
        let values = Values::from_iter([("message".to_owned(), message.into())]);
        if let Err((_, error)) = Template::compile(values.clone()) {
            let near = error.expression().to_owned();
            return self.expression(path, field, &near, error);
        }
        for expression in Template::expressions(&values).iter().map(|source| Expression::lazy(source)) {
            let problem = match (expression.is_secret(), expression.uses_variable("facts")) {
                (true, _) => "a secret, but everybody can read the message",
                (_, true) => "facts, which are unknown until the releases are installed",
                (false, false) => continue,
            };
            let problem = format!("{field}: `{}` reads {problem}; use the spec instead", expression.source());
            self.errors.push(Error::Other { file: path.into(), problem });
        }
    }

    fn certificates(&mut self, path: &str, entries: Vec<file::Certificates>) -> Vec<Certificates> {
        let mut certificates = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let field = format!("certificates[{index}]");
            let when = self.condition(path, &format!("{field}.when"), entry.when);
            let secrets = Values::from_iter([("secrets".into(), entry.secrets)]);
            let secrets = Body::new(&secrets.into(), Vec::new());
            if self.is_user_provided {
                self.expressions(path, &field, &secrets);
            }
            let file::Certificates { field, keys, user_provided, .. } = entry;
            certificates.push(Certificates { when, field, secrets, keys, user_provided });
        }
        certificates
    }

    fn components(&mut self, path: &str, field: &str, texts: &[String]) -> Vec<Component> {
        texts.iter().filter_map(|text| self.component(path, field, text)).collect()
    }

    fn component(&mut self, path: &str, field: &str, text: &str) -> Option<Component> {
        let component = Component::parse(text);
        if component.is_none() {
            let problem =
                format!("{field}: {text:?} is not a component; write application/component, such as keystone/api");
            self.errors.push(Error::Other { file: path.into(), problem });
        }
        component
    }

    fn condition(&mut self, path: &str, field: &str, text: Option<String>) -> Option<Expression> {
        let text = text?;
        if self.is_user_provided
            && let Err(error) = Expression::compile(&text)
        {
            self.expression(path, field, &text, error);
        }
        Some(Expression::lazy(&text))
    }

    fn body(&mut self, path: &str, field: &str, values: Values, unset: Vec<String>) -> Body {
        let unset = parse_paths(unset).unwrap_or_else(|error| {
            self.errors.push(Error::Path { file: path.into(), field: format!("{field}.unset"), error });
            Vec::new()
        });
        let body = Body::new(&values.into(), unset);
        if self.is_user_provided {
            self.expressions(path, &format!("{field}.values"), &body);
        }
        body
    }

    /// Compiles the expressions in `body`, and adds an error for the first expression that can't be compiled. `field`
    /// is the field of the file that contains the values of `body`.
    fn expressions(&mut self, path: &str, field: &str, body: &Body) {
        if let Err((at, error)) = body.check_expressions() {
            let near = at.keys().last().map_or("", |key| key);
            self.expression(path, &format!("{field}.{at}"), near, error);
        }
    }

    fn expression(&mut self, path: &str, field: &str, near: &str, error: osdpl_values::expr::Error) {
        let text = self.files.get(path).map(Text::as_written).unwrap_or_default();
        let line_with = |part: &str| text.lines().position(|line| line.contains(part));
        let line = line_with(error.expression()).or_else(|| line_with(near)).map_or(0, |line| line + 1);
        self.errors.push(Error::Expression { file: path.into(), line, field: field.into(), error });
    }
}
