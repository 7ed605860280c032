//! Compares the output of `osdpl render` and `osdpl plan --offline` for many clouds with golden files.
//!
//! The golden files contain the complete output of `osdpl render` for three base clouds, with the presets compute,
//! storage, and storage with ha. For every other preset, OpenStack release and sample, they contain only the difference
//! from a base cloud. So a new file in `presets`, `values/openstack` or `deploy/samples` needs a new golden file. The
//! file `orders.snap` contains the complete plans of all clouds. After an intended change, run `make golden`, and then
//! review `git diff tests/golden`.

#![allow(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use osdpl_values::yaml;
use osdpl_values::{Values, changed_paths, get};
use serde_json::{Value, json};

/// The OpenStack release of the base clouds, whose complete output is in the golden files.
const RELEASE: &str = "2026.1";

/// A cloud: its name and its spec.
#[derive(Clone)]
struct Cloud {
    name: String,
    spec: Value,
}

impl Cloud {
    /// Returns a cloud with these presets and this OpenStack release, and with the features that the presets require.
    fn of(presets: &[&str], release: &str) -> Self {
        let mut spec = json!({"openstackRelease": release, "presets": presets});
        if presets.contains(&"storage") {
            spec["features"] = json!({"storage": {"ceph": {"mode": "external", "secret": {"name": "ceph"}}}});
        }
        Self { name: format!("{}_{release}", presets.join("+")), spec }
    }

    fn sample(sample: &str, backend: &str) -> Option<Self> {
        let text = std::fs::read_to_string(root().join(format!("deploy/samples/{sample}.yaml"))).unwrap();
        if !text.contains("\nkind: OpenStackDeployment\n") {
            return None;
        }
        let resource: Value = yaml::parse(sample, &text).unwrap();
        let mut spec = resource["spec"].clone();
        spec["openstackRelease"] = RELEASE.into();
        let features = spec.as_object_mut().unwrap().entry("features").or_insert_with(|| json!({}));
        features["network"]["backend"] = backend.into();
        Some(Self { name: format!("{sample}_{backend}_{RELEASE}"), spec })
    }

    /// Returns the output of an `osdpl` command for this cloud.
    fn osdpl(&self, arguments: &[&str]) -> String {
        let resource = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": self.spec,
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.yaml");
        std::fs::write(&file, yaml::write(&resource)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        let output = command.args(arguments).arg("--file").arg(file).env_remove("OSDPL_CATALOG").output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the names of the files in a folder, without their extensions, sorted.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Returns pairs of a base cloud and its variants. For a base cloud, a golden file stores the complete output; for a
/// variant, only the difference from the base cloud.
fn families() -> Vec<(Cloud, Vec<Cloud>)> {
    let complete = [&["compute"][..], &["storage"], &["storage", "ha"]];
    let releases: Vec<String> = names("values/openstack").into_iter().filter(|release| release != RELEASE).collect();
    let family = |presets: &&[&str]| {
        let others = releases.iter().map(|release| Cloud::of(presets, release)).collect();
        (Cloud::of(presets, RELEASE), others)
    };
    let mut families: Vec<(Cloud, Vec<Cloud>)> = complete.iter().map(family).collect();
    let is_other = |preset: &String| preset != "compute" && preset != "storage";
    let presets = names("presets").into_iter().filter(is_other);
    let of_preset = |preset: String| {
        let presets: &[&str] = if has_services(&preset) { &[&preset] } else { &["compute", &preset] };
        Cloud::of(presets, RELEASE)
    };
    families[0].1.extend(presets.map(of_preset));
    let samples = names("deploy/samples").into_iter();
    families[0]
        .1
        .extend(samples.flat_map(|sample| ["ovs", "ovn"].map(|backend| Cloud::sample(&sample, backend))).flatten());
    families
}

/// Whether a preset enables services. Then a cloud can have this preset alone.
fn has_services(preset: &str) -> bool {
    let text = std::fs::read_to_string(root().join(format!("presets/{preset}.yaml"))).unwrap();
    let parsed: Value = yaml::parse(preset, &text).unwrap();
    parsed["services"].as_array().is_some_and(|services| !services.is_empty())
}

fn all() -> impl Iterator<Item = Cloud> {
    families().into_iter().flat_map(|(base, others)| others.into_iter().chain([base]))
}

/// Returns the values of each release in the output of `osdpl render`.
fn releases(rendered: &str) -> BTreeMap<String, Values> {
    let documents = rendered.split("---\n# ").skip(1);
    let release = |document: &str| {
        let name = document.split(' ').next().unwrap().to_owned();
        (name.clone(), yaml::parse(&name, document.split_once('\n').unwrap().1).unwrap())
    };
    documents.map(release).collect()
}

/// Returns the values that differ between the base cloud `base` and its variant `cloud`, one per line.
fn difference(base: &BTreeMap<String, Values>, cloud: &BTreeMap<String, Values>) -> String {
    let mut text = String::new();
    for name in base.keys().filter(|name| !cloud.contains_key(*name)) {
        let _ = writeln!(text, "- {name}");
    }
    let nothing = Values::new();
    for (name, values) in cloud {
        let before = base.get(name).unwrap_or(&nothing);
        for path in changed_paths(before, values) {
            let _ = match (get(before, &path), get(values, &path)) {
                (Some(_), None) => writeln!(text, "- {name} {path}"),
                (before, after) => {
                    let sign = if before.is_some() { '~' } else { '+' };
                    writeln!(text, "{sign} {name} {path}: {}", after.unwrap_or_default())
                }
            };
        }
    }
    text
}

fn golden(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn values_of_every_cloud_match_the_golden_files() {
    for (base, others) in families() {
        let rendered = base.osdpl(&["render"]);
        golden(&format!("values_{}", base.name), &rendered);
        let before = releases(&rendered);
        assert!(
            before.contains_key("mariadb"),
            "the output of `osdpl render` must contain the values of mariadb: {:?}",
            before.keys()
        );
        for cloud in others {
            let difference = difference(&before, &releases(&cloud.osdpl(&["render"])));
            golden(&format!("values_{}", cloud.name), &difference);
        }
    }
}

/// Golden files must be small, because people read them in reviews and every clone contains them.
#[test]
fn golden_files_are_small_and_used() {
    let mut expected: Vec<String> = all().map(|cloud| format!("values_{}.snap", cloud.name)).collect();
    expected.push("orders.snap".into());
    let mut bytes = 0;
    for entry in std::fs::read_dir(root().join("tests/golden")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        assert!(expected.contains(&name), "no cloud has this name; remove tests/golden/{name}");
        bytes += entry.metadata().unwrap().len();
    }
    assert!(bytes <= 2 << 20, "{bytes} bytes");
}

#[test]
fn order_of_every_cloud_matches_the_golden_file() {
    let mut orders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cloud in all() {
        orders.entry(cloud.osdpl(&["plan", "--offline"])).or_default().push(cloud.name.clone());
    }
    let text: String = orders.iter().fold(String::new(), |mut text, (order, clouds)| {
        let _ = writeln!(text, "# {}\n{order}", clouds.join(", "));
        text
    });
    golden("orders", &text);
}

#[test]
fn renders_are_stable_and_without_secrets() {
    for cloud in all() {
        let rendered = cloud.osdpl(&["render"]);
        assert_eq!(rendered, cloud.osdpl(&["render"]));
        let invented = cloud.osdpl(&["render", "--placeholders"]);
        assert_eq!(invented, cloud.osdpl(&["render", "--placeholders"]));
        let invented = releases(&invented);
        for (name, values) in releases(&rendered) {
            let differs = changed_paths(&values, &invented[&name]);
            let hidden = differs.iter().all(|path| get(&values, path) == Some(&"<redacted>".into()));
            assert!(hidden, "{name}: {differs:?}");
        }
    }
}
