//! Defines the draft of a plan. The modules of this crate add requests, actions and findings to the draft.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::action::{Action, Approval, Planned};
use super::kept::{Kept, Refusal};
use super::namespaces::missing_namespace;
use super::plan::{Hold, Plan};
use super::requests::{Read, Received, Requests, Response};
use super::snapshot::Snapshot;
use osdpl_core::catalog::Catalog;
use osdpl_core::finding::Finding;
use osdpl_core::nodes::format_names;
use osdpl_core::observed::{ReleaseKey, RetryCondition};
use osdpl_core::plan;

/// The delay before osdpl tries a write again that the API server refused.
///
/// osdpl tries again after a fixed time, because no watch can report that the API server would now accept the write.
pub(crate) const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// Returns what osdpl stores about `action` after the API server has refused it, or after it has failed. `message` is
/// the error.
///
/// `before` is what osdpl has stored about the same action so far. osdpl usually retries after [`RETRY_INTERVAL`]. It
/// retries a cleanup more rarely, because each attempt reads and decodes release records.
pub fn next_refusal(action: &Action, before: Option<&Refusal>, message: String, now: Timestamp) -> Refusal {
    let delay = match action {
        Action::CleanUp { release, .. } => {
            let count = before.map_or(0, |before| before.count) + 1;
            plan::backoff_delay(release, count, RetryCondition::Manual).unwrap_or(SignedDuration::MAX)
        }
        _ => RETRY_INTERVAL,
    };
    Refusal::repeated(before, message, now, delay)
}

/// A plan under construction: the decisions that a pass has made so far.
pub(crate) struct Draft<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) requests: Requests,
    pub(crate) actions: Vec<Planned>,
    /// The actions that implement the spec, except for the steps of releases.
    ///
    /// With `approval: Always`, these actions wait until a person approves the target hash. [`Draft::add_spec_changes`]
    /// moves them to the field `actions` when this pass has computed the target hash.
    spec_changes: Vec<Planned>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) problems: Vec<String>,
    /// When the next pass must start at the latest, if no watch triggers a pass earlier.
    pub(crate) requeue_at: Option<Timestamp>,
    pub(crate) kept: Kept,
    /// Whether the spec pauses the cloud. If so, [`Draft::add`] ignores most actions.
    pub(crate) paused: bool,
    is_incomplete: bool,
}

impl<'a> Draft<'a> {
    /// Returns a draft without actions and requests.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let is_deleting = snapshot.deployment.metadata.deletion_timestamp.is_some();
        Self {
            snapshot,
            requests: Requests::default(),
            actions: Vec::new(),
            spec_changes: Vec::new(),
            findings: Vec::new(),
            problems: snapshot.problems.clone(),
            requeue_at: None,
            kept: snapshot.kept.clone(),
            // During a deletion, `deletion::decide` decides what a pause stops.
            paused: snapshot.deployment.spec.paused && !is_deleting,
            is_incomplete: false,
        }
    }

    /// Returns the catalogue of the snapshot.
    pub(crate) fn catalog(&self) -> &'a Catalog {
        &self.snapshot.catalog
    }

    /// Requests the response to `read` for the next snapshot. Returns the response if the current snapshot already
    /// contains it.
    pub(crate) fn read(&mut self, read: Read) -> Option<&'a Received> {
        let received = self.snapshot.responses.get(&read);
        self.requests.reads.insert(read);
        self.is_incomplete |= received.is_none();
        received
    }

    /// Requests a list of objects for the next snapshot; returns their names and uids if the current snapshot already
    /// contains the list.
    pub(crate) fn list(&mut self, read: Read) -> Option<&'a [(ReleaseKey, String)]> {
        match &self.read(read)?.response {
            Response::Objects(objects) => Some(objects),
            _ => None,
        }
    }

    /// Returns whether the draft requests at least one read whose response is not in the snapshot yet.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Makes the next pass start no later than the earliest of the times in `at`.
    pub(crate) fn requeue(&mut self, at: impl IntoIterator<Item = Timestamp>) {
        self.requeue_at = self.requeue_at.into_iter().chain(at).min();
    }

    /// Adds an action, unless the cloud is paused.
    ///
    /// If the namespace of the action does not exist, the function first adds the action that creates the namespace.
    ///
    /// While the cloud is paused, the function adds only two kinds of actions: adoptions, which only write labels, and
    /// actions that wait for approval, which the plan only shows.
    pub(crate) fn add(&mut self, planned: Planned) {
        let is_adoption = matches!(&planned.action, Action::Release { action: plan::Action::Adopt { .. }, .. });
        let is_waiting = planned.approval == Approval::Missing;
        if !self.paused || is_adoption || is_waiting {
            let namespace = missing_namespace(self.snapshot, &self.actions, &planned);
            self.actions.extend(namespace);
            self.actions.push(planned);
        }
    }

    /// Adds an action and, directly before it, the actions in `prerequisites`.
    pub(crate) fn add_with_prerequisites(&mut self, planned: Planned, prerequisites: Vec<Planned>) {
        let position = self.actions.len();
        self.add(planned);
        // While the cloud is paused, `add` ignores most actions. If `add` has added `planned`, then `planned` is now
        // the last action, and the action before it may create its namespace. Insert the prerequisites directly before
        // `planned`.
        if self.actions.len() > position {
            let position = self.actions.len() - 1;
            self.actions.splice(position..position, prerequisites);
        }
    }

    /// Adds an action that the API server may refuse.
    ///
    /// If the API server refused the action in an earlier pass, the function adds the action only after the time
    /// `until` of this refusal.
    ///
    /// Returns the last refusal; `None` if the API server has not refused the action.
    pub(crate) fn attempt(&mut self, planned: Planned) -> Option<&'a Refusal> {
        let refusal = self.refusal(&planned.action);
        if !self.must_wait(refusal) {
            self.add(planned);
        }
        refusal
    }

    /// Adds an action that implements the spec and that the API server may refuse.
    ///
    /// Like [`Draft::attempt`], the function adds a refused action only after the time `until` of the refusal, and
    /// returns the last refusal. With `approval: Always`, the action waits for approval of the target hash, like in
    /// [`Draft::change_for_spec`].
    pub(crate) fn attempt_for_spec(&mut self, planned: Planned) -> Option<&'a Refusal> {
        let refusal = self.refusal(&planned.action);
        if !self.must_wait(refusal) {
            self.change_for_spec(planned);
        }
        refusal
    }

    /// Adds an action that implements the spec. With `approval: Always`, the action waits for approval of the target
    /// hash.
    pub(crate) fn change_for_spec(&mut self, planned: Planned) {
        self.spec_changes.push(planned);
    }

    /// Adds the actions in the field `spec_changes` to the plan, and empties that field.
    ///
    /// If a person must still approve the actions (`is_approved` is false), the plan only shows them, and the function
    /// returns their descriptions.
    pub(crate) fn add_spec_changes(&mut self, is_approved: bool) -> Vec<String> {
        let changes = std::mem::take(&mut self.spec_changes);
        let descriptions = if is_approved { Vec::new() } else { describe(&changes) };
        let approval = if is_approved { Approval::NotNeeded } else { Approval::Missing };
        for planned in changes {
            self.add(Planned { approval, ..planned });
        }
        descriptions
    }

    /// Returns whether osdpl must wait before it retries a refused action.
    ///
    /// If so, the function also makes the next pass start no later than the retry time.
    pub(crate) fn must_wait(&mut self, refusal: Option<&Refusal>) -> bool {
        let until = refusal.map(|refusal| refusal.until).filter(|until| *until > self.snapshot.now);
        self.requeue(until);
        until.is_some()
    }

    /// Returns the API server's last refusal of an action; `None` if the API server has not refused the action.
    pub(crate) fn refusal(&self, action: &Action) -> Option<&'a Refusal> {
        self.snapshot.kept.refused.get(&action.id())
    }

    /// Postpones an action, because osdpl could not read data that it needs to plan the action. `message` is the error
    /// of the read. Later passes wait as after a refusal by the API server.
    pub(crate) fn postpone(&mut self, action: &Action, message: String) {
        let refusal = next_refusal(action, self.refusal(action), message, self.snapshot.now);
        self.requeue([refusal.until]);
        self.kept.refused.insert(action.id(), refusal);
    }

    /// Returns the plan of a pass that ends before its decision is complete, for the reason `hold`.
    ///
    /// The next pass decides again, from a newer snapshot. So if this pass lacked data, the plan contains no actions,
    /// and the kept data does not change.
    pub(crate) fn hold(self, hold: Hold) -> Plan {
        let acts = matches!(hold, Hold::Actions | Hold::Watch);
        let actions = if acts { self.actions } else { Vec::new() };
        let kept = if acts { self.kept } else { self.snapshot.kept.clone() };
        let (mut requests, requeue_at) = (self.requests, self.requeue_at);
        // This pass ended before it could request these objects. Without the request, the operator would end their
        // watches.
        if hold == Hold::Objects {
            requests.foreign = self.snapshot.objects.foreign.keys().cloned().collect_set();
        }
        Plan { requests, actions, requeue_at, kept, hold: Some(hold), ..Plan::default() }
    }
}

/// Returns a description of each action that waits for approval. Only the changes of node labels share one description,
/// because a spec may change the labels of hundreds of nodes. A change that only updates a node's annotation has its
/// own description.
fn describe(actions: &[Planned]) -> Vec<String> {
    let mut labels = BTreeSet::new();
    let mut nodes = Vec::new();
    let mut texts = Vec::new();
    for Planned { action, .. } in actions {
        match action {
            Action::LabelNode { name, change } if change.changes_labels() => {
                labels.extend(change.gains.iter().cloned());
                nodes.push(name.as_str());
            }
            action => texts.push(format!("osdpl would {action}")),
        }
    }
    if !nodes.is_empty() {
        let count = nodes.len();
        let labels: Vec<String> = labels.into_iter().collect();
        let nodes = format_names(nodes, count);
        texts.push(format!("osdpl would add the labels {} to the nodes {nodes}", labels.join(", ")));
    }
    texts
}
