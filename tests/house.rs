//! The house keeps its shape: who may import whom, what pure rooms may not know, how long a file may be, what stands at the top.

#![allow(clippy::disallowed_methods, reason = "tests read files and ask git")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rooms in order: each may use those before it, none may use one after it.
const PURE: [&str; 26] = [
    "values",
    "yaml",
    "release",
    "drift",
    "scrub",
    "difference",
    "ceph",
    "expr",
    "catalog",
    "reference",
    "api",
    "observed",
    "desired",
    "nodes",
    "credentials",
    "hazard",
    "rule",
    "adopt",
    "health",
    "endpoint",
    "openstack",
    "maintenance",
    "cause",
    "plan",
    "rollout",
    "status",
];
/// Those that touch the world come after, so that no pure room can use one.
const SHELL: [&str; 12] = [
    "files",
    "charts",
    "helm",
    "http",
    "tasks",
    "telemetry",
    "web",
    "webhook",
    "cluster",
    "controller",
    "maintaining",
    "cli",
];

/// What pure rooms may not name: threads, files, processes, the network, the clock, randomness, the API server, logs.
const WORLDLY: [&str; 14] = [
    "tokio",
    "std::fs",
    "std::process",
    "std::thread",
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

/// What stands at the top of the repository.
const TOP: [&str; 17] = [
    ".ci",
    ".clippy.toml",
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
    "deploy",
    "presets",
    "src",
    "tests",
    "values",
];

/// Lines a file may have.
const LONGEST: usize = 300;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below a folder, as paths from the root.
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

/// What a file of the library does outside of tests, without comments; nothing for files that are tests.
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

/// The room a file belongs to.
fn room(file: &str) -> &str {
    let below = file.strip_prefix("src/").unwrap_or(file);
    below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
}

/// The rooms that code uses: `crate::room…` and `use crate::{room…, …}`.
fn used(code: &str) -> Vec<&str> {
    let first = |path: &'_ str| path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let mut used = Vec::new();
    for after in code.split("crate::").skip(1) {
        let mut depth = 0;
        let mut begins = true;
        for (place, character) in after.char_indices() {
            if begins && character.is_alphabetic() {
                used.push(&after[place..][..first(&after[place..])]);
                begins = false;
            }
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    used
}

#[test]
fn imports_are_read_in_every_form() {
    assert_eq!(used("use crate::plan::{self, Plan}; fn f(x: crate::yaml::Error) {}"), ["plan", "yaml"]);
    assert_eq!(
        used("use crate::{\n    api::{Phase, Spec},\n    charts, values::Path,\n};\nuse std::fs;"),
        ["api", "charts", "values"]
    );
}

#[test]
fn arrows_point_one_way() {
    let order: Vec<&str> = PURE.into_iter().chain(SHELL).collect();
    let rank = |room: &str| order.iter().position(|known| *known == room);
    let mut wrong = Vec::new();
    for file in sources("src") {
        let code = code(&file);
        match rank(room(&file)) {
            Some(own) => {
                let after = used(&code).into_iter().filter(|other| rank(other) > Some(own));
                wrong.extend(after.map(|other| format!("{file} uses {other}, which comes after {}", order[own])));
            }
            None if !["lib", "main"].contains(&room(&file)) => {
                wrong.push(format!("{file} belongs to no room; give it a place in this test"));
            }
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_rooms_know_nothing_of_the_world() {
    let pure = sources("src").into_iter().filter(|file| PURE.contains(&room(file)));
    let found = pure.flat_map(|file| {
        // By its way to rustls certificates are read; no connection is made.
        let code = code(&file).replace("tokio_rustls::rustls", "");
        WORLDLY.into_iter().filter(move |word| code.contains(word)).map(move |word| format!("{file} names {word}"))
    });
    assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for file in sources("src").into_iter().chain(sources("tests")) {
        let lines = read(&file).lines().count();
        long.extend((lines > LONGEST).then(|| format!("{file} has {lines} lines, more than {LONGEST}: divide it")));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// What git knows; nothing where this is no clone.
fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let list = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let list = String::from_utf8(list).unwrap();
    list.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_top_level_is_agreed() {
    let strange: Vec<_> =
        tracked().into_iter().filter(|file| !TOP.contains(&file.split('/').next().unwrap_or_default())).collect();
    assert!(strange.is_empty(), "find a place below for {strange:?}, or agree on a new one in this test");
}

#[test]
fn no_file_knows_whose_machine_it_was_written_on() {
    // Put together here, or this file would be the one that is found.
    let folders = ["home", "root", "work", "Users"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for file in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else { continue };
        for (line, text) in text.lines().enumerate() {
            let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}>/*".contains(c));
            let named = folders.iter().any(|folder| text.match_indices(folder.as_str()).any(|(at, _)| begins(at)));
            found.extend(named.then(|| format!("{file}:{}: {text}", line + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
