//! Checks the repository's layout: pure crates stay free of I/O, files stay short, the top level has only the agreed
//! entries.
//!
//! No test checks the imports between crates, because a crate can import only the crates in its `Cargo.toml`.

#![allow(clippy::disallowed_methods, reason = "tests read files and ask git")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pure crates, and the pure module `decide` of the crate `maintenance`. Pure code does no I/O: its results depend
/// only on its arguments.
const PURE: [&str; 5] = ["values", "core", "lint", "decide", "maintenance/decide"];

/// The only files of pure crates that may read files: the loader of the catalogue, and the build script of the crate
/// `core`.
const LOADERS: [&str; 2] = ["src/core/files.rs", "src/core/build.rs"];

/// Names that pure crates must not use: those of threads, files, processes, the network, the clock, randomness, the
/// API server and logs.
const IO: [&str; 13] = [
    "tokio::",
    "std::fs",
    "std::process",
    "std::net::Tcp",
    "std::env",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "getrandom",
    "kube::Client",
    "kube::Api",
    "kube::runtime",
    "tracing",
];

/// The entries of the repository's top level.
const TOP: [&str; 20] = [
    ".ci",
    ".clippy.toml",
    ".github",
    ".gitignore",
    ".rustfmt.toml",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "crds",
    "deny.toml",
    "deploy",
    "presets",
    "rust-toolchain.toml",
    "src",
    "tests",
    "values",
];

/// The maximum number of lines in a file.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the Rust files below a folder, as paths relative to the repository.
fn sources(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let mut names: Vec<String> =
        found.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string()).collect();
    names.sort();
    names
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// Returns the code of a file without comments and unit tests; an empty text for a file that contains only tests.
fn code(file: &str) -> String {
    if file.ends_with("tests.rs") || file.contains("/tests/") {
        return String::new();
    }
    let text = read(file);
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    text.lines().fold(String::new(), |mut code, line| {
        let _ = writeln!(code, "{}", line.split("//").next().unwrap_or_default());
        code
    })
}

#[test]
fn pure_crates_do_no_io() {
    let mut found = Vec::new();
    let folders = PURE.into_iter().flat_map(|name| sources(&format!("src/{name}")));
    for file in folders.chain(["src/maintenance/decide.rs".to_owned()]) {
        if LOADERS.contains(&file.as_str()) {
            continue;
        }
        // A pure crate may use rustls: it only parses certificates with rustls, and opens no connection.
        let code = code(&file).replace("tokio_rustls::rustls", "");
        found.extend(IO.into_iter().filter(|name| code.contains(name)).map(|name| format!("{file} uses {name}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        let lines = read(&file).lines().count();
        long.extend((lines > MAX_LINES).then(|| format!("{file} has {lines} lines, more than {MAX_LINES}: split it")));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Returns the files that git tracks; none if the folder is not a git repository.
fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let list = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let list = String::from_utf8(list).unwrap();
    list.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_top_level_holds_only_agreed_entries() {
    let strange: Vec<_> =
        tracked().into_iter().filter(|file| !TOP.contains(&file.split('/').next().unwrap_or_default())).collect();
    assert!(strange.is_empty(), "move {strange:?} into a folder, or add an entry to this test");
}

#[test]
fn no_file_contains_a_path_of_one_machine() {
    // Build the paths from parts, because the test also checks this source file: it must not contain such a path.
    let folders = ["home", "root", "work", "Users"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for file in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else { continue };
        for (line, text) in text.lines().enumerate() {
            let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}>/*".contains(c));
            let has_path = folders.iter().any(|folder| text.match_indices(folder.as_str()).any(|(at, _)| begins(at)));
            found.extend(has_path.then(|| format!("{file}:{}: {text}", line + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
