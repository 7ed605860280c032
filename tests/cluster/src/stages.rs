//! Writes kwok's configuration, which defines how simulated kubelets behave. The files in `stages/` are its templates.
//!
//! kwok's configuration is a list of Stages. A Stage cannot refer to text of another Stage. So text that several Stages
//! need is in separate files, such as `pod.jq` and `pod-status.tpl`. The files with the Stages, such as `pod.yaml`,
//! contain placeholders for this text, such as `$POD_STATUS`. This module replaces each placeholder with the text.

use crate::Error;
use crate::folder::Folder;
use crate::ports::Ports;

const STAGES: [&str; 3] =
    [include_str!("../stages/node.yaml"), include_str!("../stages/pod.yaml"), include_str!("../stages/service.yaml")];

/// Placeholders that are a line of their own, each with the text that replaces the line. The text gets the indentation
/// of the line.
const TEMPLATES: [(&str, &str); 3] = [
    ("$POD_DEFAULTS", include_str!("../stages/pod-defaults.tpl")),
    ("$POD_STATUS", include_str!("../stages/pod-status.tpl")),
    ("$NODE_STATUS", include_str!("../stages/node-status.tpl")),
];

/// Placeholders inside a line, each with a file of jq functions and the function to call. [`query`] makes the jq
/// program that replaces the placeholder.
const QUERIES: [(&str, &str, &str); 3] = [
    ("$POD_ACTION", include_str!("../stages/pod.jq"), "action"),
    ("$POD_DELAY", include_str!("../stages/pod.jq"), "delay"),
    ("$NODE_ACTION", include_str!("../stages/node.jq"), "action"),
];

/// Writes kwok's configuration into the cluster's folder.
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

/// Returns the jq program that defines the functions in `program` and calls `function`. The result is one line, quoted
/// as a JSON string, which is also valid YAML.
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
