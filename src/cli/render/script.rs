//! `install.sh`: what the operator would run, for a person's hands.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::chart::Taken;
use super::folder::Folder;
use super::{Cloud, Secrets};
use osdpl_core::desired::DesiredRelease;
use osdpl_operator::controller::upgrade;
use osdpl_operator::helm::program::DRIVER;

/// The script's name.
pub const NAME: &str = "install.sh";

/// What makes a script of the commands: all releases or those that are named, and none without its credentials.
const HEAD: &str = r#"set -eu
CDPATH= cd -- "$(dirname -- "$0")"
all=@ALL@
for name in "$@"; do
  case "$all" in *" $name "*) ;; *) echo "there is no release $name here; there are$all" >&2; exit 2 ;; esac
done
names=" $* "
wanted() { case "$names" in "  " | *" $1 "*) return 0 ;; *) return 1 ;; esac }
complete() {
  if grep -q '<redacted>' "$1"; then
    echo "$1 has no credentials (osdpl render --credentials writes them); nothing was done with it" >&2
    exit 1
  fi
}
namespace() { kubectl get namespace "$1" >/dev/null 2>&1 || kubectl create namespace "$1"; }
"#;

/// How each script begins; what does not is none of ours.
const BEGIN: &str = "#!/bin/sh\n# OpenStackDeployment ";

/// Says that manifests are among the files of ours.
const MANIFESTS: &str = "# What helm would render stands beside the values, as RELEASE.manifest.yaml.\n";

/// What would have helm speak to another cluster than kubectl.
const ELSEWHERE: &str = "unset HELM_KUBEAPISERVER HELM_KUBECONTEXT HELM_KUBETOKEN HELM_KUBECAFILE HELM_KUBEASUSER HELM_KUBEASGROUPS \
                         HELM_KUBEINSECURE_SKIP_TLS_VERIFY HELM_KUBETLS_SERVER_NAME";

/// The cluster that credentials were read from, by the one thing in it that whoever may read them can see.
pub struct Home {
    /// The resource's namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

impl Home {
    /// Goes no further in any other cluster: credentials would be installed there, and Jobs deleted.
    fn guard(&self) -> String {
        let (namespace, uid) = (word(&self.namespace), word(&self.uid));
        let refused = format!(
            "the namespace {} of this cluster is not the one that these values were read from: choose their cluster (KUBECONFIG, kubectl config use-context); nothing was done",
            self.namespace
        );
        format!(
            "{ELSEWHERE}\nif [ \"$(kubectl get namespace {namespace} --output 'jsonpath={{.metadata.uid}}')\" != {uid} ]; then\n  echo {} >&2\n  exit 2\nfi\n",
            word(&refused)
        )
    }
}

/// Makes room for a script of these releases: what an earlier one was written with and this one is not goes, since there may be credentials in it. Until
/// the new one is written, one stands there that does nothing, so that what is written meanwhile is known for ours by the next run. The releases of which
/// nothing is left.
///
/// # Errors
/// Where a file would be written over one that osdpl has not written; nothing is removed then.
pub fn clear(folder: &Folder, chosen: &[&str], with_manifests: bool) -> anyhow::Result<Vec<String>> {
    let text = folder.read(NAME)?.filter(|text| text.starts_with(BEGIN));
    let own: Vec<&str> = text.iter().flat_map(|text| releases(text)).collect();
    let had_manifests = text.as_ref().is_some_and(|text| text.contains(MANIFESTS));
    let values = chosen.iter().filter(|name| !own.contains(name)).map(|name| format!("{name}.yaml"));
    let are_others = |name: &&&str| with_manifests && !(had_manifests && own.contains(*name));
    let manifests = chosen.iter().filter(are_others).map(|name| manifest(name));
    let script = text.is_none().then(|| NAME.to_owned());
    if let Some(name) = values.chain(manifests).chain(script).find(|name| folder.has(name)) {
        bail!("{folder}/{name} is there, and not by `osdpl render`: name another folder, or move the file away");
    }
    let (kept, left): (Vec<&str>, Vec<&str>) = own.into_iter().partition(|name| chosen.contains(name));
    for name in &left {
        folder.remove(&format!("{name}.yaml"))?;
    }
    for name in left.iter().chain(kept.iter().filter(|_| !with_manifests)).filter(|_| had_manifests) {
        folder.remove(&manifest(name))?;
    }
    folder.write(NAME, unfinished(chosen, with_manifests).as_bytes(), true)?;
    Ok(left.into_iter().map(str::to_owned).collect())
}

/// A script that does nothing yet, of these releases.
fn unfinished(names: &[&str], with_manifests: bool) -> String {
    let manifests = if with_manifests { MANIFESTS } else { "" };
    let all = word(&format!(" {} ", names.join(" ")));
    let why = "osdpl render did not come to its end, and this folder is not whole: run it again; nothing was done";
    format!("{BEGIN}of which not everything is written.\n{manifests}all={all}\necho {} >&2\nexit 1\n", word(why))
}

/// The file with the manifests of a release.
pub fn manifest(name: &str) -> String {
    format!("{name}.manifest.yaml")
}

/// The releases of a script of ours.
fn releases(text: &str) -> impl Iterator<Item = &str> {
    let all = text.lines().find_map(|line| line.strip_prefix("all="));
    let names = all.map(|all| all.trim_matches(['"', '\''])).into_iter().flat_map(str::split_whitespace);
    names.filter(|name| !name.contains('/'))
}

/// A script in the making.
pub struct Script<'a> {
    cloud: &'a Cloud,
    secrets: Secrets,
    with_manifests: bool,
    names: Vec<String>,
    depth: Option<usize>,
    body: String,
}

impl<'a> Script<'a> {
    pub fn new(cloud: &'a Cloud, secrets: Secrets, with_manifests: bool) -> Self {
        Self { cloud, secrets, with_manifests, names: Vec::new(), depth: None, body: String::new() }
    }

    /// Adds a release; they come in the order of their depth.
    pub fn add(&mut self, name: &str, release: &DesiredRelease, depth: usize, values: &str, chart: &Taken) {
        let body = &mut self.body;
        if self.depth.replace(depth) != Some(depth) {
            let _ = writeln!(body, "\n# ---- depth {depth}: {} ----", words(depth));
        }
        let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
        let _ = writeln!(body, "\n# {}", comment(&format!("{name}: {}{needs}", chart.told)));
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
        // Which archive that is says the reference.
        let upgrade = upgrade(name, release, PathBuf::new());
        let line = upgrade.by_hand(&release.key, self.cloud.helm, Path::new(values), &chart.reference);
        let line: Vec<String> = line.iter().map(|argument| quoted(argument)).collect();
        let _ = writeln!(body, "  helm {}\nfi", line.join(" "));
        self.names.push(name.to_owned());
    }

    pub fn text(&self) -> String {
        let Cloud { namespace, name, helm, home, .. } = self.cloud;
        let (major, whose) = (helm.major, comment(&format!("{namespace}/{name}")));
        let mut text =
            format!("{BEGIN}{whose}: what osdpl would run with helm {major}, those releases first that others need.\n");
        text.push_str("# All of it: ./install.sh; some releases: ./install.sh keystone glance. While the operator runs, pause these first (`paused: true`).\n");
        text.push_str("# Labels are left out: by them the operator knows revisions of its own. helm does not wait for pods: before the next depth\n");
        text.push_str("# look whether what it needs is there. CRDs of a chart out of a repository: helm show crds CHART | kubectl apply --server-side -f -\n");
        text.push_str(if self.with_manifests { MANIFESTS } else { "" });
        match self.secrets {
            Secrets::Real => text.push_str("# The values beside it hold REAL credentials.\n"),
            Secrets::Redacted => text
                .push_str("# The values beside it are without credentials; osdpl render --credentials writes them.\n"),
            Secrets::MadeUp => {
                text.push_str("echo 'these credentials are made up, and known to everybody: nothing is installed with them' >&2\nexit 1\n");
            }
        }
        text.push_str(&HEAD.replace("@ALL@", &word(&format!(" {} ", self.names.join(" ")))));
        let _ = writeln!(text, "export {}={}", DRIVER.0, DRIVER.1);
        text.push_str(&home.as_ref().map(Home::guard).unwrap_or_default());
        text.push_str(&self.body);
        text
    }
}

fn words(depth: usize) -> &'static str {
    if depth == 0 { "what needs no other release" } else { "what needs something of the depths before" }
}

/// What ends no line, and so no comment.
fn comment(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn word(text: &str) -> String {
    quoted(OsStr::new(text))
}

/// As a shell takes it for one word.
fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (word, written) in [
            ("--set=a,b", "--set=a,b"),
            ("2026.1.24+0ee5adeff", "2026.1.24+0ee5adeff"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(rm)", "'$(rm)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), written);
        }
    }

    #[test]
    fn in_another_cluster_than_that_of_the_credentials_nothing_is_done() {
        let home = Home { namespace: "open stack".into(), uid: "9b2c".into() };
        let run = |uid: &str| {
            let kubectl = format!(
                "kubectl() {{ [ \"$*\" = \"get namespace open stack --output jsonpath={{.metadata.uid}}\" ] && echo {uid}; }}"
            );
            let script =
                format!("set -eu\n{kubectl}\n{}echo \"went on $HELM_DRIVER${{HELM_KUBECONTEXT-}}\"", home.guard());
            let mut shell = Command::new("sh");
            let output =
                shell.args(["-c", &script]).envs([("HELM_DRIVER", "secret"), ("HELM_KUBECONTEXT", "prod")]).output();
            let output = output.unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        assert_eq!(run("9b2c"), (Some(0), "went on secret\n".into(), String::new()));
        let (code, said, why) = run("other");
        assert_eq!((code, said.as_str()), (Some(2), ""));
        assert!(why.starts_with("the namespace open stack of this cluster is not the one"), "{why}");
    }

    #[test]
    fn only_what_was_written_before_is_written_over_and_what_is_left_out_now_goes() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path(), false).unwrap();
        let clear = |chosen: &[&str]| clear(&folder, chosen, true).map_err(|error| error.to_string());
        let write = |name: &str, text: &str| folder.write(name, text.as_bytes(), false).unwrap();
        for foreign in ["keystone.yaml", "keystone.manifest.yaml", NAME] {
            write(foreign, "my own\n");
            let refused = clear(&["keystone"]).unwrap_err();
            assert!(refused.contains(foreign) && refused.contains("name another folder"), "{refused}");
            assert_eq!(folder.read(foreign).unwrap().as_deref(), Some("my own\n"));
            folder.remove(foreign).unwrap();
        }
        let files = ["keystone.yaml", "nova.yaml", "nova.manifest.yaml"];
        for (manifests, left) in [(MANIFESTS, [true, false, false]), ("", [true, false, true])] {
            write(NAME, &format!("{BEGIN}openstack/cloud\n{manifests}all=' keystone nova '\n"));
            for name in files {
                write(name, "x: 1\n");
            }
            assert_eq!(clear(&["keystone"]), Ok(vec!["nova".to_owned()]));
            assert_eq!(files.map(|name| folder.has(name)), left, "manifests of others are theirs");
        }
        let refused = clear(&["nova"]).unwrap_err();
        assert!(refused.contains("nova.manifest.yaml is there, and not by"), "{refused}");
    }

    #[test]
    fn what_a_run_left_that_did_not_end_is_written_over_and_installs_nothing() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path(), false).unwrap();
        let write = |name: &str, text: &str| folder.write(name, text.as_bytes(), false).unwrap();
        write(NAME, &format!("{BEGIN}openstack/cloud\nall=' keystone '\n"));
        assert_eq!(clear(&folder, &["nova", "glance"], true).unwrap(), ["keystone"]);
        write("nova.yaml", "x: 1\n");
        write("nova.manifest.yaml", "x: 1\n");
        let run = Command::new("sh").arg(home.path().join(NAME)).output().unwrap();
        let why = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.code() == Some(1) && why.contains("run it again"), "{why}");
        assert_eq!(clear(&folder, &["nova"], true).unwrap(), ["glance"]);
        assert_eq!(clear(&folder, &["glance"], false).unwrap(), ["nova"]);
        assert!(!folder.has("nova.yaml") && !folder.has("nova.manifest.yaml"));
    }

    #[test]
    fn a_comment_ends_no_line() {
        assert_eq!(comment("openstack/cloud\ntouch /tmp/x\r#"), "openstack/cloud touch /tmp/x #");
    }
}
