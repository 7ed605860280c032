//! `install.sh`: what the operator would run, for a person's hands.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::chart::Taken;
use super::{Cloud, Secrets};
use crate::controller::upgrade;
use crate::desired::DesiredRelease;
use crate::helm::program::DRIVER;

/// The script's name.
pub const NAME: &str = "install.sh";

/// What makes a script of the commands: all releases or those that are named, and none without its credentials.
const HEAD: &str = r#"set -eu
cd "$(dirname "$0")"
all=" @ALL@ "
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

/// A script in the making.
pub struct Script<'a> {
    cloud: &'a Cloud,
    secrets: Secrets,
    names: Vec<String>,
    depth: Option<usize>,
    body: String,
}

impl<'a> Script<'a> {
    pub fn new(cloud: &'a Cloud, secrets: Secrets) -> Self {
        Self { cloud, secrets, names: Vec::new(), depth: None, body: String::new() }
    }

    /// Adds a release; they come in the order of their depth.
    pub fn add(&mut self, name: &str, release: &DesiredRelease, depth: usize, values: &str, chart: &Taken) {
        let body = &mut self.body;
        if self.depth.replace(depth) != Some(depth) {
            let _ = writeln!(body, "\n# ---- depth {depth}: {} ----", words(depth));
        }
        let needs: Vec<String> = release.needs.keys().map(ToString::to_string).collect();
        let needs = if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
        let _ = writeln!(body, "\n# {name}: {}{needs}", chart.told);
        let _ = writeln!(body, "if wanted {name}; then\n  complete {values}\n  namespace {}", release.key.namespace);
        if let Some(crds) = &chart.crds {
            let _ = writeln!(body, "  kubectl apply --server-side -f {}", quoted(OsStr::new(crds)));
        }
        let jobs = self.cloud.jobs.get(name).map(Vec::as_slice).unwrap_or_default();
        if !jobs.is_empty() {
            let namespace = &release.key.namespace;
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
        let Cloud { namespace, name, helm, .. } = self.cloud;
        let major = helm.major;
        let mut text = format!(
            "#!/bin/sh\n# OpenStackDeployment {namespace}/{name}: what osdpl would run with helm {major}, those releases first that others need.\n"
        );
        text.push_str("# All of it: ./install.sh; some releases: ./install.sh keystone glance. While the operator runs, pause these first (`paused: true`).\n");
        text.push_str("# Labels are left out: by them the operator knows revisions of its own. helm does not wait for pods: before the next depth\n");
        text.push_str("# look whether what it needs is there. CRDs of a chart out of a repository: helm show crds CHART | kubectl apply --server-side -f -\n");
        match self.secrets {
            Secrets::Real => text.push_str("# The values beside it hold REAL credentials.\n"),
            Secrets::Redacted => text
                .push_str("# The values beside it are without credentials; osdpl render --credentials writes them.\n"),
            Secrets::MadeUp => {
                text.push_str("echo 'these credentials are made up, and known to everybody: nothing is installed with them' >&2\nexit 1\n");
            }
        }
        text.push_str(&HEAD.replace("@ALL@", &self.names.join(" ")));
        let _ = writeln!(text, "export {}={}", DRIVER.0, DRIVER.1);
        text.push_str(&self.body);
        text
    }
}

fn words(depth: usize) -> &'static str {
    if depth == 0 { "what needs no other release" } else { "what needs something of the depths before" }
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
}
