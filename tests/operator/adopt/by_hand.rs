//! A cloud as a person installs it: plain helm, and values of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use osdpl_values::{Path as Place, Values, leaves};
use serde::Deserialize;
use serde_json::{Value, json};

use super::BESIDE;
use crate::pool::STORY;
use crate::world::World;

/// Every password that a person thought of ends so.
const THEIRS: &str = "by-hand";

/// A release as a person wrote it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByHand {
    /// What it is called.
    pub name: String,
    /// The chart that it is of; the one that is called like it where unset.
    chart: Option<String>,
    /// Where it is, if not in the story's namespace.
    pub namespace: Option<String>,
    pub values: Values,
}

impl ByHand {
    /// The release of the catalogue that it is.
    pub fn release(&self) -> &str {
        self.chart.as_ref().unwrap_or(&self.name)
    }

    /// Every password that a person wrote, and where.
    pub fn passwords(&self) -> Vec<(Place, &Value)> {
        leaves(&self.values)
            .into_iter()
            .filter(|(_, value)| value.as_str().is_some_and(|text| text.ends_with(THEIRS)))
            .collect()
    }
}

/// Which cloud, of which charts, by which helm.
pub struct Setting {
    /// helm's major version.
    pub helm: u8,
    /// The folder of the charts.
    pub charts: PathBuf,
    /// The releases, by the catalogue's names; all where empty.
    pub only: &'static [&'static str],
}

impl Setting {
    /// A chart: a folder, or an archive with any version.
    pub fn chart(&self, name: &str) -> PathBuf {
        let folder = self.charts.join(name);
        if folder.is_dir() {
            return folder;
        }
        let is_it = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
        };
        let archives = std::fs::read_dir(&self.charts).unwrap().map(|entry| entry.unwrap().path());
        archives.into_iter().find(is_it).unwrap_or_else(|| panic!("no chart {name} in {}", self.charts.display()))
    }
}

impl World {
    /// The cloud that a person wrote.
    pub fn written_by_hand(&self, setting: &Setting) -> Vec<ByHand> {
        let text = include_str!("by_hand.yaml").replace("HOME", &self.namespace);
        let mut all: Vec<ByHand> = osdpl_values::yaml::parse("by_hand.yaml", &text).unwrap();
        all.retain(|one| setting.only.is_empty() || setting.only.contains(&one.release()));
        all
    }

    /// Installs it, all at once: who needs what waits for it in its pods.
    pub async fn install_by_hand(&self, setting: &Setting, cloud: &[ByHand]) {
        let metadata = json!({"name": format!("{}{BESIDE}", self.namespace), "labels": {STORY: "true"}});
        let namespace = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let helms = cloud.iter().map(|one| {
            let file = self.folder.path().join(format!("{}.json", one.name));
            std::fs::write(&file, Value::Object(one.values.clone()).to_string()).unwrap();
            let mut helm = self.helm_of(setting.helm, one);
            helm.args(["install", &one.name]).arg(setting.chart(one.release())).arg("--values").arg(file);
            (one, helm.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        });
        for (one, helm) in helms.collect::<Vec<_>>() {
            let output = helm.wait_with_output().unwrap();
            assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
        }
    }

    /// A release that the catalogue knows nothing of.
    pub fn install_stranger(&self, setting: &Setting) {
        let folder = self.folder.path().join("blog");
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(folder.join("Chart.yaml"), "{apiVersion: v2, name: blog, version: 1.0.0}\n").unwrap();
        let notes = "{apiVersion: v1, kind: ConfigMap, metadata: {name: blog}}\n";
        std::fs::write(folder.join("templates/notes.yaml"), notes).unwrap();
        let output =
            self.helm_in(setting.helm, &self.namespace).args(["install", "blog"]).arg(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// helm of that major version, where a release is.
    pub fn helm_of(&self, major: u8, one: &ByHand) -> Command {
        self.helm_in(major, one.namespace.as_deref().unwrap_or(&self.namespace))
    }

    fn helm_in(&self, major: u8, namespace: &str) -> Command {
        let mut helm = Command::new(self.cluster().helm(major).unwrap());
        helm.args(["--namespace", namespace]).env("KUBECONFIG", self.cluster().kubeconfig());
        helm.env("HOME", self.folder.path().join("home"));
        helm
    }

    /// An upgrade of a person's, by the chart that they installed, with one setting more.
    pub fn goes_on(&self, setting: &Setting, one: &ByHand, set: &str) {
        let mut helm = self.helm_of(setting.helm, one);
        let helm =
            helm.args(["upgrade", &one.name]).arg(setting.chart(one.release())).args(["--reuse-values", "--set", set]);
        let output = helm.output().unwrap();
        assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
    }

    /// What templates saw in a release's newest revision: values over the chart's defaults, without what is null.
    pub fn seen(&self, one: &ByHand) -> Values {
        let output =
            self.helm_of(4, one).args(["get", "values", &one.name, "--all", "--output", "json"]).output().unwrap();
        assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
        let mut values: Values = serde_json::from_slice(&output.stdout).unwrap();
        bare(&mut values);
        values
    }
}

/// Without nulls and what holds nothing else: templates find nothing in either.
fn bare(values: &mut Values) {
    values.values_mut().filter_map(Value::as_object_mut).for_each(bare);
    values.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
}

/// Charts of upstream's, as `CHARTS` names them.
pub fn upstream() -> PathBuf {
    let named = std::env::var_os("CHARTS").filter(|folder| !folder.is_empty());
    Path::new(&named.expect("CHARTS is not set: this story needs OpenStack-Helm's charts; name their folder"))
        .to_owned()
}
