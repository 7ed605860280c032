use serde_json::json;

use super::*;

fn reference() -> Reference {
    Reference::read(&osdpl_core::testing::files(&[])).unwrap()
}

#[test]
fn everything_is_listed_by_kind() {
    let names = |kind| reference().list(kind).into_iter().map(|line| line.name).collect::<Vec<_>>();
    assert_eq!(Kind::ALL.map(names), [vec!["front", "store"], vec!["small"], vec!["colour"], vec!["2026.1"]]);
}

#[test]
fn a_service_is_described_with_its_chart_needs_and_the_names_of_its_credentials() {
    let Described { facts, page } = reference().describe(Kind::Services, "front").unwrap();
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
    assert!(page.contains("| installed once there are | `store/server` of store |\n"), "{page}");
    assert!(!page.contains("namespace"), "what is not set is not told:\n{page}");
    let store = reference().describe(Kind::Services, "store").unwrap().page;
    assert!(
        store.contains("(`spec.services.store.external`): pods find it as Service store, port 3306 (sql)."),
        "{store}"
    );
}

#[test]
fn a_feature_is_described_with_its_fields_default_and_values_as_they_are_written() {
    let Described { facts, page } = reference().describe(Kind::Features, "colour").unwrap();
    assert_eq!(facts["releases"], json!(["front"]));
    assert_eq!(
        facts["fields"][1],
        json!({"path": "name", "type": "red \u{b7} blue", "meaning": "", "required": false})
    );
    assert!(
        page.contains(
            "### 1. where `features.colour.name == 'blue'`\n\nfront:\n\n```yaml\nconf:\n  colour: blue\n```\n"
        ),
        "{page}"
    );
    assert!(page.contains("## Default\n\n```yaml\nname: red\n```\n"), "{page}");
}

#[test]
fn a_schema_becomes_a_table_of_fields() {
    let fields = schema::fields(&json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 9}}}},
        "names": {"type": "array", "items": {"type": "string"}, "description": "Some | names."},
        "free": {"type": "object", "additionalProperties": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
    }}));
    let told: Vec<_> = fields.iter().map(|field| (field.path.as_str(), field.kind.as_str(), field.required)).collect();
    assert_eq!(
        told,
        [
            ("free", "map of map", false),
            ("free.*.on", "boolean", false),
            ("list", "list of map", false),
            ("list[].size", "integer, 1 to 9", true),
            ("names", "list of string", false),
        ]
    );
    assert!(schema::shown(&fields).contains("| Some \\| names. |"));
}

#[test]
fn a_name_that_nothing_has_is_told_with_the_nearest() {
    let error = reference().describe(Kind::Features, "color").unwrap_err().to_string();
    assert_eq!(error, "there is no feature \"color\", did you mean \"colour\"?; there are colour");
}

#[test]
fn there_is_a_page_for_everything_and_one_that_links_them() {
    let pages = pages(&reference()).unwrap();
    let names: Vec<_> = pages.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "README.md",
            "features/colour.md",
            "presets/small.md",
            "releases/2026.1.md",
            "services/front.md",
            "services/store.md"
        ]
    );
    assert!(pages["README.md"].contains("| [front](services/front.md) | An API. |\n"), "{}", pages["README.md"]);
}

#[test]
fn a_preset_is_described_with_what_holds_on_features_what_it_excludes_and_its_sum() {
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
    let Described { facts, page } = reference.describe(Kind::Presets, "large").unwrap();
    for told in [
        "front, extra.\n\nextra is installed only where `features.colour.name == 'red'`.\n",
        "## Connections to the database\n\n```text\nfront/api 3 x 2 = 6\n```\n",
        "| `small` | both are sizes; take one |\n",
    ] {
        assert!(page.contains(told), "{told} is not in\n{page}");
    }
    assert_eq!(facts["excludes"], json!({"small": "both are sizes; take one"}));
}

#[test]
fn what_a_service_sets_is_told_with_its_keys_and_reasons() {
    let text = "service: front\ndescription: An API.\ngroup: openstack\nreleases:\n  front:\n    values: {conf: {region: north}}\n    \
                fragments: [{why: It waits for nobody., when: 'true', values: {conf: {colour: red}}, unset: [conf.password]}]\n";
    let reference = Reference::read(&osdpl_core::testing::files(&[("values/services/front.yaml", text)])).unwrap();
    let Described { facts, page } = reference.describe(Kind::Services, "front").unwrap();
    for told in [
        "### front: values that it sets always\n\n```yaml\nconf:\n  region: north\n```\n",
        "### front: values that it sets where `true`\n\nIt waits for nobody.\n\n```yaml\nconf:\n  colour: red\n```\n\nwithout the chart's `conf.password`\n",
    ] {
        assert!(page.contains(told), "{told} is not in\n{page}");
    }
    assert_eq!(facts["releases"][0]["values"][1]["why"], "It waits for nobody.");
}
