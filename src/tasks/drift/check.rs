//! Reads what looks changed from the API server itself.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when to try again")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;

use super::store::is_deployed;
use super::{Found, LOOK_AGAIN, Suspect, head};
use crate::drift::{Drifted, Id, Tolerated, Trace, verdict};
use crate::observed::{DriftSeen, Key, ReleaseSeen};
use crate::tasks::problems::Problems;
use crate::tasks::watch::said;

/// What a check does, in a problem's words.
const READING: &str = "reading objects of releases";

/// A look at one object.
struct Check {
    /// What made it suspect: another suspicion needs another look.
    suspect: Suspect,
    revision: i64,
    answer: Answer,
}

enum Answer {
    Awaited,
    /// What there is, `None` where it is not there.
    Seen(Option<Trace>),
    Failed(Instant),
}

/// What came of a look.
pub(super) struct Looked(Id, Answer);

/// The looks at suspects.
pub(super) struct Checks {
    client: Client,
    tolerated: Arc<Tolerated>,
    problems: Problems,
    by_object: BTreeMap<Id, Check>,
}

impl Checks {
    pub(super) fn new(client: Client, tolerated: Arc<Tolerated>, problems: Problems) -> Self {
        Self { client, tolerated, problems, by_object: BTreeMap::new() }
    }

    /// Whether an object could not be read.
    pub(super) fn has_failures(&self) -> bool {
        self.by_object.values().any(|check| matches!(check.answer, Answer::Failed(_)))
    }

    /// What is found of the releases by now, and at most so many looks at suspects that were not looked at yet.
    pub(super) fn found(
        &mut self,
        releases: &[(&Key, &ReleaseSeen)],
        suspects: &[Suspect],
        most: usize,
    ) -> (Found, Vec<impl Future<Output = Looked> + Send + use<>>) {
        self.by_object.retain(|id, check| {
            matches!(check.answer, Answer::Awaited) || suspects.iter().any(|suspect| suspect.id == *id)
        });
        let deployed = releases.iter().filter(|(_, seen)| is_deployed(seen));
        let of = |(key, seen): &(&Key, &ReleaseSeen)| {
            ((*key).clone(), DriftSeen { revision: seen.revision, objects: Vec::new() })
        };
        let mut found: Found = deployed.map(of).collect();
        let mut looks = Vec::new();
        for suspect in suspects {
            let Some((_, seen)) = releases.iter().find(|(key, _)| **key == suspect.release) else { continue };
            if looks.len() < most && self.ask(suspect, seen.revision) {
                looks.push(self.look(&suspect.id));
            }
            if let (Some(drifted), Some(found)) = (self.judge(suspect, seen), found.get_mut(&suspect.release)) {
                found.objects.push(drifted);
            }
        }
        (found, looks)
    }

    /// Whether that object has to be looked at; if so it counts as asked for.
    fn ask(&mut self, suspect: &Suspect, revision: i64) -> bool {
        let known = self.by_object.get(&suspect.id);
        let needed = known.is_none_or(|check| match &check.answer {
            Answer::Awaited => false,
            Answer::Seen(_) => check.suspect != *suspect || check.revision != revision,
            Answer::Failed(at) => at.elapsed() >= LOOK_AGAIN,
        });
        if needed {
            let check = Check { suspect: suspect.clone(), revision, answer: Answer::Awaited };
            self.by_object.insert(suspect.id.clone(), check);
        }
        needed
    }

    fn judge(&self, suspect: &Suspect, seen: &ReleaseSeen) -> Option<Drifted> {
        let check = self.by_object.get(&suspect.id)?;
        let Answer::Seen(trace) = &check.answer else { return None };
        let left = seen.body.as_ref()?.left.get(&suspect.id)?;
        let change = verdict(seen.since, left, trace.as_ref())?;
        Some(Drifted { id: suspect.id.clone(), change })
    }

    fn look(&self, id: &Id) -> impl Future<Output = Looked> + Send + use<> {
        let (api, id) = (head::api(id.kind, &id.namespace, &self.client), id.clone());
        let (tolerated, problems) = (Arc::clone(&self.tolerated), self.problems.clone());
        async move {
            let what = format!("{} {}/{}", id.kind.kind, id.namespace, id.name);
            let answer = match api.get_opt(&id.name).await {
                Ok(head) => {
                    problems.works(READING, &what);
                    Answer::Seen(head.map(|head| Trace::read(&head.writers, &tolerated)))
                }
                Err(error) => {
                    problems.fails(READING, &what, said(&error));
                    Answer::Failed(Instant::now())
                }
            };
            Looked(id, answer)
        }
    }

    /// Keeps what a look has brought.
    pub(super) fn keep(&mut self, Looked(id, answer): Looked) {
        if let Some(check) = self.by_object.get_mut(&id) {
            check.answer = answer;
        }
    }
}
