//! Explains an option of a service, such as `conf.nova.DEFAULT.debug`, from the files in `values/options/`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Number, Value};

use osdpl_core::catalog::{Absence, Catalog, OptionFile, OptionType, Options, ServiceOption, did_you_mean};
use osdpl_values::{CollectSorted, Path, plain_text};

/// The facts that osdpl knows about an option of a service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OptionExplanation {
    /// The section of the configuration file that contains the option.
    pub section: String,
    /// The name of the option.
    pub name: String,
    /// The type of the option's value; absent if no OpenStack release has the option, or if `name` is the old name of a
    /// renamed option.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub option_type: Option<&'static str>,
    /// The value that the service uses without this option; absent if osdpl does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// The only allowed values; empty if other values are allowed, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// The effect of the option; empty if osdpl does not know it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// The state of the option in each OpenStack release, such as `exists` or `removed`.
    pub releases: BTreeMap<String, String>,
}

/// Explains the option at a path in the values of a chart.
///
/// Returns `None` if the path does not lead to an option, or if osdpl does not know the options of its section. The
/// details, such as the default, apply to the OpenStack release `openstack_release`. If this release lacks the option,
/// they apply to the newest OpenStack release that has it.
pub(crate) fn explain_option(
    catalog: &Catalog,
    chart: &str,
    path: &Path,
    openstack_release: &str,
) -> Option<OptionExplanation> {
    // An addition may contain an options file for a shorter path, such as `conf`, that covers this path, too. Ignore
    // it: the path below the path of the file must consist of a section and an option.
    let leads_to_option =
        |file: &&OptionFile| file.path().covers(path) && path.keys().len() == file.path().keys().len() + 2;
    let file = catalog.options.of_chart(chart).find(leads_to_option)?;
    let [section, name] = &path.keys()[file.path().keys().len()..] else { return None };
    let options = catalog.options.read(file)?;
    let releases = || options.versions.keys().map(String::as_str);
    let newest = releases().next_back().unwrap_or_default();
    if options.absence(section, name, newest) == Absence::Open {
        return None;
    }
    let mut shown = [openstack_release].into_iter().chain(releases().rev());
    let none = ServiceOption::default();
    let option = shown.find_map(|release| options.find(section, name, release)).unwrap_or(&none);
    Some(OptionExplanation {
        section: section.clone(),
        name: name.clone(),
        option_type: option.option_type.map(OptionType::name),
        default: option.default.clone(),
        min: option.min.clone(),
        max: option.max.clone(),
        choices: option.choices.clone(),
        help: option.help.clone(),
        releases: releases().map(|release| (release.to_owned(), state(&options, section, name, release))).collect_map(),
    })
}

/// Describes the state of an option in one OpenStack release.
fn state(options: &Options, section: &str, name: &str, openstack_release: &str) -> String {
    let Some(option) = options.find(section, name, openstack_release) else {
        return match options.absence(section, name, openstack_release) {
            Absence::Removed { .. } => "removed, so the service ignores it".to_owned(),
            Absence::Later(_) => "does not exist yet, so the service ignores it".to_owned(),
            Absence::Open => "not known".to_owned(),
            Absence::Unknown | Absence::UnknownSection => {
                let hint = did_you_mean(name, options.names(section, openstack_release));
                format!("does not exist, so the service ignores it{hint}")
            }
        };
    };
    if let Some((section, name)) = option.new_name() {
        return format!("old name, use [{section}] {name}");
    }
    match (option.is_deprecated_in(openstack_release), option.why()) {
        (false, _) => "exists".to_owned(),
        (true, "") => "deprecated".to_owned(),
        (true, why) => format!("deprecated ({why})"),
    }
}

impl OptionExplanation {
    /// Returns the lines of the explanation as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { section, name, option_type, default, min, max, choices, help, releases } = self;
        let list = |choices: &[Value]| choices.iter().map(plain_text).collect::<Vec<_>>().join(", ");
        let details = [
            option_type.map(str::to_owned),
            default.as_ref().map(|default| format!("default {default}")),
            min.as_ref().map(|min| format!("at least {min}")),
            max.as_ref().map(|max| format!("at most {max}")),
            (!choices.is_empty()).then(|| format!("one of {}", list(choices))),
        ];
        let details: Vec<String> = details.into_iter().flatten().collect();
        let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
        let releases: Vec<(&str, &str)> = releases.iter().map(|(release, state)| (&**release, &**state)).collect();
        let states = releases.chunk_by(|one, other| one.1 == other.1).map(|same| {
            let names: Vec<&str> = same.iter().map(|(release, _)| *release).collect();
            format!("{}: {}", names.join(", "), same[0].1)
        });
        let mut lines = vec![format!("[{section}] {name}{details}")];
        lines.extend((!help.is_empty()).then(|| help.clone()));
        lines.push(states.collect::<Vec<_>>().join("; "));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str) -> Option<String> {
        let catalog = Catalog::load(&osdpl_core::files::built_in()).unwrap();
        explain_option(&catalog, "nova", &Path::parse(path).unwrap(), "2026.1").map(|option| option.lines().join("\n"))
    }

    #[test]
    fn shows_type_help_and_releases() {
        assert_eq!(
            lines("conf.nova.DEFAULT.debug").unwrap(),
            "[DEFAULT] debug: boolean, default false\n\
             If set to true, the logging level will be set to DEBUG instead of the default INFO level.\n\
             2025.1, 2025.2, 2026.1: exists"
        );
        let removed = lines("conf.nova.wsgi.keep_alive").unwrap();
        assert!(removed.starts_with("[wsgi] keep_alive: boolean, default true\n"), "{removed}");
        assert!(removed.ends_with("2025.1: exists; 2025.2, 2026.1: removed, so the service ignores it"), "{removed}");
        let renamed = lines("conf.nova.DEFAULT.dhcp_domain").unwrap();
        assert!(renamed.contains("2025.1: old name, use [api] dhcp_domain; 2025.2, 2026.1: removed"), "{renamed}");
        let unknown = lines("conf.nova.DEFAULT.debugging").unwrap();
        assert!(unknown.ends_with("2026.1: does not exist, so the service ignores it"), "{unknown}");
        assert_eq!(
            lines("conf.nova.oslo_messaging_rabbit.rabbit_quorum_queues").unwrap(),
            "[oslo_messaging_rabbit] rabbit_quorum_queues\n2025.1, 2025.2, 2026.1: does not exist, so the service \
             ignores it (did you mean \"rabbit_quorum_queue\"?)"
        );
        assert!(lines("conf.nova.DEFAULT").is_none() && lines("conf.policy.a.b").is_none());
    }
}
