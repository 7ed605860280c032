//! Builds the text of `install.sh`, a script that runs the same helm commands as the operator, and prepares the output
//! folder for the script.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::chart::PreparedChart;
use super::folder::Folder;
use super::{Cloud, Secrets};
use crate::shell::{quoted, word};
use osdpl_core::desired::DesiredRelease;
use osdpl_operator::controller::build_upgrade;
use osdpl_operator::helm::program::STORAGE_DRIVER;

/// The file name of the script that installs the releases.
pub(crate) const NAME: &str = "install.sh";

/// The first commands of the script: they select the releases to install, and refuse values that contain no
/// credentials.
const HEAD: &str = r#"set -eu
CDPATH= cd -- "$(dirname -- "$0")"
all=@ALL@
for name in "$@"; do
  case "$all" in *" $name "*) ;; *) echo "there is no release $name here; choose from$all" >&2; exit 2 ;; esac
done
names=" $* "
wanted() { case "$names" in "  " | *" $1 "*) return 0 ;; *) return 1 ;; esac }
complete() {
  if grep -q '<redacted>' "$1"; then
    echo "$1 has no credentials, so install.sh did not install its release; write the values with osdpl render --credentials" >&2
    exit 1
  fi
}
namespace() { kubectl get namespace "$1" >/dev/null 2>&1 || kubectl create namespace "$1"; }
"#;

/// The text with which each install.sh of osdpl begins. osdpl removes or overwrites files in the output folder only if
/// it finds a script with this beginning, because then osdpl has written these files.
const BEGIN: &str = "#!/bin/sh\n# OpenStackDeployment ";

/// A line in an install.sh that tells osdpl that the folder contains manifests in addition to values. Do not change
/// this line: a newer osdpl searches for it in the scripts of older versions.
const MANIFESTS: &str = "# What helm would render stands beside the values, as RELEASE.manifest.yaml.\n";

/// A shell command that unsets the variables that select a cluster for helm, but that kubectl ignores. With these
/// variables, helm could change another cluster than the one that kubectl selects.
const UNSET_OTHER_CLUSTERS: &str = "unset HELM_KUBEAPISERVER HELM_KUBECONTEXT HELM_KUBETOKEN HELM_KUBECAFILE HELM_KUBEASUSER HELM_KUBEASGROUPS \
                         HELM_KUBEINSECURE_SKIP_TLS_VERIFY HELM_KUBETLS_SERVER_NAME";

/// Identifies the cluster from which osdpl read real credentials, by the UID of the namespace that contains the
/// `OpenStackDeployment`.
///
/// osdpl uses the UID of this namespace, because a user who can read the credentials in the namespace can usually read
/// the namespace itself, too.
pub(crate) struct ClusterIdentity {
    /// The namespace of the `OpenStackDeployment`.
    pub namespace: String,
    /// The UID of this namespace. In any other cluster, a namespace of this name has another UID.
    pub uid: String,
}

impl ClusterIdentity {
    /// Returns shell commands that end install.sh if kubectl does not select the cluster from which osdpl read the
    /// credentials. Without these commands, install.sh would install the credentials and delete Jobs in another
    /// cluster.
    fn guard(&self) -> String {
        let (namespace, uid) = (word(&self.namespace), word(&self.uid));
        let message = format!(
            "the namespace {} of this cluster is not the one from which osdpl read these values; nothing was done; select the cluster of the values (KUBECONFIG, kubectl config use-context)",
            self.namespace
        );
        format!(
            "{UNSET_OTHER_CLUSTERS}\nif [ \"$(kubectl get namespace {namespace} --output 'jsonpath={{.metadata.uid}}')\" != {uid} ]; then\n  echo {} >&2\n  exit 2\nfi\n",
            word(&message)
        )
    }
}

/// Prepares the folder for this run of `osdpl render`. Returns the names of the releases that only the earlier run
/// wrote, and whose files the function removed.
///
/// First removes the files of an earlier run that this run will not overwrite. Such files may contain credentials.
///
/// Then writes a temporary install.sh that installs nothing, but lists the selected releases. If this run fails, the
/// next run uses this list to find the files of the failed run, and to remove or overwrite them.
///
/// # Errors
/// Returns an error if the run would overwrite a file that osdpl has not written. In this case, the function removes no
/// file.
pub(crate) fn clear(folder: &Folder, selected: &[&str], with_manifests: bool) -> anyhow::Result<Vec<String>> {
    let text = folder.read(NAME)?.filter(|text| text.starts_with(BEGIN));
    let recorded: Vec<&str> = text.iter().flat_map(|text| releases(text)).collect();
    let had_manifests = text.as_ref().is_some_and(|text| text.contains(MANIFESTS));
    let values = selected.iter().filter(|name| !recorded.contains(name)).map(|name| format!("{name}.yaml"));
    let is_foreign = |name: &&&str| with_manifests && !(had_manifests && recorded.contains(*name));
    let manifests = selected.iter().filter(is_foreign).map(|name| manifest(name));
    let script = text.is_none().then(|| NAME.to_owned());
    if let Some(name) = values.chain(manifests).chain(script).find(|name| folder.has(name)) {
        bail!(
            "{folder}/{name} exists and was not written by `osdpl render`; name another folder, or move the file away"
        );
    }
    let (kept, removed): (Vec<&str>, Vec<&str>) = recorded.into_iter().partition(|name| selected.contains(name));
    for name in &removed {
        folder.remove(&format!("{name}.yaml"))?;
    }
    for name in removed.iter().chain(kept.iter().filter(|_| !with_manifests)).filter(|_| had_manifests) {
        folder.remove(&manifest(name))?;
    }
    folder.write(NAME, unfinished(selected, with_manifests).as_bytes(), true)?;
    Ok(removed.into_iter().map(str::to_owned).collect())
}

/// Returns a temporary install.sh. It lists the releases of this run, but only prints that `osdpl render` did not
/// finish.
fn unfinished(names: &[&str], with_manifests: bool) -> String {
    let manifests = if with_manifests { MANIFESTS } else { "" };
    let all = word(&format!(" {} ", names.join(" ")));
    let message =
        "osdpl render did not finish, so this folder is incomplete; nothing was installed; run osdpl render again";
    format!("{BEGIN}(osdpl render did not finish).\n{manifests}all={all}\necho {} >&2\nexit 1\n", word(message))
}

/// Returns the name of the file with the manifests of a release.
pub(crate) fn manifest(name: &str) -> String {
    format!("{name}.manifest.yaml")
}

/// Returns the names of the releases that an install.sh lists. `text` is the whole script.
fn releases(text: &str) -> impl Iterator<Item = &str> {
    let all = text.lines().find_map(|line| line.strip_prefix("all="));
    let names = all.map(|all| all.trim_matches(['"', '\''])).into_iter().flat_map(str::split_whitespace);
    names.filter(|name| !name.contains('/'))
}

/// The text of `install.sh`. The caller adds the commands of the releases, one release after another.
pub(crate) struct Script<'a> {
    cloud: &'a Cloud,
    secrets: Secrets,
    with_manifests: bool,
    names: Vec<String>,
    depth: Option<usize>,
    body: String,
}

impl<'a> Script<'a> {
    pub(crate) fn new(cloud: &'a Cloud, secrets: Secrets, with_manifests: bool) -> Self {
        Self { cloud, secrets, with_manifests, names: Vec::new(), depth: None, body: String::new() }
    }

    /// Adds the helm commands for a release to the script. The caller must already have added the releases on which
    /// this release depends.
    pub(crate) fn add(
        &mut self,
        name: &str,
        release: &DesiredRelease,
        depth: usize,
        values: &str,
        chart: &PreparedChart,
    ) {
        let body = &mut self.body;
        if self.depth.replace(depth) != Some(depth) {
            let _ = writeln!(body, "\n# ---- depth {depth}: {} ----", describe_depth(depth));
        }
        let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
        let _ = writeln!(body, "\n# {}", comment(&format!("{name}: {}{needs}", chart.description)));
        let namespace = word(&release.key.namespace);
        let _ = writeln!(body, "if wanted {}; then\n  complete {}\n  namespace {namespace}", word(name), word(values));
        if let Some(crds) = &chart.crds {
            let _ = writeln!(body, "  kubectl apply --server-side -f {}", word(crds));
        }
        let jobs = self.cloud.jobs.get(name).map(Vec::as_slice).unwrap_or_default();
        if !jobs.is_empty() {
            let jobs: Vec<String> = jobs.iter().map(|job| word(job)).collect();
            let _ =
                writeln!(body, "  kubectl --namespace {namespace} delete jobs --ignore-not-found {}", jobs.join(" "));
        }
        // Pass an empty path of the chart: `manual_arguments` below uses `chart.reference` instead.
        let upgrade = build_upgrade(name, release, PathBuf::new());
        let line = upgrade.manual_arguments(&release.key, self.cloud.helm, Path::new(values), &chart.reference);
        let line: Vec<String> = line.iter().map(|argument| quoted(argument)).collect();
        let _ = writeln!(body, "  helm {}\nfi", line.join(" "));
        self.names.push(name.to_owned());
    }

    /// Returns the text of the script.
    pub(crate) fn text(&self) -> String {
        let Cloud { namespace, name, helm, cluster, .. } = self.cloud;
        let (major, resource) = (helm.major, comment(&format!("{namespace}/{name}")));
        let mut text =
            format!("{BEGIN}{resource}: the commands that osdpl runs, for helm {major}, in dependency order.\n");
        text.push_str("# Install all releases: ./install.sh. Install some: ./install.sh keystone glance. If the operator runs, pause these releases first (`paused: true`).\n");
        text.push_str("# The commands set no labels of osdpl, because these labels mark revisions of the operator. helm does not wait for pods:\n");
        text.push_str("# before you install the releases of one depth (a section below), check that the releases on which they depend are available.\n");
        text.push_str("# Install the CRDs of a chart from a repository: helm show crds CHART | kubectl apply --server-side -f -\n");
        text.push_str(if self.with_manifests { MANIFESTS } else { "" });
        text.push_str(&self.cloud.placeholder_comments());
        match self.secrets {
            Secrets::Real => text.push_str("# The values in this folder contain REAL credentials.\n"),
            Secrets::Redacted => text.push_str(
                "# The values in this folder contain no credentials; osdpl render --credentials writes them.\n",
            ),
            Secrets::Placeholders => {
                text.push_str("echo 'install.sh installs nothing, because its credentials are placeholders, which are publicly known; write the real credentials with osdpl render --credentials' >&2\nexit 1\n");
            }
        }
        text.push_str(&HEAD.replace("@ALL@", &word(&format!(" {} ", self.names.join(" ")))));
        let _ = writeln!(text, "export {}={}", STORAGE_DRIVER.0, STORAGE_DRIVER.1);
        text.push_str(&cluster.as_ref().map(ClusterIdentity::guard).unwrap_or_default());
        text.push_str(&self.body);
        text
    }
}

fn describe_depth(depth: usize) -> &'static str {
    if depth == 0 { "without dependencies" } else { "depends on earlier depths" }
}

/// Replaces control characters in a text that becomes a comment of install.sh. Otherwise the shell would run what
/// follows a line break in the text.
pub(crate) fn comment(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn stops_in_another_cluster() {
        let cluster = ClusterIdentity { namespace: "open stack".into(), uid: "9b2c".into() };
        let run = |uid: &str| {
            let kubectl = format!(
                "kubectl() {{ [ \"$*\" = \"get namespace open stack --output jsonpath={{.metadata.uid}}\" ] && echo {uid}; }}"
            );
            let script =
                format!("set -eu\n{kubectl}\n{}echo \"continues $HELM_DRIVER${{HELM_KUBECONTEXT-}}\"", cluster.guard());
            let mut shell = Command::new("sh");
            let output =
                shell.args(["-c", &script]).envs([("HELM_DRIVER", "secret"), ("HELM_KUBECONTEXT", "prod")]).output();
            let output = output.unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        assert_eq!(run("9b2c"), (Some(0), "continues secret\n".into(), String::new()));
        let (code, output, error) = run("other");
        assert_eq!((code, output.as_str()), (Some(2), ""));
        assert!(error.starts_with("the namespace open stack of this cluster is not the one"), "{error}");
    }

    #[test]
    fn replaces_only_own_files_and_removes_old_ones() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path(), false).unwrap();
        let clear = |selected: &[&str]| clear(&folder, selected, true).map_err(|error| error.to_string());
        let write = |name: &str, text: &str| folder.write(name, text.as_bytes(), false).unwrap();
        for foreign in ["keystone.yaml", "keystone.manifest.yaml", NAME] {
            write(foreign, "my own\n");
            let error = clear(&["keystone"]).unwrap_err();
            assert!(error.contains(foreign) && error.contains("name another folder"), "{error}");
            assert_eq!(folder.read(foreign).unwrap().as_deref(), Some("my own\n"));
            folder.remove(foreign).unwrap();
        }
        let files = ["keystone.yaml", "nova.yaml", "nova.manifest.yaml"];
        for (manifests, remaining) in [(MANIFESTS, [true, false, false]), ("", [true, false, true])] {
            write(NAME, &format!("{BEGIN}openstack/cloud\n{manifests}all=' keystone nova '\n"));
            for name in files {
                write(name, "x: 1\n");
            }
            assert_eq!(clear(&["keystone"]), Ok(vec!["nova".to_owned()]));
            assert_eq!(
                files.map(|name| folder.has(name)),
                remaining,
                "osdpl must keep manifests that it did not write"
            );
        }
        let error = clear(&["nova"]).unwrap_err();
        assert!(error.contains("nova.manifest.yaml exists and was not written by"), "{error}");
    }

    #[test]
    fn unfinished_runs_install_nothing_and_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path(), false).unwrap();
        let write = |name: &str, text: &str| folder.write(name, text.as_bytes(), false).unwrap();
        write(NAME, &format!("{BEGIN}openstack/cloud\nall=' keystone '\n"));
        assert_eq!(clear(&folder, &["nova", "glance"], true).unwrap(), ["keystone"]);
        write("nova.yaml", "x: 1\n");
        write("nova.manifest.yaml", "x: 1\n");
        let run = Command::new("sh").arg(home.path().join(NAME)).output().unwrap();
        let error = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(1) && error.contains("run osdpl render again"), "{error}");
        assert_eq!(clear(&folder, &["nova"], true).unwrap(), ["glance"]);
        assert_eq!(clear(&folder, &["glance"], false).unwrap(), ["nova"]);
        assert!(!folder.has("nova.yaml") && !folder.has("nova.manifest.yaml"));
    }

    #[test]
    fn comments_stay_on_one_line() {
        assert_eq!(comment("openstack/cloud\ntouch /tmp/x\r#"), "openstack/cloud touch /tmp/x #");
    }
}
