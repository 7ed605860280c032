//! Tests how this crate finds the programs that it runs (etcd, kwok, helm and others), and builds missing ones with
//! `go`. Most tests put a fake `go` in PATH, because a real build takes minutes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

#[test]
fn entrypoint_passes_its_own_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/entrypoint");
    for arguments in [["vet", "."], ["test", "."]] {
        let mut command = Command::new("go");
        let output = command.args(arguments).current_dir(&folder).env("GOWORK", "off").output().unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }
}

/// Creates a folder for the cache, with a subfolder `bin` for the test's PATH. `bin` contains a fake `go` of this
/// version. For each build, the fake `go` adds a line to the file `builds` and then runs the shell command `build`.
fn fake_go(version: &str, build: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    write_go(root.path(), version, build);
    root
}

fn write_go(root: &Path, version: &str, build: &str) {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = env ]; then echo {version}; exit; fi\n\
         while [ \"$1\" != -o ]; do shift; done\necho built >> {}/builds\n{build}\n",
        root.display()
    );
    write_program(&root.join("bin/go"), &script);
}

fn write_program(path: &Path, script: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn programs(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
    command.args(["programs", "kwok"]).env("OSDPL_CACHE", root.join("cache"));
    command.env("PATH", format!("{}:/usr/bin:/bin", root.join("bin").display())).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn builds(root: &Path) -> usize {
    std::fs::read_to_string(root.join("builds")).unwrap_or_default().lines().count()
}

fn run(root: &Path) -> Output {
    programs(root).output().unwrap()
}

const SUCCEED: &str = "sleep 0.3; mkdir -p $(dirname $2); echo program > $2";

#[test]
fn concurrent_builds_happen_once() {
    let root = fake_go("go1.30.0", SUCCEED);
    let both = [programs(root.path()), programs(root.path())];
    let both = both.map(|mut one| one.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let outputs = both.map(|one| one.wait_with_output().unwrap());
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    assert_eq!(outputs[0].stdout, outputs[1].stdout);
    assert_eq!(builds(root.path()), 1);
    assert!(run(root.path()).stderr.is_empty(), "the third run must find the built program and print nothing");
}

#[test]
fn failed_build_shows_the_output_of_go() {
    let root = fake_go("go1.30.0", "echo 'undefined: foo' >&2; exit 1");
    let failed = run(root.path());
    assert!(!failed.status.success());
    let error = text(&failed.stderr);
    assert!(error.contains("building kwok 0.") && error.contains("undefined: foo"), "{error}");
    write_go(root.path(), "go1.30.0", SUCCEED);
    assert!(run(root.path()).status.success());
}

#[test]
fn reports_missing_or_old_go_with_a_remedy() {
    let old = fake_go("go1.20.1", SUCCEED);
    let output = run(old.path());
    assert!(text(&output.stderr).contains("has the version go1.20.1; install Go 1.26"), "{}", text(&output.stderr));
    let none = fake_go("go1.30.0", SUCCEED);
    std::fs::remove_file(none.path().join("bin/go")).unwrap();
    let output = run(none.path());
    let error = text(&output.stderr);
    assert!(error.contains("cannot build kwok: the go command does not run"), "{error}");
    assert!(error.contains("or put kwok itself on PATH"), "{error}");
}

#[test]
fn uses_compatible_programs_in_path() {
    let root = fake_go("go1.30.0", SUCCEED);
    let on_path = root.path().join("bin/kwok");
    write_program(&on_path, "#!/bin/sh\necho 'kwok version 0.8.7 go1.30.0 (linux/amd64)'\n");
    assert_eq!(text(&run(root.path()).stdout), format!("kwok\t{}\n", on_path.display()));
    write_program(&on_path, "#!/bin/sh\necho 'kwok version 0.7.0 go1.30.0 (linux/amd64)'\n");
    assert!(text(&run(root.path()).stdout).contains("/cache/programs/kwok-0.8"));
    assert_eq!(builds(root.path()), 1);
}
