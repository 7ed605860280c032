//! Checks the documentation: its links have targets, its examples are valid, its outputs are real.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use cluster::output_with_input;
use osdpl_cli::reference::{Reference, pages};
use osdpl_values::yaml;
use serde_json::Value;

use crate::{path, read, resource};

const ROOT: &str = "deploy/docs";
const WIDEST: usize = 120;

/// Returns the texts of the written pages, by their paths from the root of the repository: README.md, CHANGELOG.md, and
/// the Markdown files in `.github` and in the documentation. Leaves out the generated reference.
fn committed() -> BTreeMap<String, String> {
    let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    let folders = [".github", ROOT, "deploy/docs/guide", "deploy/docs/decisions"];
    names.extend(folders.into_iter().flat_map(|folder| {
        let entries = std::fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        entries
            .map(move |name| format!("{folder}/{}", name.to_string_lossy()))
            .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
    }));
    names.into_iter().map(|name| (name.clone(), read(&name))).collect()
}

/// Returns all pages: the written pages, and the pages of the generated reference.
fn all() -> BTreeMap<String, String> {
    let reference = Reference::read(&osdpl_core::files::built_in()).unwrap();
    let generated = pages(&reference).unwrap().into_iter();
    committed().into_iter().chain(generated.map(|(name, text)| (format!("{ROOT}/reference/{name}"), text))).collect()
}

/// Returns the lines of a page, each with a flag: whether the line is in a code block.
fn lines(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut in_code = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        let was_in_code = in_code;
        in_code ^= fence;
        (was_in_code || fence, line)
    })
}

/// Returns the anchor of a heading, as GitHub and mdBook form it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).filter(|(in_code, line)| !in_code && line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect()
}

/// Returns the targets of a page's links. Leaves out links in code, and links to other sites.
fn links(text: &str) -> Vec<String> {
    let prose: String = lines(text).filter(|(in_code, _)| !in_code).flat_map(|(_, line)| [line, "\n"]).collect();
    let prose: String = prose.split('`').step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|after| Some(after.split_once(')')?.0.to_owned()));
    targets.filter(|target| !target.contains("://")).collect()
}

/// Returns a link's target as a path from the root of the repository.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn links_lead_to_pages_and_headings() {
    let pages = all();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (target, heading) = link.split_once('#').map_or((link.as_str(), None), |(page, id)| (page, Some(id)));
            let target = if target.is_empty() { page.clone() } else { resolve(page, target) };
            let exists = pages.contains_key(&target) || path(&target).is_file();
            let has_heading =
                heading.is_none_or(|id| pages.get(&target).is_some_and(|text| anchors(text).contains(id)));
            // The documentation site contains only `deploy/docs`, so pages there must not link to files outside of it.
            let is_inside = !page.starts_with(ROOT) || target.starts_with(ROOT);
            if !(exists && has_heading && is_inside) {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = read("deploy/docs/SUMMARY.md");
    let listed: BTreeSet<String> = links(&summary).iter().map(|link| resolve("deploy/docs/SUMMARY.md", link)).collect();
    let pages = committed().into_keys().filter(|name| name.starts_with(ROOT) && !name.ends_with("/SUMMARY.md"));
    let missing: Vec<_> = pages.filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "deploy/docs/SUMMARY.md lacks {missing:?}");
}

#[test]
fn lines_fit_the_page() {
    let mut long = Vec::new();
    for (page, text) in committed() {
        // A row of a table can't be wrapped. In the README, which people also read as plain text, it must still fit.
        let may_be_long = |line: &str| line.starts_with('|') && page != "README.md";
        let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDEST && !may_be_long(line));
        long.extend(wide.map(|(index, _)| format!("{page}:{}", index + 1)));
    }
    assert!(long.is_empty(), "these lines have more than {WIDEST} characters: {long:?}");
    assert!(read("README.md").lines().count() <= 250);
}

/// Returns the code blocks of a page that are marked with `language`.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut parts = text.split("\n```");
    parts.next();
    while let Some(block) = parts.next() {
        if let Some(code) = block.strip_prefix(language).and_then(|code| code.strip_prefix('\n')) {
            found.push(code.to_owned());
        }
        parts.next();
    }
    found
}

fn osdpl(arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    let output = output_with_input(command.env_remove("KUBECONFIG"), input).unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

/// Returns the `OpenStackDeployment` in a YAML block, if the block contains one. If the block contains only a `spec`,
/// adds the missing parts of the `OpenStackDeployment`.
fn cloud(page: &str, block: String) -> Option<String> {
    if !block.starts_with("spec:\n") {
        return block.contains("kind: OpenStackDeployment\n").then_some(block);
    }
    let part: Value = yaml::parse(page, &block).unwrap();
    let mut resource_of_block = resource("{openstackRelease: '2026.1', presets: [compute]}");
    let spec = resource_of_block["spec"].as_object_mut().unwrap();
    spec.extend(part["spec"].as_object().cloned().unwrap_or_default());
    Some(yaml::write(&resource_of_block))
}

#[test]
fn clouds_in_the_documentation_are_valid() {
    let mut count = 0;
    for (page, text) in committed() {
        let clouds = blocks(&text, "yaml").into_iter().filter_map(|block| cloud(&page, block));
        for cloud in clouds {
            for command in [["validate", "-"].as_slice(), &["render", "-f", "-", "-n", "openstack"]] {
                let (is_accepted, output) = osdpl(command, &cloud);
                assert!(is_accepted, "{page}: osdpl {}:\n{output}", command.join(" "));
            }
            count += 1;
        }
    }
    assert!(count >= 10, "the documentation must contain at least 10 example clouds, not {count}");
}

/// Returns the commands in a console block that the test can run, each with the output that the page shows. The test
/// can run only commands of osdpl that need no cluster, read a file of the repository, and have no pipe. Leaves out
/// commands without output.
fn offline(block: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let mut found = Vec::new();
    for command in format!("\n{block}").split("\n$ ").skip(1) {
        let (line, expected) = command.split_once('\n').unwrap_or((command, ""));
        let arguments: Vec<String> =
            line.split("  #").next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let is_offline = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["osdpl", "explain" | "render", "-f", file, ..] | ["osdpl", "plan", "--offline", "-f", file] => {
                path(file).is_file()
            }
            ["osdpl", "test", file] => path(file).is_file(),
            _ => false,
        };
        let expected: Vec<String> = expected.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if is_offline && !expected.is_empty() && !line.contains('|') {
            found.push((arguments, expected));
        }
    }
    found
}

#[test]
fn printed_outputs_are_real() {
    let mut count = 0;
    for (page, text) in committed() {
        for (arguments, expected) in blocks(&text, "console").iter().flat_map(|block| offline(block)) {
            let parameters: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
            let (_, output) = osdpl(&parameters, "");
            let mut real = output.lines();
            for line in expected.iter().filter(|line| *line != "...") {
                let start = line.split('…').next().unwrap_or_default();
                let is_same = |real: &str| if start == line { real == line } else { real.starts_with(start) };
                assert!(real.any(is_same), "{page}: {}: not in the output: {line}\n{output}", arguments.join(" "));
            }
            count += 1;
        }
    }
    assert!(count >= 3, "the documentation must show the output of at least 3 commands, not {count}");
}
