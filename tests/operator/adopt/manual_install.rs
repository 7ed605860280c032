//! Installs a cloud as a user would: with plain helm and the values in `manual_install.yaml`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use osdpl_values::{Path as ValuePath, Values, leaves};
use serde::Deserialize;
use serde_json::Value;

use super::SECOND_NAMESPACE;
use crate::world::World;

/// The suffix of each password in `manual_install.yaml`. The tests find the passwords by this suffix.
const PASSWORD_SUFFIX: &str = "by-hand";

/// A release that a user installs with helm.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManualRelease {
    /// The name of the helm release, which may differ from the name of the release in the catalogue.
    pub name: String,
    /// The name of the chart; the default is the name of the helm release.
    chart: Option<String>,
    /// The namespace of the release; the default is the namespace of the test.
    pub namespace: Option<String>,
    pub values: Values,
}

impl ManualRelease {
    /// Returns the name of the release in the catalogue, which is the name of its chart.
    pub fn release(&self) -> &str {
        self.chart.as_ref().unwrap_or(&self.name)
    }

    /// Returns every password in the release's values, with the path of its key.
    pub fn passwords(&self) -> Vec<(ValuePath, &Value)> {
        leaves(&self.values)
            .into_iter()
            .filter(|(_, value)| value.as_str().is_some_and(|text| text.ends_with(PASSWORD_SUFFIX)))
            .collect()
    }
}

/// The options of a manual install: the helm version, the charts and the releases.
pub struct InstallOptions {
    /// The major version of helm that installs the cloud.
    pub helm: u8,
    /// The folder of the charts.
    pub charts: PathBuf,
    /// The releases to install, by their names in the catalogue; empty means all.
    pub only: &'static [&'static str],
}

impl InstallOptions {
    /// Returns the path of a chart: the folder `NAME`, or the archive `NAME-VERSION.tgz` of any version.
    pub fn chart(&self, name: &str) -> PathBuf {
        let folder = self.charts.join(name);
        if folder.is_dir() {
            return folder;
        }
        let is_archive = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
        };
        let archives = std::fs::read_dir(&self.charts).unwrap().map(|entry| entry.unwrap().path());
        archives.into_iter().find(is_archive).unwrap_or_else(|| panic!("no chart {name} in {}", self.charts.display()))
    }
}

impl World {
    /// Returns the releases in `manual_install.yaml` that the options select.
    pub fn read_manual_releases(&self, options: &InstallOptions) -> Vec<ManualRelease> {
        let text = include_str!("manual_install.yaml").replace("NAMESPACE", &self.namespace);
        let mut all: Vec<ManualRelease> = osdpl_values::yaml::parse("manual_install.yaml", &text).unwrap();
        all.retain(|one| options.only.is_empty() || options.only.contains(&one.release()));
        all
    }

    /// Runs `helm install` for all releases concurrently, because pods of one release wait for pods of other releases.
    pub async fn install_manually(&self, options: &InstallOptions, cloud: &[ManualRelease]) {
        self.permit(&format!("{}{SECOND_NAMESPACE}", self.namespace)).await;
        let helms = cloud.iter().map(|one| {
            let mut helm = self.helm_of(options.helm, one);
            helm.args(["install", &one.name]).arg(options.chart(one.release())).args(["--values", "-"]);
            let mut helm = helm.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            // The values contain passwords, so pass them through a pipe and not in a file.
            helm.stdin.take().unwrap().write_all(Value::Object(one.values.clone()).to_string().as_bytes()).unwrap();
            (one, helm)
        });
        for (one, helm) in helms.collect::<Vec<_>>() {
            let output = helm.wait_with_output().unwrap();
            assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Installs the release `blog`. Its chart is not in the catalogue, so osdpl must ignore the release.
    pub fn install_stranger(&self, options: &InstallOptions) {
        let folder = self.folder.path().join("blog");
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(folder.join("Chart.yaml"), "{apiVersion: v2, name: blog, version: 1.0.0}\n").unwrap();
        let notes = "{apiVersion: v1, kind: ConfigMap, metadata: {name: blog}}\n";
        std::fs::write(folder.join("templates/notes.yaml"), notes).unwrap();
        let output =
            self.helm_in(options.helm, &self.namespace).args(["install", "blog"]).arg(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns a command that runs this major version of helm in the release's namespace.
    pub fn helm_of(&self, major: u8, one: &ManualRelease) -> Command {
        self.helm_in(major, one.namespace.as_deref().unwrap_or(&self.namespace))
    }

    fn helm_in(&self, major: u8, namespace: &str) -> Command {
        let mut helm = Command::new(self.cluster().helm(major).unwrap());
        helm.args(["--namespace", namespace]).env("KUBECONFIG", self.cluster().kubeconfig());
        helm.env("HOME", self.folder.path().join("home"));
        helm
    }

    /// Runs `helm upgrade` for a release with the same chart, its previous values and one changed value (`--set`).
    pub fn upgrade_manually(&self, options: &InstallOptions, one: &ManualRelease, set: &str) {
        let mut helm = self.helm_of(options.helm, one);
        let helm = helm.args(["upgrade", "--wait", &one.name]).arg(options.chart(one.release()));
        let helm = helm.args(["--reuse-values", "--set", set]);
        let output = helm.output().unwrap();
        assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the values with which helm rendered the newest revision: the release's values merged over the chart's
    /// defaults, without nulls and empty maps.
    pub fn merged_values(&self, one: &ManualRelease) -> Values {
        let output =
            self.helm_of(4, one).args(["get", "values", &one.name, "--all", "--output", "json"]).output().unwrap();
        assert!(output.status.success(), "{}: {}", one.name, String::from_utf8_lossy(&output.stderr));
        let mut values: Values = serde_json::from_slice(&output.stdout).unwrap();
        remove_nulls(&mut values);
        values
    }
}

/// Removes nulls, empty maps, and maps that contain only nulls, because templates treat all of these as missing.
fn remove_nulls(values: &mut Values) {
    values.values_mut().filter_map(Value::as_object_mut).for_each(remove_nulls);
    values.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
}

/// Returns the folder of upstream's charts, which the environment variable `CHARTS` names.
pub fn upstream() -> PathBuf {
    let folder = std::env::var_os("CHARTS").filter(|folder| !folder.is_empty());
    Path::new(&folder.expect("CHARTS is not set: this test needs OpenStack-Helm's charts; set it to their folder"))
        .to_owned()
}
