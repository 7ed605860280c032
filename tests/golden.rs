//! Goldens: what the samples mean, for both network backends, as `osdpl render` and `osdpl plan --offline` say it.
//!
//! One render is kept whole; of each other cloud only what differs from it. After a change that is meant, look at the difference:
//! `INSTA_UPDATE=always cargo test --test golden`, then `git diff tests/golden`.

#![allow(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use osdpl::values::{Values, changed, get};
use osdpl::yaml;
use serde_json::{Map, Value};

/// A sample with a network backend and an OpenStack release.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cloud {
    sample: String,
    backend: &'static str,
    release: String,
}

impl Cloud {
    fn name(&self) -> String {
        format!("{}_{}_{}", self.sample, self.backend, self.release)
    }

    /// What an `osdpl` command says about it.
    fn osdpl(&self, arguments: &[&str]) -> String {
        let text = std::fs::read_to_string(root().join(format!("deploy/samples/{}.yaml", self.sample))).unwrap();
        let mut resource: Value = yaml::parse(&self.sample, &text).unwrap();
        let spec = resource["spec"].as_object_mut().unwrap();
        spec["openstackRelease"] = self.release.clone().into();
        let features = spec.entry("features").or_insert_with(|| Map::new().into());
        features["network"]["backend"] = self.backend.into();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.yaml");
        std::fs::write(&file, yaml::write(&resource)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        let output = command.args(arguments).arg("--file").arg(file).env_remove("OSDPL_CATALOG").output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name(), String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of the YAML files in a folder.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// The one whose values are kept whole.
fn base() -> Cloud {
    Cloud { sample: "minimal".into(), backend: "ovs", release: "2026.1".into() }
}

/// Every sample with either network backend, and the smallest one with every other OpenStack release: a new file is a new cloud.
fn others() -> Vec<Cloud> {
    let is_cloud = |sample: &String| {
        let text = std::fs::read_to_string(root().join(format!("deploy/samples/{sample}.yaml"))).unwrap();
        text.contains("\nkind: OpenStackDeployment\n")
    };
    let samples = names("deploy/samples").into_iter().filter(is_cloud);
    let clouds =
        samples.flat_map(|sample| ["ovs", "ovn"].map(|backend| Cloud { sample: sample.clone(), backend, ..base() }));
    let releases = names("values/openstack").into_iter().map(|release| Cloud { release, ..base() });
    clouds.chain(releases).filter(|cloud| *cloud != base()).collect()
}

/// The values of each release in what `osdpl render` prints.
fn releases(rendered: &str) -> BTreeMap<String, Values> {
    let documents = rendered.split("---\n# ").skip(1);
    let release = |document: &str| {
        let name = document.split(' ').next().unwrap().to_owned();
        (name.clone(), yaml::parse(&name, document.split_once('\n').unwrap().1).unwrap())
    };
    documents.map(release).collect()
}

/// What `cloud` has otherwise than `base`, one line a value.
fn difference(base: &BTreeMap<String, Values>, cloud: &BTreeMap<String, Values>) -> String {
    let mut text = String::new();
    for name in base.keys().filter(|name| !cloud.contains_key(*name)) {
        let _ = writeln!(text, "- {name}");
    }
    let nothing = Values::new();
    for (name, values) in cloud {
        let before = base.get(name).unwrap_or(&nothing);
        for path in changed(before, values) {
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
fn the_values_of_every_cloud_are_as_agreed() {
    let rendered = base().osdpl(&["render"]);
    golden(&format!("values_{}", base().name()), &rendered);
    let before = releases(&rendered);
    assert_eq!(before.len(), 13, "what is printed is read back: {:?}", before.keys());
    for cloud in others() {
        let difference = difference(&before, &releases(&cloud.osdpl(&["render"])));
        golden(&format!("values_{}", cloud.name()), &difference);
    }
}

#[test]
fn the_order_of_every_cloud_is_as_agreed() {
    let mut orders: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cloud in others().into_iter().chain([base()]) {
        orders.entry(cloud.osdpl(&["plan", "--offline"])).or_default().push(cloud.name());
    }
    let text: String = orders.iter().fold(String::new(), |mut text, (order, clouds)| {
        let _ = writeln!(text, "# {}\n{order}", clouds.join(", "));
        text
    });
    golden("orders", &text);
}

#[test]
fn two_renders_are_byte_identical_and_hold_no_secret() {
    for cloud in others().into_iter().chain([base()]) {
        let rendered = cloud.osdpl(&["render"]);
        assert_eq!(rendered, cloud.osdpl(&["render"]));
        let invented = cloud.osdpl(&["render", "--placeholders"]);
        assert_eq!(invented, cloud.osdpl(&["render", "--placeholders"]));
        let invented = releases(&invented);
        for (name, values) in releases(&rendered) {
            let differs = changed(&values, &invented[&name]);
            let hidden = differs.iter().all(|path| get(&values, path) == Some(&"<redacted>".into()));
            assert!(hidden, "{name}: {differs:?}");
        }
    }
}
