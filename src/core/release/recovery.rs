//! What the newest record of a release needs before helm can go on, once its maker is known to be dead.

use super::{Event, Hook, Phase, Status};

/// The next step of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing stands in helm's way: the next upgrade (or install) just runs.
    Nothing,
    /// Mark the record failed; the next upgrade takes it from there.
    RewriteFailed,
    /// Delete the record, so that the release is installed anew and its pre-install hooks run. Marked failed, they would
    /// be skipped for ever, because from then on every run is an upgrade.
    DeleteRecord {
        /// Objects of pre-install hooks which exist and which helm does not replace. Applied by the API server they are no
        /// obstacle; a helm 3 install (or [client-side](osdpl_operator::helm::Apply::Client)) would stop at them, so there they must
        /// go first, unless something has filled them meanwhile (keys of a cloud!).
        leftovers: Vec<Hook>,
    },
    /// Uninstall again: helm refuses to upgrade a release that was leaving.
    Uninstall,
}

/// What a record in `status` with these hooks needs; `exists` tells whether a hook's object is in the cluster.
///
/// Only after the fence: the maker must be dead. `exists` is asked for pre-install hooks alone.
pub fn recover(status: Status, hooks: &[Hook], exists: impl Fn(&Hook) -> bool) -> Recovery {
    match status {
        Status::Unknown | Status::Deployed | Status::Uninstalled | Status::Superseded | Status::Failed => {
            Recovery::Nothing
        }
        Status::PendingUpgrade | Status::PendingRollback => Recovery::RewriteFailed,
        Status::Uninstalling => Recovery::Uninstall,
        Status::PendingInstall => recover_install(hooks, exists),
    }
}

fn recover_install(hooks: &[Hook], exists: impl Fn(&Hook) -> bool) -> Recovery {
    let before: Vec<(&Hook, bool)> =
        hooks.iter().filter(|hook| hook.runs_at(Event::PreInstall)).map(|hook| (hook, exists(hook))).collect();
    // A Job must have completed; of a Secret it is enough that it is there. A hook that deletes itself on success is
    // there no more, but then its phase says so.
    let satisfied = |(hook, exists): &(&Hook, bool)| hook.phase() == Phase::Succeeded || (*exists && !hook.completes());
    if before.iter().all(satisfied) {
        return Recovery::RewriteFailed;
    }
    let left = before.into_iter().filter(|(hook, exists)| *exists && !hook.replaces_its_predecessor());
    Recovery::DeleteRecord { leftovers: left.map(|(hook, _)| hook.clone()).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::{DeletePolicy, LastRun};
    use super::*;

    fn hook(kind: &str, name: &str, event: Event, phase: Phase) -> Hook {
        Hook {
            kind: kind.into(),
            name: name.into(),
            events: vec![event],
            delete_policies: vec![DeletePolicy::HookFailed],
            last_run: Some(LastRun { phase, ..LastRun::default() }),
            ..Hook::default()
        }
    }

    fn install(hooks: &[Hook], existing: &[&str]) -> Recovery {
        recover(Status::PendingInstall, hooks, |hook| existing.contains(&hook.name.as_str()))
    }

    #[test]
    fn only_what_locks_a_release_is_touched() {
        let never = |_: &Hook| -> bool { panic!("asked for an object that does not matter") };
        let hooks = [hook("Secret", "keys", Event::PreInstall, Phase::Unknown)];
        for (status, expected) in [
            (Status::Unknown, Recovery::Nothing),
            (Status::Deployed, Recovery::Nothing),
            (Status::Uninstalled, Recovery::Nothing),
            (Status::Superseded, Recovery::Nothing),
            (Status::Failed, Recovery::Nothing),
            (Status::PendingUpgrade, Recovery::RewriteFailed),
            (Status::PendingRollback, Recovery::RewriteFailed),
            (Status::Uninstalling, Recovery::Uninstall),
        ] {
            assert_eq!(recover(status, &hooks, never), expected, "{status}");
        }
    }

    #[test]
    fn an_install_whose_pre_install_hooks_are_done_goes_on_as_an_upgrade() {
        let post = hook("Job", "db-sync", Event::PostInstall, Phase::Running);
        let keys = hook("Secret", "keys", Event::PreInstall, Phase::Running);
        let job = hook("Job", "prepare", Event::PreInstall, Phase::Succeeded);
        assert_eq!(install(std::slice::from_ref(&post), &[]), Recovery::RewriteFailed);
        assert_eq!(install(&[keys, job, post], &["keys"]), Recovery::RewriteFailed);
    }

    #[test]
    fn an_install_with_an_open_pre_install_hook_starts_anew_and_names_what_is_in_its_way() {
        let first = hook("Secret", "first", Event::PreInstall, Phase::Succeeded);
        let second = hook("Secret", "second", Event::PreInstall, Phase::Unknown);
        let leftovers = vec![first.clone()];
        assert_eq!(install(&[first, second], &["first"]), Recovery::DeleteRecord { leftovers });
    }

    #[test]
    fn a_job_that_exists_has_not_completed() {
        let job = hook("Job", "prepare", Event::PreInstall, Phase::Running);
        let leftovers = vec![job.clone()];
        assert_eq!(install(&[job], &["prepare"]), Recovery::DeleteRecord { leftovers });
    }

    #[test]
    fn what_helm_replaces_itself_is_not_in_the_way() {
        let job = Hook { delete_policies: Vec::new(), ..hook("Job", "prepare", Event::PreInstall, Phase::Failed) };
        assert_eq!(install(&[job], &["prepare"]), Recovery::DeleteRecord { leftovers: Vec::new() });
    }
}
