//! Checks the repository's layout: pure crates do no I/O, modules do not import each other in cycles, Rust files are
//! short, the top level has only the agreed entries, and no file contains a path of one machine.
//!
//! No test checks the imports between crates, because a crate can import only the crates in its `Cargo.toml`.

#![allow(clippy::disallowed_methods, reason = "tests read files and ask git")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::iter::Peekable;
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

/// The maximum number of lines in a Rust file.
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

/// Removes declarations of test modules, and an inline test module, which Clippy accepts only at the end of a file.
fn without_tests(text: &str) -> String {
    let mut parts = text.split("\n#[cfg(test)]\n");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (item, rest) = part.split_once('\n').unwrap_or((part, ""));
        match item.contains("mod ") {
            true if item.ends_with('{') => break,
            true => {}
            false => kept.extend(["\n", item]),
        }
        kept.extend(["\n", rest]);
    }
    kept
}

/// Returns the code of a file without comments and unit tests; an empty string for a file that contains only tests.
fn code(file: &str) -> String {
    if file.ends_with("tests.rs") || file.contains("/tests/") {
        return String::new();
    }
    without_tests(&read(file)).lines().fold(String::new(), |mut code, line| {
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

/// The crates below `src`.
const CRATES: [&str; 8] = ["values", "core", "lint", "decide", "client", "maintenance", "operator", "cli"];

/// The path of a module within its crate, such as `desired::layers`; empty for the crate's root.
type Module = Vec<String>;

/// The paths that the code of each module uses, each with the name that a `use` declaration gives it; `None` for a path
/// outside of `use` declarations.
type Modules = BTreeMap<Module, Vec<(Vec<String>, Option<String>)>>;

/// For each module, the sibling modules that it imports. Each import has a description: the file and the path.
type Imports = BTreeMap<Module, BTreeMap<Module, String>>;

/// Splits code into names and single other characters; `::` counts as one character.
fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let name = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let length = if rest.starts_with("::") { 2 } else { name.max(first.len_utf8()) };
        let (token, behind) = rest.split_at(length);
        found.push(token);
        rest = behind.trim_start();
    }
    found
}

/// Reads one item of a `use` declaration: a path, or a group such as `super::{a, b as c}`. Adds each path to `found`.
fn read_use<'a>(
    tokens: &mut Peekable<impl Iterator<Item = &'a str>>,
    prefix: &[&'a str],
    found: &mut Vec<(Vec<String>, Option<String>)>,
) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(token) = tokens.next_if(|token| ![",", "}", ";"].contains(token)) {
        match token {
            "::" => {}
            "as" => name = tokens.next(),
            "{" => {
                read_use(&mut *tokens, &path, found);
                while tokens.next() == Some(",") {
                    read_use(&mut *tokens, &path, found);
                }
                return;
            }
            part => path.push(part),
        }
    }
    path.pop_if(|last| *last == "self" && !prefix.is_empty());
    let name = name.or(path.last().copied()).map(str::to_owned);
    found.push((path.into_iter().map(str::to_owned).collect(), name));
}

/// Returns the paths that code uses: those in `use` declarations, and those that begin with `crate`, `super` or `self`.
fn used_paths(code: &str) -> Vec<(Vec<String>, Option<String>)> {
    let mut found = Vec::new();
    let mut tokens = tokens(code).into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // Skip `use<'a>` in the type `impl Trait + use<'a>`.
            "use" if tokens.peek() != Some(&"<") => read_use(&mut tokens, &[], &mut found),
            "crate" | "super" | "self" => {
                let mut path = vec![token.to_owned()];
                while tokens.next_if_eq(&"::").is_some() {
                    path.extend(tokens.next().map(str::to_owned));
                }
                found.push((path, None));
            }
            _ => {}
        }
    }
    found
}

/// Returns the modules of a crate. `files` contains the path within the crate and the code of each file.
fn modules(files: impl IntoIterator<Item = (String, String)>) -> Modules {
    let module = |file: &str| match file.trim_end_matches(".rs") {
        "lib" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    };
    files.into_iter().map(|(file, code)| (module(&file), used_paths(&code))).collect()
}

/// Returns a path in the code of `module` as a path from the crate's root; `None` if it leads to another crate.
fn absolute(modules: &Modules, module: &Module, path: &[String]) -> Option<Vec<String>> {
    let mut base = module.clone();
    let rest = match path.first()?.as_str() {
        "crate" => {
            base.clear();
            &path[1..]
        }
        "self" | "super" => path,
        child => modules.contains_key(&[&base[..], &[child.to_owned()]].concat()).then_some(path)?,
    };
    let parents = rest.iter().take_while(|name| ["self", "super"].contains(&name.as_str())).count();
    for _ in rest[..parents].iter().filter(|name| *name == "super") {
        base.pop();
    }
    base.extend_from_slice(&rest[parents..]);
    Some(base)
}

/// Returns the module that defines the item at `path`, a path from the crate's root. Follows re-exports: if the module
/// at the path gets the item by a `use` declaration, the result is the module from which it gets the item.
fn defining_module(modules: &Modules, path: &[String], depth: usize) -> Module {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or_default();
    let (module, rest) = (path[..length].to_vec(), &path[length..]);
    let imported = || {
        let mut used = modules.get(&module)?.iter();
        let (source, _) = used.find(|(_, name)| name.is_some() && name.as_ref() == rest.first())?;
        Some([&absolute(modules, &module, source)?[..], &rest[1..]].concat())
    };
    match imported().filter(|_| depth > 0) {
        Some(path) => defining_module(modules, &path, depth - 1),
        None => module,
    }
}

/// Returns the imports between sibling modules. An import of an item in a child module of a sibling counts as an import
/// of the sibling. Imports of parent and child modules do not count.
fn imports(modules: &Modules) -> Imports {
    let mut found = Imports::new();
    for (module, used) in modules {
        for (path, _) in used {
            let Some(target) = absolute(modules, module, path) else { continue };
            let target = defining_module(modules, &target, 8);
            let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
            if common < module.len() && common < target.len() {
                let description = format!("{}.rs uses {}", module.join("/"), path.join("::"));
                let of_sibling = found.entry(module[..=common].to_vec()).or_default();
                of_sibling.entry(target[..=common].to_vec()).or_insert(description);
            }
        }
    }
    found
}

/// Returns the imports on the shortest way from `start` back to `start`; `None` if there is no such way.
fn cycle<'a>(imports: &'a Imports, start: &'a Module) -> Option<Vec<(&'a Module, &'a str)>> {
    let mut reached: BTreeMap<&Module, (&Module, &str)> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for (target, description) in imports.get(module).into_iter().flatten() {
            if !reached.contains_key(target) {
                reached.insert(target, (module, description));
                queue.push_back(target);
            }
        }
    }
    let mut steps = vec![*reached.get(start)?];
    while let Some((module, _)) = steps.last().filter(|(module, _)| *module != start) {
        steps.push(reached[module]);
    }
    steps.reverse();
    Some(steps)
}

/// Describes the import cycles of a crate, at most one for each module.
fn cycles(modules: &Modules) -> Vec<String> {
    let imports = imports(modules);
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    for start in imports.keys() {
        let Some(steps) = cycle(&imports, start).filter(|_| !known.contains(start)) else { continue };
        known.extend(steps.iter().map(|(module, _)| *module));
        let names: Vec<String> = steps.iter().map(|(module, _)| module.join("::")).collect();
        let reasons: Vec<&str> = steps.iter().map(|(_, description)| *description).collect();
        found.push(format!("{} → {} ({})", names.join(" → "), names[0], reasons.join(", ")));
    }
    found
}

#[test]
fn modules_do_not_import_each_other_in_cycles() {
    let mut found = String::new();
    for name in CRATES {
        let folder = format!("src/{name}/");
        let files = sources(&folder).into_iter().map(|file| (file[folder.len()..].to_owned(), code(&file)));
        let modules = modules(files);
        assert!(imports(&modules).len() > 1, "the test finds no imports in {folder}");
        for cycle in cycles(&modules) {
            let _ = writeln!(found, "{folder}: {cycle}");
        }
    }
    assert!(
        found.is_empty(),
        "modules import each other in a cycle; move the item that closes the cycle to the module that needs it, to \
         their common parent module, or to a new module:\n{found}"
    );
}

#[test]
fn finds_import_cycles() {
    let found = |files: &[(&str, &str)]| {
        cycles(&modules(files.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned()))))
    };
    let direct = [("a.rs", "use super::b::{C, D as E};"), ("b.rs", "fn f() { crate::a::f() }")];
    assert_eq!(found(&direct), ["a → b → a (a.rs uses super::b::C, b.rs uses crate::a::f)"]);
    let nested =
        [("a.rs", ""), ("a/x.rs", "use crate::b;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use super::a::x;")];
    assert_eq!(found(&nested), ["a → b → c → a (a/x.rs uses crate::b, b.rs uses crate::c::C, c.rs uses super::a::x)"]);
    let exported = [("lib.rs", "pub use b::B as D;"), ("a.rs", "use crate::D;"), ("b.rs", "use super::{a::{self}};")];
    assert_eq!(found(&exported), ["a → b → a (a.rs uses crate::D, b.rs uses super::a)"]);
    let parents =
        [("lib.rs", "use a::A;"), ("a.rs", "use crate::b; use x::X;"), ("a/x.rs", "use super::Y;"), ("b.rs", "")];
    assert_eq!(found(&parents), Vec::<String>::new());
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
