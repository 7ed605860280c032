//! Checks at the end of each test that no secret is visible in any encoding. Searches logs, events, statuses,
//! annotations, `ConfigMap`s, command lines, environments, metrics, files, outputs of commands and responses of the
//! webhook.
//!
//! Only the tests in `tests/operator` make this check, because only they run the operator, helm and osdpl's commands
//! together on clouds with planted secrets. The tests in `tests/tasks` run only the operator's tasks, with a single
//! secret: their `World::until` checks that no observation shows it.

pub mod collect;
mod commands;
mod places;
mod planted;
mod search;
mod statuses;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Output;

use crate::world::World;
use collect::Secrets;
use places::{Leak, Searches};
use search::Search;

/// The name of the file in the test's folder that contains every version of the status of each OpenStackDeployment and
/// NodeMaintenance.
pub const STATUSES: &str = "statuses.log";

impl World {
    /// Checks that no object and no file shows a secret that existed during the test. Every test ends with this check.
    pub async fn check_no_leaked_secrets(&self) {
        let leaks = self.leaks_of(&self.collector.collected().await).await;
        assert!(leaks.is_empty(), "no secret may be visible: {leaks:#?}");
    }

    /// Checks that no object and no file shows one of these texts.
    pub async fn check_hidden<const COUNT: usize>(&self, texts: [&str; COUNT]) {
        let all = texts.map(str::to_owned).into();
        let leaks = self.leaks_of(&Secrets { all, ..Secrets::default() }).await;
        assert!(leaks.is_empty(), "none of {texts:?} may be visible: {leaks:#?}");
    }

    /// Returns the places in objects and files that show one of these secrets.
    async fn leaks_of(&self, secrets: &Secrets) -> Vec<Leak> {
        let searches = Searches { all: Search::new(&secrets.all), ceph: Search::new(&secrets.ceph) };
        let mut leaks = self.leaks_in_objects(&searches).await;
        leaks.extend(self.leaks_in_files(&searches));
        leaks
    }

    /// Appends the output of a command to a file, which the check at the end of the test searches for secrets.
    pub fn record_output(&self, arguments: &[&str], output: &Output) {
        self.record_response(&arguments.join(" "), &[&output.stdout[..], &output.stderr].concat());
    }

    /// Appends a response, such as that of the webhook, to the file of [`Self::record_output`]. `request` describes the
    /// request.
    pub fn record_response(&self, request: &str, response: &[u8]) {
        let path = self.folder.path().join("commands.log");
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(&[request.as_bytes(), b"\n", response, b"\n"].concat()).unwrap();
    }
}
