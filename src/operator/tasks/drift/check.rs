//! Reads what looks changed from the API server itself: the object first, then whether a helm may have done it.

#![allow(clippy::disallowed_methods, reason = "the shell's clock: when to try again")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;

use super::store::is_deployed;
use super::{Found, LOOK_AGAIN, Suspect, head, record};
use crate::tasks::problems::Problems;
use crate::tasks::watch::said;
use osdpl_core::drift::{Drifted, Id, Left, Tolerated, Trace, verdict};
use osdpl_core::observed::{DriftSeen, Key, ReleaseSeen};

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
    /// Nothing to judge by since then: something could not be read, or helm has been at the release since the watch has told of it.
    Unsettled(Instant),
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

    /// Whether an object is to be looked at once more.
    pub(super) fn is_unsettled(&self) -> bool {
        self.by_object.values().any(|check| matches!(check.answer, Answer::Unsettled(_)))
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
                looks.push(self.look(suspect, seen));
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
        let needed = known.is_none_or(|check| {
            let is_another = check.suspect != *suspect || check.revision != revision;
            match &check.answer {
                Answer::Awaited => false,
                Answer::Seen(_) => is_another,
                Answer::Unsettled(at) => is_another || at.elapsed() >= LOOK_AGAIN,
            }
        });
        if needed {
            let check = Check { suspect: suspect.clone(), revision, answer: Answer::Awaited };
            self.by_object.insert(suspect.id.clone(), check);
        }
        needed
    }

    fn judge(&self, suspect: &Suspect, seen: &ReleaseSeen) -> Option<Drifted> {
        let check = self.by_object.get(&suspect.id).filter(|check| check.revision == seen.revision)?;
        let Answer::Seen(trace) = &check.answer else { return None };
        let left = seen.body.as_ref()?.left.get(&suspect.id)?;
        let change = verdict(seen.since, left, trace.as_ref())?;
        Some(Drifted { id: suspect.id.clone(), change })
    }

    fn look(&self, suspect: &Suspect, seen: &ReleaseSeen) -> impl Future<Output = Looked> + Send + use<> {
        let (client, release, id) = (self.client.clone(), suspect.release.clone(), suspect.id.clone());
        let (tolerated, problems) = (Arc::clone(&self.tolerated), self.problems.clone());
        let (began, revision) = (seen.since, seen.revision);
        let left = seen.body.as_ref().map(|body| Arc::clone(&body.left));
        async move {
            let what = format!("{} {}/{}", id.kind.kind, id.namespace, id.name);
            let look = async {
                let head = head::api(id.kind, &id.namespace, &client).get_opt(&id.name).await?;
                let trace = head.map(|head| Trace::read(&head.writers, &tolerated));
                let left = left.as_ref().and_then(|left| left.get(&id));
                let is_changed = |left: &Left| verdict(began, left, trace.as_ref()).is_some();
                // What is as it was left needs no explanation.
                let settled = !left.is_some_and(is_changed) || record::stands(&client, &release, revision).await?;
                Ok(if settled { Answer::Seen(trace) } else { Answer::Unsettled(Instant::now()) })
            };
            let answer = match look.await {
                Ok(answer) => {
                    problems.works(READING, &what);
                    answer
                }
                Err(error) => {
                    problems.fails(READING, &what, said(&error));
                    Answer::Unsettled(Instant::now())
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

#[cfg(test)]
mod tests;
