//! kwok's configuration: the behaviour of simulated kubelets, assembled from the files in `stages/`.
//!
//! kwok has only one kind of configuration, the Stage, without shared parts. So the expression of all pod stages
//! (`pod.jq`) and their common status (`pod-status.tpl`) are separate files, which replace their names with a dollar
//! sign.

use crate::Error;
use crate::folder::Folder;
use crate::ports::Ports;

const STAGES: [&str; 3] =
    [include_str!("../stages/node.yaml"), include_str!("../stages/pod.yaml"), include_str!("../stages/service.yaml")];

/// Placeholders on a line of their own; the file's lines are inserted with the same indentation.
const TEMPLATES: [(&str, &str); 3] = [
    ("$POD_DEFAULTS", include_str!("../stages/pod-defaults.tpl")),
    ("$POD_STATUS", include_str!("../stages/pod-status.tpl")),
    ("$NODE_STATUS", include_str!("../stages/node-status.tpl")),
];

/// Placeholders inside a line, with a jq file and the function to call; replaced by that program as a quoted string.
const QUERIES: [(&str, &str, &str); 3] = [
    ("$POD_ACTION", include_str!("../stages/pod.jq"), "action"),
    ("$POD_DELAY", include_str!("../stages/pod.jq"), "delay"),
    ("$NODE_ACTION", include_str!("../stages/node.jq"), "action"),
];

/// Writes the configuration for kwok.
pub(crate) fn write(folder: &Folder, ports: Ports, kubernetes_version: &str) -> Result<(), Error> {
    let path = folder.stages();
    std::fs::write(&path, configuration(ports, kubernetes_version)).map_err(Error::file("write", &path))
}

fn configuration(ports: Ports, kubernetes_version: &str) -> String {
    let mut text = String::new();
    for line in STAGES.join("---\n").lines() {
        for line in template(line) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    for (placeholder, program, function) in QUERIES {
        text = text.replace(placeholder, &query(program, function));
    }
    text.replace("$KUBELET_PORT", &ports.kubelet.to_string()).replace("$KUBERNETES_VERSION", kubernetes_version)
}

fn template(line: &str) -> Vec<String> {
    let name = line.trim_start();
    let indentation = &line[..line.len() - name.len()];
    match TEMPLATES.iter().find(|(placeholder, _)| *placeholder == name) {
        Some((_, contents)) => contents.lines().map(|line| format!("{indentation}{line}")).collect(),
        None => vec![line.to_string()],
    }
}

/// Returns a jq program on one line as a JSON string, which is a valid YAML string.
fn query(program: &str, function: &str) -> String {
    let lines = program.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let joined: Vec<&str> = lines.collect();
    serde_json::Value::from(format!("{} {function}", joined.join(" "))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_every_placeholder() {
        let ports = Ports { etcd: 1, etcd_peer: 2, apiserver: 3, kubelet: 4 };
        let text = configuration(ports, "v1.36.3");
        assert!(text.contains("Port: 4}"));
        let left: Vec<&str> = text.lines().filter(|line| line.contains("$POD_") || line.contains("$NODE_")).collect();
        assert!(left.iter().all(|line| line.starts_with('#')), "{left:?}");
    }

    #[test]
    fn quotes_a_jq_program_on_one_line() {
        assert_eq!(query("# comment\ndef a: \"x\";\n", "a"), r#""def a: \"x\"; a""#);
    }
}
