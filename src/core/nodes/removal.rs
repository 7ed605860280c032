//! Decides which node labels the operator removes now, and which removals wait for approval.
//!
//! Kubernetes deletes the pods of a `DaemonSet` as soon as their node loses the label that the `DaemonSet` selects. So
//! the operator removes labels only after approval, and from a few nodes at a time. It writes the approved removal to
//! the status before it removes the first label, so that a restarted operator continues the removal.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use osdpl_values::CollectSorted;

use super::{Inventory, LabelChange};
use crate::api::{LabelRemovalStatus, Rollout};
use crate::observed::{LabelLosses, Node};

/// The state of the removal of node labels after a reconcile pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelRemoval {
    /// The approved removal, as the status of the OpenStackDeployment stores it; `None` if no removal is approved.
    pub status: Option<LabelRemovalStatus>,
    /// The labels whose removal waits for approval.
    pub awaiting: LabelLosses,
    /// The number of nodes that still have labels whose removal is approved.
    pub left: usize,
}

/// The approval of the current target hash ([`crate::plan::Plan::hash`]): missing, from the spec, or from a person.
/// The approval also applies to the removal of labels, because the hash includes the labels to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelApproval<'a> {
    /// Nobody approved the target hash.
    Missing,
    /// The spec approves every removal of labels, with `spec.nodes.rollout.approval: Automatic`.
    Spec,
    /// A person approved this target hash.
    Person(&'a str),
}

/// The nodes that lose labels next in an approved label removal, and the time of the next batch of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelBatch {
    /// The nodes from which the operator removes labels in the current pass.
    pub nodes: BTreeSet<String>,
    /// When the next batch may start; `None` if no further node loses labels.
    pub requeue_at: Option<Timestamp>,
}

/// Returns the labels that the changes in `changes` remove, by node.
pub fn losses(changes: &BTreeMap<String, LabelChange>) -> LabelLosses {
    let losing = changes.iter().filter(|(_, change)| !change.losses.is_empty());
    losing.map(|(name, change)| (name.clone(), change.losses.join(","))).collect_map()
}

/// Returns the approved label removal that the status stores (`stored`); `None` if the status stores no removal, or if
/// the removal is finished.
///
/// `pending` contains the labels that are still to be removed, by node. `approval` is the hash in the annotation with
/// which a person approves changes. A removal is finished when both are true: its labels are gone from all nodes, and
/// the annotation no longer contains the removal's hash. The annotation can stay longer than the labels, because it
/// also approves other changes.
///
/// The result leaves out nodes that got the labels back after their removal. So a later removal of these labels needs
/// another approval.
pub fn unfinished(
    pending: &LabelLosses,
    stored: Option<&LabelRemovalStatus>,
    nodes: &Inventory,
    changes: &BTreeMap<String, LabelChange>,
    approval: Option<&str>,
) -> Option<LabelRemovalStatus> {
    let mut removal = stored?.clone();
    let is_left = |name: &String, labels: &String| pending.get(name) == Some(labels);
    let is_set = |name: &String, label: &str| {
        let is_listed = |node: &Node| {
            node.listed.values().flatten().any(|(key, value)| label.split_once('=') == Some((key, value)))
        };
        nodes.get(name).is_some_and(is_listed)
            || changes.get(name).is_some_and(|change| change.gains.iter().any(|gain| gain == label))
    };
    let is_reassigned = |name: &String, labels: &String| labels.split(',').any(|label| is_set(name, label));
    removal.nodes.retain(|name, labels| is_left(name, labels) || !is_reassigned(name, labels));
    let is_open = approval.is_some_and(|hash| hash == removal.hash);
    (is_open || removal.nodes.iter().any(|(name, labels)| is_left(name, labels))).then_some(removal)
}

/// Returns the labels that the target hash includes: the labels that are still to be removed (`pending`), and the
/// labels that the unfinished removal (`stored`) has already removed.
///
/// The hash includes the removed labels, too, so that it stays the same while the operator carries out the removal.
pub fn removal_target(pending: &LabelLosses, stored: Option<&LabelRemovalStatus>) -> LabelLosses {
    let approved = stored.map(|stored| stored.nodes.clone()).unwrap_or_default();
    approved.into_iter().chain(pending.clone()).collect_map()
}

/// Returns the nodes from which the operator removes labels now, and the time of the next batch.
///
/// `pending` contains the labels that are still to be removed, by node. The operator removes these labels from a node
/// only if the unfinished removal in the status (`stored`) contains exactly these labels for the node. `settings` sets
/// the batch size and the pause between batches.
pub fn next_batch(
    pending: &LabelLosses,
    stored: Option<&LabelRemovalStatus>,
    settings: &Rollout,
    now: Timestamp,
) -> LabelBatch {
    let Some(stored) = stored else { return LabelBatch::default() };
    let mut due = pending.iter().filter(|(name, labels)| stored.nodes.get(*name) == Some(*labels)).peekable();
    if due.peek().is_none() {
        return LabelBatch::default();
    }
    let pause = SignedDuration::from_secs(settings.pause().into());
    // If the time of the last batch is in the future, somebody has set the clock back. Then start the next batch at
    // once, because the clock may reach that time only after hours.
    let last = stored.last_batch.as_ref().filter(|last| last.0 <= now);
    let until = last.and_then(|last| last.0.checked_add(pause).ok());
    if let Some(until) = until.filter(|until| *until > now) {
        return LabelBatch { nodes: BTreeSet::new(), requeue_at: Some(until) };
    }
    let size = settings.batch_size_for(i32::try_from(stored.nodes.len()).unwrap_or(i32::MAX));
    let nodes: BTreeSet<String> =
        due.by_ref().take(usize::try_from(size).unwrap_or(1)).map(|(name, _)| name.clone()).collect_set();
    let requeue_at = due.next().and_then(|_| now.checked_add(pause).ok());
    LabelBatch { nodes, requeue_at }
}

/// Returns the state of the label removal after a reconcile pass in which the operator removes the labels of `batch`.
/// `approval` says who approved the current target hash.
pub fn after_batch(
    pending: &LabelLosses,
    stored: Option<&LabelRemovalStatus>,
    batch: &LabelBatch,
    approval: LabelApproval<'_>,
    now: Timestamp,
) -> LabelRemoval {
    let mut status = stored.cloned().unwrap_or_default();
    if approval != LabelApproval::Missing {
        status.nodes.extend(pending.clone());
    }
    if let LabelApproval::Person(hash) = approval {
        hash.clone_into(&mut status.hash);
    }
    if !batch.nodes.is_empty() {
        status.last_batch = Some(Time(now));
    }
    let (approved, awaiting): (LabelLosses, LabelLosses) =
        pending.clone().into_iter().partition(|(name, labels)| status.nodes.get(name) == Some(labels));
    LabelRemoval { left: approved.len(), status: (!status.nodes.is_empty()).then_some(status), awaiting }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    const HASH: LabelApproval<'_> = LabelApproval::Person("hash");

    fn pending(names: &[&str]) -> LabelLosses {
        names.iter().map(|name| ((*name).to_owned(), "switch=on".to_owned())).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn settings(batch_size: i32) -> Rollout {
        Rollout { batch_size: Some(IntOrString::Int(batch_size)), pause_seconds: Some(60), ..Rollout::default() }
    }

    fn names(batch: &LabelBatch) -> Vec<&str> {
        batch.nodes.iter().map(String::as_str).collect()
    }

    #[test]
    fn removes_only_what_the_status_contains() {
        let all = pending(&["a", "b", "c"]);
        let none = next_batch(&all, None, &settings(2), at(0));
        assert_eq!(none, LabelBatch::default());
        let waiting = after_batch(&all, None, &none, LabelApproval::Missing, at(0));
        assert_eq!((&waiting.awaiting, waiting.status, waiting.left), (&all, None, 0));
        let approved = after_batch(&all, None, &none, HASH, at(0));
        assert_eq!((approved.awaiting.len(), approved.left), (0, 3));
        let batch = next_batch(&all, approved.status.as_ref(), &settings(2), at(0));
        assert_eq!((names(&batch), batch.requeue_at), (vec!["a", "b"], Some(at(60))));
    }

    #[test]
    fn the_target_stays_the_same_from_batch_to_batch() {
        let all = pending(&["a", "b", "c"]);
        let approved = after_batch(&all, None, &LabelBatch::default(), HASH, at(0)).status;
        let batch = next_batch(&all, approved.as_ref(), &settings(2), at(0));
        let first = after_batch(&all, approved.as_ref(), &batch, LabelApproval::Missing, at(0));
        let rest = pending(&["c"]);
        assert_eq!(removal_target(&rest, first.status.as_ref()), all);
        let early = next_batch(&rest, first.status.as_ref(), &settings(2), at(59));
        assert_eq!((names(&early), early.requeue_at), (vec![], Some(at(60))));
        let set_back = next_batch(&rest, first.status.as_ref(), &settings(2), at(-3600));
        assert_eq!(names(&set_back), ["c"], "a clock that was set back must not stop the removal");
        let last = next_batch(&rest, first.status.as_ref(), &settings(2), at(60));
        assert_eq!((names(&last), last.requeue_at), (vec!["c"], None));
        let none = pending(&[]);
        let left = |pending: &LabelLosses, approval| {
            unfinished(pending, first.status.as_ref(), &Inventory::new(), &BTreeMap::new(), approval)
        };
        assert_eq!(left(&rest, None), first.status);
        assert_eq!(left(&none, Some("hash")), first.status, "the approval covers other changes, too");
        assert_eq!(left(&none, Some("0123")), None, "another approval does not cover the removal");
        assert_eq!(left(&none, None), None);
        let done = after_batch(&none, None, &LabelBatch::default(), LabelApproval::Missing, at(60));
        assert_eq!(done, LabelRemoval::default());
    }

    #[test]
    fn reassigned_node_needs_another_approval() {
        let all = pending(&["a", "b", "c"]);
        let approved = after_batch(&all, None, &LabelBatch::default(), HASH, at(0)).status;
        let node = |ours| Node::new(None, None, Some(ours));
        // Node `a` has got the label back, and a planned change gives it back to node `c`. Only node `b` is still
        // without the label, so only `b` stays in the removal.
        let nodes: Inventory =
            [("a".to_owned(), node("switch=on")), ("b".into(), node("")), ("c".into(), node(""))].into();
        let gain = LabelChange {
            uid: String::new(),
            owner: String::new(),
            labels: BTreeMap::new(),
            gains: vec!["switch=on".into()],
            losses: Vec::new(),
        };
        let changes = BTreeMap::from([("c".to_owned(), gain)]);
        let left = unfinished(&pending(&[]), approved.as_ref(), &nodes, &changes, Some("hash")).unwrap();
        assert_eq!(left.nodes, pending(&["b"]));
        let again = after_batch(&all, Some(&left), &LabelBatch::default(), LabelApproval::Missing, at(0));
        assert_eq!(again.awaiting, pending(&["a", "c"]));
    }

    #[test]
    fn another_node_or_label_needs_another_approval() {
        let approved = after_batch(&pending(&["a"]), None, &LabelBatch::default(), HASH, at(0)).status;
        let after = |pending: &LabelLosses| {
            after_batch(pending, approved.as_ref(), &LabelBatch::default(), LabelApproval::Missing, at(0))
        };
        let mut more = pending(&["a", "b"]);
        let removal = after(&more);
        assert_eq!((removal.awaiting, removal.left), (pending(&["b"]), 1));
        assert_eq!(names(&next_batch(&more, approved.as_ref(), &settings(9), at(0))), ["a"]);
        more.insert("a".into(), "gateway=on,switch=on".into());
        assert_eq!(next_batch(&more, approved.as_ref(), &settings(9), at(0)), LabelBatch::default());
        assert_eq!(after(&more).awaiting, more);
    }
}
