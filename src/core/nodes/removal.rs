//! Decides which labels the operator removes from nodes now, and which removals wait for approval.
//!
//! Kubernetes deletes the pods of a `DaemonSet` as soon as their node loses the label that the `DaemonSet` selects. So
//! the operator removes labels only after approval, and from a few nodes at a time. It writes the approved removal to
//! the status before it removes the first label, so that a restarted operator continues the removal.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::LabelChange;
use crate::api::{LabelRemovalStatus, Rollout};

/// The labels to remove from each node, as text: `l3-agent=enabled,openvswitch=enabled`.
pub type LabelLosses = BTreeMap<String, String>;

/// The state of the removal of labels after a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelRemoval {
    /// The approved removal that the operator carries out, for the status; `None` if there is none.
    pub status: Option<LabelRemovalStatus>,
    /// The labels whose removal waits for approval.
    pub awaiting: LabelLosses,
    /// The number of nodes of the approved removal that still have their labels.
    pub left: usize,
}

/// The next batch of an approved removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelBatch {
    /// The nodes from which the operator removes labels now.
    pub nodes: BTreeSet<String>,
    /// When the next batch may start; `None` if no batch has to wait for the time.
    pub requeue_at: Option<Timestamp>,
}

/// Returns the labels that the changes remove.
pub fn losses(changes: &BTreeMap<String, LabelChange>) -> LabelLosses {
    let losing = changes.iter().filter(|(_, change)| !change.losses.is_empty());
    losing.map(|(name, change)| (name.clone(), change.losses.join(","))).collect()
}

/// Returns the removal in the status if it is not finished: a node still has its labels, or the resource still has the
/// annotation of the approval (`is_open`), because the approval also applies to other changes.
pub fn unfinished<'a>(
    pending: &LabelLosses,
    stored: Option<&'a LabelRemovalStatus>,
    is_open: bool,
) -> Option<&'a LabelRemovalStatus> {
    let is_left = |(name, labels): (&String, &String)| pending.get(name) == Some(labels);
    stored.filter(|stored| is_open || stored.nodes.iter().any(is_left))
}

/// Returns all labels that the present target removes: the `pending` labels, and the labels of the unfinished removal
/// that are already gone.
///
/// The result stays the same while the operator carries out the approved removal.
pub fn removal_target(pending: &LabelLosses, stored: Option<&LabelRemovalStatus>) -> LabelLosses {
    let approved = stored.map(|stored| stored.nodes.clone()).unwrap_or_default();
    approved.into_iter().chain(pending.clone()).collect()
}

/// Returns the nodes from which the operator removes `pending` labels now.
///
/// `stored` is the unfinished removal in the status of the resource: the operator removes no other labels.
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
    let until = stored.last_batch.as_ref().and_then(|last| last.0.checked_add(pause).ok());
    if let Some(until) = until.filter(|until| *until > now) {
        return LabelBatch { nodes: BTreeSet::new(), requeue_at: Some(until) };
    }
    let size = settings.batch_size_for(i32::try_from(stored.nodes.len()).unwrap_or(i32::MAX));
    let nodes: BTreeSet<String> =
        due.by_ref().take(usize::try_from(size).unwrap_or(1)).map(|(name, _)| name.clone()).collect();
    let requeue_at = due.next().and_then(|_| now.checked_add(pause).ok());
    LabelBatch { nodes, requeue_at }
}

/// Returns the state of the removal after a pass that executes `batch`. `is_approved` says whether a person or the spec
/// approved the present target.
pub fn after_batch(
    pending: &LabelLosses,
    stored: Option<&LabelRemovalStatus>,
    batch: &LabelBatch,
    is_approved: bool,
    now: Timestamp,
) -> LabelRemoval {
    let mut status = stored.cloned().unwrap_or_default();
    if is_approved {
        status.nodes.extend(pending.clone());
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
        let waiting = after_batch(&all, None, &none, false, at(0));
        assert_eq!((&waiting.awaiting, waiting.status, waiting.left), (&all, None, 0));
        let approved = after_batch(&all, None, &none, true, at(0));
        assert_eq!((approved.awaiting.len(), approved.left), (0, 3));
        let batch = next_batch(&all, approved.status.as_ref(), &settings(2), at(0));
        assert_eq!((names(&batch), batch.requeue_at), (vec!["a", "b"], Some(at(60))));
    }

    #[test]
    fn the_target_stays_the_same_from_batch_to_batch() {
        let all = pending(&["a", "b", "c"]);
        let approved = after_batch(&all, None, &LabelBatch::default(), true, at(0)).status;
        let batch = next_batch(&all, approved.as_ref(), &settings(2), at(0));
        let first = after_batch(&all, approved.as_ref(), &batch, false, at(0));
        let rest = pending(&["c"]);
        assert_eq!(removal_target(&rest, first.status.as_ref()), all);
        let early = next_batch(&rest, first.status.as_ref(), &settings(2), at(59));
        assert_eq!((names(&early), early.requeue_at), (vec![], Some(at(60))));
        let last = next_batch(&rest, first.status.as_ref(), &settings(2), at(60));
        assert_eq!((names(&last), last.requeue_at), (vec!["c"], None));
        let none = pending(&[]);
        assert!(unfinished(&rest, first.status.as_ref(), false).is_some());
        assert!(unfinished(&none, first.status.as_ref(), true).is_some(), "the approval covers other changes, too");
        assert_eq!(unfinished(&none, first.status.as_ref(), false), None);
        assert_eq!(after_batch(&none, None, &LabelBatch::default(), false, at(60)), LabelRemoval::default());
    }

    #[test]
    fn another_node_or_label_needs_another_approval() {
        let approved = after_batch(&pending(&["a"]), None, &LabelBatch::default(), true, at(0)).status;
        let mut more = pending(&["a", "b"]);
        let removal = after_batch(&more, approved.as_ref(), &LabelBatch::default(), false, at(0));
        assert_eq!((removal.awaiting, removal.left), (pending(&["b"]), 1));
        assert_eq!(names(&next_batch(&more, approved.as_ref(), &settings(9), at(0))), ["a"]);
        more.insert("a".into(), "gateway=on,switch=on".into());
        assert_eq!(next_batch(&more, approved.as_ref(), &settings(9), at(0)), LabelBatch::default());
        assert_eq!(after_batch(&more, approved.as_ref(), &LabelBatch::default(), false, at(0)).awaiting, more);
    }
}
