use serde_json::json;

use super::*;

fn reference() -> Reference {
    Reference::read(&osdpl_core::testing::files(&[])).unwrap()
}

#[test]
fn lists_items_by_kind() {
    let names = |kind| reference().list(kind).into_iter().map(|line| line.name).collect::<Vec<_>>();
    assert_eq!(Kind::ALL.map(names), [vec!["front", "store"], vec!["small"], vec!["colour"], vec!["2026.1"]]);
}

#[test]
fn describes_services() {
    let Description { data: facts, page } = reference().describe(Kind::Services, "front").unwrap();
    assert_eq!(facts["presets"], json!(["small"]));
    assert_eq!(facts["releases"][0]["version"], "1.0.0");
    assert_eq!(facts["releases"][0]["needs"], json!([{"component": "store/server", "service": "store", "when": null}]));
    assert_eq!(
        facts["credentials"],
        json!([{"name": "user", "kind": "password", "description": "", "rotation": "set by the next upgrade"}])
    );
    assert!(
        page.starts_with("# front\n\nAn API.\n\nGroup openstack; in the presets small.\n\n## Release front\n\n"),
        "{page}"
    );
    let after = page.lines().find(|line| line.starts_with("| installed after ")).unwrap_or_default();
    assert!(after.ends_with("| `store/server` of store |"), "{page}");
    assert!(!page.contains("namespace"), "the page must not show unset fields:\n{page}");
    let store = reference().describe(Kind::Services, "store").unwrap().page;
    assert!(
        store.contains("(`spec.services.store.external`). Pods then find it as Service store, port 3306 (sql)."),
        "{store}"
    );
}

#[test]
fn describes_features() {
    let Description { data: facts, page } = reference().describe(Kind::Features, "colour").unwrap();
    assert_eq!(facts["releases"], json!(["front"]));
    assert_eq!(
        facts["fields"][1],
        json!({"path": "name", "type": "red \u{b7} blue", "meaning": "", "required": false})
    );
    assert!(
        page.contains("### 1. if `features.colour.name == 'blue'`\n\nfront:\n\n```yaml\nconf:\n  colour: blue\n```\n"),
        "{page}"
    );
    assert!(page.contains("## Default\n\n```yaml\nname: red\n```\n"), "{page}");
}

#[test]
fn converts_schemas_to_tables() {
    let fields = schema::fields(&json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 9}}}},
        "names": {"type": "array", "items": {"type": "string"}, "description": "Some | names."},
        "free": {"type": "object", "additionalProperties": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
    }}));
    let expected: Vec<_> =
        fields.iter().map(|field| (field.path.as_str(), field.kind.as_str(), field.required)).collect();
    assert_eq!(
        expected,
        [
            ("free", "map of map", false),
            ("free.*.on", "boolean", false),
            ("list", "list of map", false),
            ("list[].size", "integer, 1 to 9", true),
            ("names", "list of string", false),
        ]
    );
    assert!(schema::fields_table(&fields).contains("| Some \\| names. |"));
}

#[test]
fn suggests_the_nearest_name() {
    let error = reference().describe(Kind::Features, "color").unwrap_err().to_string();
    assert_eq!(error, "there is no feature \"color\" (did you mean \"colour\"?); choose from colour");
}

#[test]
fn writes_pages_and_an_index() {
    let pages = pages(&reference()).unwrap();
    let names: Vec<_> = pages.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "features/colour.md",
            "index.md",
            "presets/small.md",
            "releases/2026.1.md",
            "services/front.md",
            "services/store.md"
        ]
    );
    assert!(pages["index.md"].contains("| [front](services/front.md) | An API. |\n"), "{}", pages["index.md"]);
}

#[test]
fn describes_presets() {
    let changes = [
        (
            "presets/large.yaml",
            "preset: large\ndescription: More.\nservices: [front, extra]\nexcludes: {small: both are sizes; take one}\n\
             connections: |\n  front/api 3 x 2 = 6\n",
        ),
        (
            "values/services/extra.yaml",
            "service: extra\ndescription: More.\ngroup: openstack\nreleases: {extra: {when: \"features.colour.name == 'red'\"}}\n",
        ),
    ];
    let reference = Reference::read(&osdpl_core::testing::files(&changes)).unwrap();
    let Description { data: facts, page } = reference.describe(Kind::Presets, "large").unwrap();
    for expected in [
        "front, extra.\n\nextra is installed only if `features.colour.name == 'red'`.\n",
        "## Connections to the database\n\n```text\nfront/api 3 x 2 = 6\n```\n",
        "| `small` | both are sizes; take one |\n",
    ] {
        assert!(page.contains(expected), "{expected} is not in\n{page}");
    }
    assert_eq!(facts["excludes"], json!({"small": "both are sizes; take one"}));
}

#[test]
fn describes_values_with_conditions_and_reasons() {
    let text = "service: front\ndescription: An API.\ngroup: openstack\nreleases:\n  front:\n    values: {conf: {region: north}}\n    \
                fragments: [{why: It waits for nobody., when: 'true', values: {conf: {colour: red}}, unset: [conf.password]}]\n";
    let reference = Reference::read(&osdpl_core::testing::files(&[("values/services/front.yaml", text)])).unwrap();
    let Description { data: facts, page } = reference.describe(Kind::Services, "front").unwrap();
    for expected in [
        "### front: values always\n\n```yaml\nconf:\n  region: north\n```\n",
        "### front: values if `true`\n\nIt waits for nobody.\n\n```yaml\nconf:\n  colour: red\n```\n\nwithout the chart's `conf.password`\n",
    ] {
        assert!(page.contains(expected), "{expected} is not in\n{page}");
    }
    assert_eq!(facts["releases"][0]["values"][1]["why"], "It waits for nobody.");
}

#[test]
fn cells_hold_one_sentence() {
    use super::table::{first_sentence, summary_table};
    for (text, first) in [
        ("One.", "One."),
        ("One. Two.", "One."),
        ("See 1.5 and e.g. Nova, or `a. B` there.", "See 1.5 and e.g. Nova, or `a. B` there."),
        ("Up to 4. more", "Up to 4. more"),
        ("One.\n`two` follows.", "One."),
    ] {
        assert_eq!(first_sentence(text), first);
    }
    let rows = [["`a`".to_owned(), "Short.".to_owned()], ["`b`".to_owned(), "First. Second | third.".to_owned()]];
    let text = summary_table(["field", "meaning"], &rows);
    assert!(
        text.contains("| `b`   | First. |\n") && text.ends_with("|\n\n### `b`\n\nFirst. Second | third.\n"),
        "{text}"
    );
    assert!(!text.contains("### `a`"), "{text}");
}

#[test]
fn checks_show_their_condition_as_a_block() {
    let text = "preset: large\ndescription: More.\nservices: [front]\nchecks:\n\
                - {level: error, field: spec.presets, when: 'true', message: It is too large.}\n";
    let reference = Reference::read(&osdpl_core::testing::files(&[("presets/large.yaml", text)])).unwrap();
    let page = reference.describe(Kind::Presets, "large").unwrap().page;
    let expected = "## Checks\n\n### 1. error: `spec.presets`\n\nIt is too large.\n\nIf:\n\n```text\ntrue\n```\n";
    assert!(page.contains(expected), "{page}");
}

#[test]
fn long_properties_of_a_release_are_lists() {
    let jobs = ["one", "two", "three"].map(|name| format!("{name}-of-several-jobs-with-a-very-long-name-indeed"));
    let text = format!(
        "service: front\ndescription: An API.\ngroup: openstack\nreleases:\n  front:\n    plainJobs: [{}]\n",
        jobs.join(", ")
    );
    let reference = Reference::read(&osdpl_core::testing::files(&[("values/services/front.yaml", &text)])).unwrap();
    let page = reference.describe(Kind::Services, "front").unwrap().page;
    assert!(page.contains(&format!("### front: Jobs that are not hooks\n\n- `{}`\n", jobs[0])), "{page}");
}

#[test]
fn pages_escape_html_outside_of_code() {
    let text = "preset: large\ndescription: Names are <service>.example.org and `<a>`.\nservices: [front]\n";
    let reference = Reference::read(&osdpl_core::testing::files(&[("presets/large.yaml", text)])).unwrap();
    let page = &pages(&reference).unwrap()["presets/large.md"];
    assert!(page.contains("Names are \\<service>.example.org and `<a>`."), "{page}");
}
