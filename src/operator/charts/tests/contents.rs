//! Tests of valid archives: which differences between two archives change the digest of the chart, and what the store
//! reads from a chart.

use tar::EntryType;

use super::{CHART_YAML, Fixture, Tarball, chart, demo, tgz, with};

#[tokio::test]
async fn the_digest_depends_only_on_the_content() {
    let reference = digest(&chart("1.0.0", "x")).await;
    let chart_yaml = "# Written by hand\nappVersion: 29.0.0\nversion: 1.0.0\nname: demo\napiVersion: v2\ndependencies: []\nkeywords:\n";
    for (what, archive) in [
        (
            "an archive with another order and another top folder",
            tgz(&[("x/values.yaml", "key: x\n"), ("x/Chart.yaml", CHART_YAML)]),
        ),
        ("folders as entries", {
            let mut archive = Tarball::new();
            archive.entry(b"./demo/", EntryType::Directory, b"").file("./demo/Chart.yaml", CHART_YAML);
            archive.file("./demo/values.yaml", "key: x\n").entry(b"demo/templates", EntryType::Directory, b"");
            archive.finish()
        }),
        ("a Chart.yaml as helm rewrites it", tgz(&[("demo/Chart.yaml", chart_yaml), ("demo/values.yaml", "key: x\n")])),
        (
            "a Chart.lock, which contains the time of its creation",
            tgz(&[
                ("demo/Chart.yaml", CHART_YAML),
                ("demo/values.yaml", "key: x\n"),
                ("demo/Chart.lock", "generated: now\n"),
            ]),
        ),
        ("a byte order mark", tgz(&[("demo/Chart.yaml", CHART_YAML), ("demo/values.yaml", "\u{feff}key: x\n")])),
    ] {
        assert_eq!(digest(&archive).await, reference, "{what}");
    }
    for (what, archive) in [
        ("another value", chart("1.0.0", "y")),
        ("another path", tgz(&[("demo/Chart.yaml", CHART_YAML), ("demo/values.yml", "key: x\n")])),
        (
            "an additional file",
            tgz(&[("demo/Chart.yaml", CHART_YAML), ("demo/values.yaml", "key: x\n"), ("demo/x", "")]),
        ),
        (
            "a byte that moved from the path of a file to its content",
            tgz(&[("demo/Chart.yaml", CHART_YAML), ("demo/values.yamlk", "ey: x\n")]),
        ),
    ] {
        assert_ne!(digest(&archive).await, reference, "{what}");
    }
}

#[tokio::test]
async fn packed_and_unpacked_dependencies_have_the_same_digest() {
    let inner = tgz(&[("inner/Chart.yaml", "name: inner\nversion: 1.0.0\n"), ("inner/values.yaml", "a: 1\n")]);
    let mut packed = Tarball::with_chart();
    packed.file("demo/charts/inner-1.0.0.tgz", inner);
    let unpacked = with(&[
        ("demo/charts/inner/Chart.yaml", "name: inner\nversion: 1.0.0\n"),
        ("demo/charts/inner/values.yaml", "a: 1\n"),
        ("demo/charts/_notes/x", "helm does not load this"),
    ]);
    assert_eq!(digest(&packed.finish()).await, digest(&unpacked).await);
}

async fn digest(archive: &[u8]) -> String {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", archive);
    demo(&fixture.store("")).await.unwrap().digest.to_string()
}

#[tokio::test]
async fn reads_values_keys_and_crds() {
    let fixture = Fixture::new();
    let long = "x".repeat(61);
    let values = format!(
        "list: [1, two, {{three: 3}}, {long}, {{name: {long}}}, [{long}]]\nnone: []\nmap: {{}}\ntext: a\nmode: 0644\non: null\ndeep: {{\"y\": true}}\n"
    );
    let archive = with(&[
        ("demo/values.yaml", &values),
        (
            "demo/templates/a.yaml",
            "{{ .Values.deep.x }}{{ .Values.deep.y }}{{ tuple .Values.deep }}{{ .Values.map.z }}{{ if .Values.free }}{{ end }}",
        ),
        ("demo/crds/b.yaml", "kind: B\n"),
        ("demo/crds/README.md", "no definition"),
        ("demo/charts/inner/Chart.yaml", "name: inner\nversion: 1.0.0\n"),
        ("demo/charts/inner/crds/a.yaml", "kind: A\n"),
    ]);
    fixture.put("demo-1.0.0.tgz", archive);
    let chart = demo(&fixture.store("")).await.unwrap();
    assert_eq!(
        (chart.name.as_str(), chart.version.as_str(), chart.app_version.as_deref()),
        ("demo", "1.0.0", Some("29.0.0"))
    );
    assert_eq!(chart.default_values().unwrap()["mode"], 420);
    assert_eq!(chart.crds().unwrap(), ["kind: A\n", "kind: B\n"]);
    assert!(!chart.may_render_crds().unwrap(), "helm renders no file in crds/");
    let text = crate::charts::keys::to_json(&chart.default_values().unwrap(), &chart.reads().unwrap()).unwrap();
    let lines = [
        "{",
        " \"deep\": {",
        "  \"*\": \"read\",",
        "  \"x\": \"read\",",
        "  \"y\": true",
        " },",
        " \"free\": \"read\",",
        " \"inner\": \"read\",",
        " \"list\": [",
        "  \"1\",",
        "  \"two\",",
        "  \"{\\\"three\\\":3}\",",
        "  \"a string of 61 characters\",",
        "  \"a map of name\",",
        "  \"a list of 1\"",
        " ],",
        " \"map\": \"map\",",
        " \"mode\": 420,",
        " \"none\": \"list\",",
        " \"on\": \"null\",",
        " \"text\": \"=a\"",
        "}",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    let tree: osdpl_core::catalog::KeyTree = serde_json::from_str(&text).unwrap();
    let path = |text| osdpl_values::Path::parse(text).unwrap();
    assert!(tree.has_path(&path("deep.y")) && !tree.has_path(&path("deep.x")) && !tree.has_path(&path("free")));
}

#[tokio::test]
async fn names_a_crd_that_is_not_utf_8() {
    let fixture = Fixture::new();
    let mut archive = Tarball::with_chart();
    archive.file("demo/crds/b.yaml", b"kind: \xff\n");
    fixture.put("demo-1.0.0.tgz", archive.finish());
    let chart = demo(&fixture.store("")).await.unwrap();
    let error = chart.crds().unwrap_err().to_string();
    assert!(error.contains("crds/b.yaml: it is not UTF-8") && !error.contains("the path of"), "{error}");
}

#[tokio::test]
async fn finds_crds_that_templates_render() {
    for (file, content) in [
        ("demo/templates/crds.yaml", "kind: CustomResourceDefinition\n"),
        ("demo/charts/inner/templates/_crds.tpl", "{{ define \"x\" }}kind: CustomResourceDefinition{{ end }}"),
        ("demo/files/widgets.yaml", "kind: CustomResourceDefinition\n"),
        ("demo/templates/all.yaml", "{{ range $path, $_ := .Files.Glob \"crds/*\" }}{{ $.Files.Get $path }}{{ end }}"),
    ] {
        let fixture = Fixture::new();
        let inner = ("demo/charts/inner/Chart.yaml", "name: inner\nversion: 1.0.0\n");
        fixture.put("demo-1.0.0.tgz", with(&[inner, (file, content), ("demo/README.md", "no CRD")]));
        assert!(demo(&fixture.store("")).await.unwrap().may_render_crds().unwrap(), "{file}");
    }
}
