//! Finds the mistakes in the files of `values/options/` that the parser does not find.

use std::collections::BTreeSet;

use super::option::Variants;
use super::patterns::{MAX_NAME, MAX_PATTERNS, MAX_SECTIONS};
use super::{Options, ServiceOption};
use crate::catalog::did_you_mean;
use osdpl_values::{CollectSorted, Path};

/// Returns the mistakes in a file, each with the field and the remedy.
///
/// `chart` and `path` are the chart and the path in the file's name.
pub(super) fn find_problems(options: &Options, chart: &str, path: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    if options.release != chart {
        problems
            .push(format!("release: is {:?}, but the file is named after {chart:?}; use one name", options.release));
    }
    if Path::parse(&options.path).ok().as_ref() != Some(path) {
        problems.push(format!("path: is {:?}, but the file is named after {path}; use one path", options.path));
    }
    if options.versions.is_empty() {
        problems.push("versions: is empty; name an OpenStack release".to_owned());
    }
    let too_large = size_problems(options);
    if !too_large.is_empty() {
        problems.extend(too_large);
        return problems;
    }
    for section in options.like.values().filter(|section| !options.sections.contains_key(*section)) {
        let hint = did_you_mean(section, options.sections());
        problems.push(format!("like: there is no section {section:?}{hint}; correct the name"));
    }
    for (section, entries) in &options.sections {
        for (name, variants) in entries {
            let found = variant_problems(options, variants).into_iter();
            problems.extend(found.map(|problem| format!("sections.{section}.{name}: {problem}")));
        }
    }
    problems
}

/// Returns a message for each limit that a file exceeds. The limits keep the time for looking up an option short.
fn size_problems(options: &Options) -> Vec<String> {
    let mut problems = Vec::new();
    let like: Vec<&String> = options.like.keys().collect();
    for (field, patterns) in [("open", options.open.iter().collect()), ("like", like)] {
        let number = patterns.len();
        if number > MAX_PATTERNS {
            problems
                .push(format!("{field}: has {number} patterns, more than {MAX_PATTERNS}; combine some of them with *"));
        }
        if patterns.iter().any(|pattern| pattern.len() > MAX_NAME) {
            problems.push(format!("{field}: has a pattern of more than {MAX_NAME} bytes; shorten it"));
        }
    }
    let number = options.sections.len();
    if number > MAX_SECTIONS {
        problems.push(format!("sections: has {number} sections, more than {MAX_SECTIONS}; leave out some of them"));
    }
    problems
}

/// Returns the mistakes in the variants of one option.
fn variant_problems(options: &Options, variants: &Variants) -> Vec<String> {
    let mut problems = Vec::new();
    for option in &variants.0 {
        problems.extend(option_problem(options, option));
    }
    let all: Vec<&String> = variants.0.iter().flat_map(|option| &option.releases).collect();
    let distinct: BTreeSet<&String> = all.iter().copied().collect_set();
    let overlap = distinct.len() < all.len() || variants.0.iter().any(|option| option.releases.is_empty());
    if variants.0.len() > 1 && overlap {
        problems.push(
            "two variants are for the same OpenStack release; name different OpenStack releases in `in`".to_owned(),
        );
    }
    if variants.0.is_empty() {
        problems.push("is empty; write a variant of the option".to_owned());
    }
    problems
}

fn option_problem(options: &Options, option: &ServiceOption) -> Option<String> {
    if option.option_type.is_some() == option.renamed.is_some() {
        return Some("has both or none of `type` and `renamed`; use one of them".to_owned());
    }
    if let Some(renamed) = &option.renamed
        && option.new_name().is_none_or(|(section, name)| options.variants(section, name).is_none())
    {
        return Some(format!("renamed: there is no option {renamed:?}; write the section and the name of an option"));
    }
    let unknown = option.releases.iter().chain(&option.deprecated).find(|release| !options.describes(release))?;
    Some(format!(
        "names the OpenStack release {unknown:?}, which `versions` lacks; correct the name, or add it to `versions`"
    ))
}
