use super::*;

const FILE: &str = r#"release: nova
path: conf.nova
versions: {"2025.1": 31.0.0, "2025.2": 32.0.0, "2026.1": 33.0.0}
open: ["vendor_*"]
like: {"backend_*": api, "backend_1": DEFAULT}
sections:
  DEFAULT:
    debug: {type: boolean, default: false}
    old: {type: string, in: ["2025.1"]}
    new: {type: string, in: ["2026.1"]}
    z: [{type: integer, in: ["2025.1"]}, {type: float, deprecated: "2025.2", in: ["2025.2", "2026.1"]}]
    workers: {renamed: api.workers}
    older: {renamed: api.workers, in: ["2025.1", "2025.2"]}
  api:
    workers: {type: integer, min: 1}
"#;

/// Returns no files yet, except two with shared options.
fn option_files() -> OptionFiles {
    let mut files = OptionFiles::default();
    for (name, text) in [
        ("first", r#"{"api": {"workers": {"type": "string"}, "url": {"type": "uri"}, "port": {"type": "string"}}}"#),
        ("second", r#"{"api": {"port": {"type": "port"}}, "database": {"connection": {"type": "string"}}}"#),
    ] {
        files.add_shared(name.to_owned(), format!("values/options/shared/{name}.json"), text.into());
    }
    files
}

fn errors(text: &str) -> Vec<String> {
    let mut files = option_files();
    let added = files.add("nova.conf.nova", "values/options/nova.conf.nova.yaml", &text.into());
    added.err().into_iter().flatten().map(|error| error.to_string()).collect()
}

fn options() -> Options {
    Text::from(FILE).read("x.yaml").unwrap()
}

#[test]
fn finds_the_variant_of_a_release() {
    let options = options();
    let option_type = |option, release| options.find("DEFAULT", option, release)?.option_type;
    assert_eq!(option_type("z", "2025.1"), Some(OptionType::Integer));
    assert_eq!(option_type("z", "2026.1"), Some(OptionType::Float));
    assert_eq!(option_type("old", "2026.1"), None);
    assert_eq!(options.find("DEFAULT", "workers", "2026.1").unwrap().new_name(), Some(("api", "workers")));
    let z = options.find("DEFAULT", "z", "2026.1").unwrap();
    assert!(z.is_deprecated_in("2026.1") && z.is_deprecated_in("2025.2") && !z.is_deprecated_in("2025.1"));
    assert!(options.describes("2025.2") && !options.describes("2026.2"));
}

#[test]
fn says_why_an_option_is_absent() {
    let options = options();
    for (section, option, release, expected) in [
        ("DEFAULT", "old", "2026.1", Absence::Removed { release: "2025.2", new_name: None }),
        ("DEFAULT", "old", "2025.2", Absence::Removed { release: "2025.2", new_name: None }),
        ("DEFAULT", "older", "2026.1", Absence::Removed { release: "2026.1", new_name: Some(("api", "workers")) }),
        ("DEFAULT", "new", "2025.1", Absence::Later("2026.1")),
        ("DEFAULT", "debg", "2026.1", Absence::Unknown),
        ("vendor_x", "anything", "2026.1", Absence::Open),
        ("backend_2", "anything", "2026.1", Absence::Open),
        ("vendors", "anything", "2026.1", Absence::UnknownSection),
        ("my_vendor_x", "anything", "2026.1", Absence::UnknownSection),
        ("default", "debug", "2026.1", Absence::UnknownSection),
    ] {
        assert_eq!(options.absence(section, option, release), expected, "{section} {option} {release}");
    }
}

#[test]
fn finds_sections_by_case_and_pattern() {
    let options = options();
    for section in ["api", "API", "backend_1"] {
        assert!(options.find(section, "workers", "2026.1").is_some(), "{section}");
    }
    assert!(options.find("backend_1", "debug", "2026.1").is_some(), "the section is like two sections");
    assert!(options.find("backend_2", "debug", "2026.1").is_none());
    assert_eq!(options.names("API", "2026.1").collect::<Vec<_>>(), ["workers"]);
}

#[test]
fn includes_shared_options() {
    let mut files = option_files();
    let text = FILE.replace("path: conf.nova", "path: conf.nova\ninclude: [first, second]");
    files.add("nova.conf.nova", "values/options/nova.conf.nova.yaml", &text.as_str().into()).unwrap();
    let options = files.read(files.all().next().unwrap()).unwrap();
    for (section, option, expected) in [
        ("api", "workers", OptionType::Integer),
        ("api", "url", OptionType::Uri),
        ("api", "port", OptionType::Port),
        ("database", "connection", OptionType::String),
        ("DEFAULT", "debug", OptionType::Boolean),
    ] {
        let option_type = options.find(section, option, "2026.1").and_then(|option| option.option_type);
        assert_eq!(option_type, Some(expected), "{section}.{option}");
    }
}

#[test]
fn reports_errors_with_file_and_field() {
    assert_eq!(errors(FILE), Vec::<String>::new());
    let file = "values/options/nova.conf.nova.yaml";
    let (many, long) = (format!("{:?}", vec!["vendor"; 51]), "*".repeat(101));
    for (from, to, expected) in [
        ("type: boolean", "type: bool", format!("{file}:8:")),
        ("min: 1", "mni: 1", format!("{file}:15:")),
        ("release: nova", "release: neutron", format!("{file}: release: is \"neutron\"")),
        ("path: conf.nova", "path: conf.nva", format!("{file}: path: is \"conf.nva\"")),
        (
            "open:",
            "include: [frist]\nopen:",
            format!(
                "{file}: include: osdpl has no shared options \"frist\" (did you mean \"first\"?); correct the name"
            ),
        ),
        ("[\"vendor_*\"]", many.as_str(), format!("{file}: open: has 51 patterns, more than 50; combine")),
        ("vendor_*", long.as_str(), format!("{file}: open: has a pattern of more than 100 bytes; shorten it")),
        (": api,", ": apii,", format!("{file}: like: there is no section \"apii\" (did you mean \"api\"?)")),
        ("renamed: api.workers}", "renamed: api.x}", format!("{file}: sections.DEFAULT.workers: renamed: there is no")),
        ("renamed: api.workers}", "help: x}", format!("{file}: sections.DEFAULT.workers: has both or none of `type`")),
        (
            "in: [\"2026.1\"]",
            "in: [\"2026.2\"]",
            format!("{file}: sections.DEFAULT.new: names the OpenStack release \"2026.2\""),
        ),
        ("in: [\"2025.2\", \"2026.1\"]", "in: [\"2025.1\"]", format!("{file}: sections.DEFAULT.z: two variants")),
    ] {
        let found = errors(&FILE.replace(from, to));
        assert!(found.iter().any(|error| error.starts_with(&expected)), "{expected}: {found:?}");
    }
    let mut files = OptionFiles::default();
    let unnamed = files.add("nova", "values/options/nova.yaml", &FILE.into()).unwrap_err();
    assert!(unnamed[0].to_string().contains("the name is not CHART.PATH.json"), "{unnamed:?}");
}
