//! Finds programs that the user has installed in PATH.

use std::path::PathBuf;
use std::process::Command;

use super::{Program, Recipe};

/// Returns the path of the recipe's program in PATH: the first file with the program's name and a suitable version.
/// Never returns a program that runs on another root file system, which may lack the program's libraries.
pub(super) fn find(recipe: &Recipe) -> Option<PathBuf> {
    if recipe.program.runs_on_a_node() {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&path).map(|folder| folder.join(recipe.program.executable()));
    candidates.filter(|path| path.is_file()).find(|path| {
        let output = Command::new(path).args(recipe.version_arguments).env_remove("KUBECONFIG").output();
        output.is_ok_and(|output| is_suitable(recipe, &String::from_utf8_lossy(&output.stdout)))
    })
}

/// Returns whether a program in PATH can be used instead of building the recipe's version. `printed` is what the
/// program prints about its version.
fn is_suitable(recipe: &Recipe, printed: &str) -> bool {
    let (Some(found), Some(ours)) = (version_in(printed), version_in(recipe.version)) else { return false };
    match recipe.program {
        // Older versions of etcd (Debian 12 has 3.4.23) do not report the progress of watches. Without these reports,
        // the API server works, but is ten times slower.
        Program::Etcd => found >= [3, 5, 13],
        _ => found[..2] == ours[..2],
    }
}

/// Returns the first version `N.N.N` in a text. Ignores the suffix of a pre-release, such as `-rc1`.
fn version_in(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(|character: char| !(character.is_ascii_digit() || character == '.'));
    parts.find_map(|part| {
        let numbers: Vec<u32> = part.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        numbers.try_into().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_compatible_versions() {
        let cases = [
            (Program::Etcd, "etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8", true),
            (Program::Etcd, "etcd Version: 3.5.13", true),
            (Program::Etcd, "etcd Version: 3.5.12", false),
            (Program::Etcd, "etcd Version: 3.4.23", false),
            (Program::KubeApiserver, "Kubernetes v1.36.0", true),
            (Program::KubeApiserver, "Kubernetes v1.35.9", false),
            (Program::Kubectl, "Client Version: v1.36.3\nKustomize Version: v5.7.1", true),
            (Program::Kwok, "kwok version 0.8.0 go1.26.8 (linux/amd64)", true),
            (Program::Helm4, "v4.3.0+gabc", true),
            (Program::Helm4, "v3.22.0", false),
            (Program::Helm3, "v4.3.1", false),
            (Program::Helm3, "", false),
        ];
        for (program, printed, expected) in cases {
            assert_eq!(is_suitable(&Recipe::of(program), printed), expected, "{program}: {printed}");
        }
    }
}
