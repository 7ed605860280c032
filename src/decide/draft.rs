//! A plan while it is being made, and the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::action::{Action, Approval, Planned};
use super::assume::RecordedValues;
use super::kept::{Kept, Refusal};
use super::requests::{Answer, Answered, Read, Requests};
use super::snapshot::Snapshot;
use osdpl_core::adopt::Comparison;
use osdpl_core::api::{OpenStackDeploymentSpec, RoleStatus};
use osdpl_core::ceph::DeclaredCeph;
use osdpl_core::desired::{Desired, Facts, Finding, Selection};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::plan;
use osdpl_core::rollout::Rollouts;

/// How long a refused write rests: no watch tells that rights are given back.
pub const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// How long the text of a refusal stays the same: it may hold a request's number, and each new text is an event and a write.
const PACE: SignedDuration = SignedDuration::from_mins(1);

/// Everything that is done now, with its reasons, and what the status is made from.
#[derive(Default)]
pub struct Plan {
    /// What the next snapshot must contain.
    pub requests: Requests,
    /// What is done, in this order.
    pub actions: Vec<Planned>,
    /// The decision about every release.
    pub releases: plan::Plan,
    /// What the spec selects; none where nothing was decided.
    pub selection: Option<Selection>,
    /// The spec, corrected by the releases that exist.
    pub spec: Option<OpenStackDeploymentSpec>,
    /// What values were made from; with credentials in it.
    pub facts: Facts,
    /// What is desired.
    pub desired: Arc<Desired>,
    /// What is observed.
    pub observed: Observed,
    /// The releases' names in the catalogue, wanted or not.
    pub names: BTreeMap<ReleaseKey, String>,
    /// What is wrong with the spec, or should be known.
    pub findings: Vec<Finding>,
    /// Troubles that belong to no release.
    pub problems: Vec<String>,
    /// The Ceph that the spec declares.
    pub ceph: Option<DeclaredCeph>,
    /// The nodes of each role.
    pub roles: BTreeMap<String, RoleStatus>,
    /// How far rollouts are.
    pub rollouts: Rollouts,
    /// What templates see of releases whose newest revision others made, and would see; of those that were compared for this plan.
    pub compared: BTreeMap<String, Comparison>,
    /// The recorded values of releases that are not up to date, or why they can't be read; only where the snapshot makes assumptions.
    pub recorded: RecordedValues,
    /// What changes that wait for approval would change.
    pub changes: BTreeMap<String, Vec<String>>,
    /// Whether the spec is refused.
    pub refused: bool,
    /// Whether charts are missing for which the status stands in.
    pub assumed: bool,
    /// What is still to be done of a deletion.
    pub deleting: Option<String>,
    /// The older resource that takes precedence.
    pub older: Option<String>,
    /// The releases that a person asked to repair, and that were not begun.
    pub repairs: BTreeSet<String>,
    /// Whether nothing is left that may print the cloud's secrets.
    pub forget_secrets: bool,
    /// Why nothing is reported yet.
    pub hold: Option<Hold>,
    /// When to decide again, where no watch tells.
    pub wake: Option<Timestamp>,
    /// The memory for the next decision.
    pub kept: Kept,
}

/// Why a plan is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Watched objects were not read yet; the first answer triggers the next pass.
    Objects,
    /// One-off reads are not answered yet: the next pass follows at once.
    Reads,
    /// The actions make what the rest is decided from: the next pass follows at once.
    Actions,
    /// Charts are being fetched, and the status that is stored says more than is known now.
    Charts,
    /// The watch on the resource triggers the next pass, if there is one.
    Watch,
}

/// A plan while it is being made.
pub struct Draft<'a> {
    pub snapshot: &'a Snapshot,
    pub requests: Requests,
    pub actions: Vec<Planned>,
    pub findings: Vec<Finding>,
    pub problems: Vec<String>,
    pub wake: Option<Timestamp>,
    pub kept: Kept,
    /// Whether nothing may be written.
    pub paused: bool,
    unanswered: bool,
}

impl<'a> Draft<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let deleting = snapshot.deployment.metadata.deletion_timestamp.is_some();
        Self {
            snapshot,
            requests: Requests::default(),
            actions: Vec::new(),
            findings: Vec::new(),
            problems: snapshot.problems.clone(),
            wake: None,
            kept: snapshot.kept.clone(),
            // A deletion is a person's own word, and later than the pause.
            paused: snapshot.deployment.spec.paused && !deleting,
            unanswered: false,
        }
    }

    /// The answer to a read, which is requested; none where the next pass has it.
    pub fn read(&mut self, read: Read) -> Option<&'a Answered> {
        let known = self.snapshot.answers.get(&read);
        self.requests.reads.insert(read);
        self.unanswered |= known.is_none();
        known
    }

    /// The objects of a list that is requested; none where the next pass has it.
    pub fn list(&mut self, read: Read) -> Option<&'a [(ReleaseKey, Option<String>)]> {
        match &self.read(read)?.answer {
            Answer::Objects(objects) => Some(objects),
            _ => None,
        }
    }

    /// Whether a read is not answered yet.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Decides again at this time at the latest.
    pub fn wake(&mut self, at: impl IntoIterator<Item = Timestamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }

    /// Plans an action, unless everything is paused.
    pub fn add(&mut self, planned: Planned) {
        let is_adoption = matches!(&planned.action, Action::Release { action: plan::Action::Adopt { .. }, .. });
        let is_waiting = planned.approval == Approval::Missing;
        if !self.paused || is_adoption || is_waiting {
            self.actions.push(planned);
        }
    }

    /// Plans an action that the API server may refuse; gives its words while it rests after that.
    pub fn attempt(&mut self, planned: Planned) -> Option<&'a Refusal> {
        let refusal = self.refusal(&planned.action);
        let rests = refusal.filter(|refusal| refusal.until > self.snapshot.now);
        match rests {
            Some(refusal) => self.wake([refusal.until]),
            None => self.add(planned),
        }
        refusal
    }

    /// What the API server said when it last refused this.
    pub fn refusal(&self, action: &Action) -> Option<&'a Refusal> {
        self.snapshot.kept.refused.get(&action.id())
    }

    /// The plan, of which nothing but this is decided yet.
    pub fn held(self, hold: Hold) -> Plan {
        let acts = matches!(hold, Hold::Actions | Hold::Watch);
        let actions = if acts { self.actions } else { Vec::new() };
        let kept = if acts { self.kept } else { self.snapshot.kept.clone() };
        let (mut requests, wake) = (self.requests, self.wake);
        if hold == Hold::Objects {
            requests.occupants = self.snapshot.objects.occupants.keys().cloned().collect();
        }
        Plan { requests, actions, wake, kept, hold: Some(hold), ..Plan::default() }
    }
}

impl Refusal {
    /// After the API server refused once more.
    pub fn again(before: Option<&Self>, message: String, now: Timestamp, rest: SignedDuration) -> Self {
        let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
        let count = before.map_or(0, |before| before.count) + 1;
        match before.filter(|before| now.duration_since(before.since) < PACE) {
            Some(before) => Self { count, until, ..before.clone() },
            None => Self { count, message, since: now, until },
        }
    }
}
