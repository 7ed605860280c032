//! Reads `values/rules.yaml`, which has these tables:
//!
//! * `rules`: conditions on the values of releases
//! * `pools`: pods whose processes keep pools of database connections
//! * `separateServers`: servers that form a quorum and must run on different nodes
//! * `shared`: volume claims that pods on several nodes mount
//! * `unshared`: storage provisioners whose volumes only one node can mount

use serde::Deserialize;

use super::super::{Error, Files, Level};
use super::{CrossChecks, RULES_FILE, Reader, pool, separate_servers, shared};
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// A rule about the final values of releases: osdpl reports a finding if the condition `when` is true.
#[derive(Debug)]
pub struct Rule {
    /// The releases whose values the rule compares. The rule applies only if all these releases are part of the cloud.
    pub releases: Vec<String>,
    /// The condition under which osdpl reports the finding. The condition can read the final values of the releases as
    /// `values.<release>`. If the condition reads a value that no layer sets, osdpl reports nothing.
    pub when: Expression,
    /// The severity of the finding. If it is `error`, osdpl refuses the `OpenStackDeployment`.
    pub level: Level,
    /// The path of the value to which the finding refers. The value belongs to the first release in `releases`.
    pub path: Path,
    /// The text of the finding: the problem and the remedy.
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<Entry>,
    #[serde(default)]
    pools: Vec<pool::Entry>,
    #[serde(default, rename = "separateServers")]
    separate_servers: Vec<separate_servers::Entry>,
    #[serde(default)]
    shared: Vec<shared::Entry>,
    #[serde(default)]
    unshared: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    releases: Vec<String>,
    when: String,
    level: Level,
    path: String,
    message: String,
}

/// Reads all tables of `values/rules.yaml`. The field `couplings` of the result stays empty: `values/couplings.yaml`
/// contains the couplings, and `super::read` adds them.
pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> CrossChecks {
    let Some(text) = files.get(RULES_FILE) else { return CrossChecks::default() };
    let file: File = text.read(RULES_FILE).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        File::default()
    });
    let rules = file.rules.into_iter().enumerate();
    CrossChecks {
        couplings: Vec::new(),
        rules: rules.filter_map(|(index, entry)| rule(index, entry, reader)).collect(),
        pools: pool::read(file.pools, reader),
        separate_servers: separate_servers::read(file.separate_servers, reader),
        shared: shared::read(file.shared, reader),
        unshared: file.unshared,
    }
}

fn rule(index: usize, entry: Entry, reader: &mut Reader<'_>) -> Option<Rule> {
    let field = format!("rules[{index}]");
    let Some((first, others)) = entry.releases.split_first() else {
        let problem = format!("{field}.releases is empty; name the releases whose values `when` reads");
        reader.errors.push(Error::Other { file: RULES_FILE.into(), problem });
        return None;
    };
    for name in others {
        reader.release(RULES_FILE, &field, name)?;
    }
    let path = reader.path(RULES_FILE, &field, first, &entry.path)?;
    let Entry { releases, when, level, message, .. } = entry;
    match Expression::compile(&when) {
        Ok(when) => Some(Rule { releases, when, level, path, message }),
        Err(error) => {
            reader.errors.push(Error::Expression {
                file: RULES_FILE.into(),
                line: 0,
                field: format!("{field}.when"),
                error,
            });
            None
        }
    }
}
