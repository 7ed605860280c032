//! Writes the shell script that builds a layer.

use super::recipe::{Layer, User, requirements};

/// The path of the folder that exists in a layer's root only while the layer is built. It contains the layer's script
/// and the script's input files.
pub(super) const INPUTS: &str = "/.osdpl";
/// The value of PATH in the images, and in the scripts that build their layers. It contains the folder of the OpenStack
/// services' programs, because the charts call these programs without a path.
pub(super) const PATH: &str = "/var/lib/openstack/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the script that runs in the layer's root file system to build the layer; empty if the layer needs no script.
pub(super) fn of(layer: &Layer) -> String {
    let mut lines = Vec::new();
    layer.users.iter().for_each(|user| lines.extend(create(user)));
    if !(layer.packages.is_empty() && layer.unpack.is_empty()) {
        lines.push("apt-get update -q".into());
    }
    if !layer.packages.is_empty() {
        lines.push(format!("apt-get install -q -y --no-install-recommends {}", layer.packages.join(" ")));
    }
    if !layer.unpack.is_empty() {
        lines.push(format!("mkdir /tmp/unpack && cd /tmp/unpack && apt-get download -q {}", layer.unpack.join(" ")));
        lines.push("for package in *.deb; do dpkg -x $package /; done; cd /".into());
    }
    if let (Some(file), Some(venv)) = (&layer.python, &layer.venv) {
        lines.extend(python(file, venv));
    }
    lines.extend(layer.run.iter().cloned());
    if lines.is_empty() {
        return String::new();
    }
    let before = [
        "set -eu",
        // Packages must not start their daemons (Debian's invoke-rc.d asks this program).
        "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d",
    ];
    let after = "rm -rf /usr/sbin/policy-rc.d /var/cache/apt/archives/*.deb /var/cache/apt/*.bin /var/lib/apt/lists/* \
                 /var/log/apt /var/log/dpkg.log";
    let all = before.into_iter().map(String::from).chain(lines).chain([after.to_owned()]);
    all.map(|line| line + "\n").collect()
}

fn create(user: &User) -> Vec<String> {
    let User { name, id } = user;
    let system = if *id < 1000 { "--system " } else { "" };
    let folders: Vec<String> =
        ["/etc", "/var/lib", "/var/log", "/var/cache"].iter().map(|folder| format!("{folder}/{name}")).collect();
    let folders = folders.join(" ");
    vec![
        format!("groupadd {system}--gid {id} {name}"),
        format!("useradd {system}--uid {id} --gid {id} -M --home-dir /var/lib/{name} --shell /bin/bash {name}"),
        format!("mkdir -p {folders} && chown {id}:{id} {folders}"),
    ]
}

fn python(file: &str, venv: &str) -> Vec<String> {
    let has_uwsgi = requirements(file).is_ok_and(|text| text.contains("\nuWSGI=="));
    let file = format!("{INPUTS}/{file}");
    if venv == "system" {
        return vec![format!("pip install -q --break-system-packages --no-deps --requirement {file}")];
    }
    let pip = format!("{venv}/bin/pip install -q --no-deps --constraint {file}");
    let mut lines = vec![
        format!("python3 -m venv --system-site-packages {venv}"),
        // pip builds a package without a wheel in a separate environment. This variable makes pip install the pinned
        // version of setuptools there.
        format!("export PIP_CONSTRAINT={file}"),
        format!("{pip} setuptools pbr wheel"),
    ];
    if has_uwsgi {
        // The build of uWSGI does not find the headers of Python in such a separate environment.
        lines.push(format!("{pip} --no-build-isolation uWSGI"));
    }
    lines.push(format!("{pip} --requirement {file}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_users_before_packages() {
        let layer = Layer {
            users: vec![User { name: "mysql".into(), id: 999 }],
            packages: vec!["mariadb-server".into()],
            ..Layer::default()
        };
        let script = of(&layer);
        let position = |text: &str| script.find(text).unwrap_or_else(|| panic!("{text} is not in {script}"));
        assert!(position("groupadd --system --gid 999 mysql") < position("install -q -y"));
        assert!(position("policy-rc.d") < position("groupadd"));
    }

    #[test]
    fn builds_uwsgi_only_if_the_requirements_contain_it() {
        let has_uwsgi = |file| python(file, "/venv").iter().any(|line| line.ends_with(" uWSGI"));
        assert!(has_uwsgi("openstack-2026.1.txt") && !has_uwsgi("openstack-client.txt"));
    }

    #[test]
    fn layer_with_only_files_needs_no_script() {
        assert_eq!(of(&Layer::default()), "");
    }
}
