//! Decides how to recover a release whose newest record comes from a helm process that died.

use super::{Event, Hook, Phase, Status};

/// The action that recovers a release after the helm process that wrote its newest record died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Do nothing: helm accepts the next upgrade or install.
    Nothing,
    /// Mark the record as failed, so that helm accepts the next upgrade.
    RewriteFailed,
    /// Delete the record, so that helm installs the release again and runs its pre-install hooks. If the record were
    /// marked as failed, helm would upgrade the release and never run these hooks.
    DeleteRecord {
        /// The pre-install hooks whose objects are in the cluster, and stay there, because helm does not replace them
        /// in the next install. With helm 3 or client-side apply, the next install fails while these objects exist;
        /// with server-side apply, it accepts them. osdpl does not delete the objects, because they may contain data,
        /// such as the keys of a cloud.
        leftovers: Vec<Hook>,
    },
    /// Uninstall again: helm refuses to upgrade a release whose uninstall was interrupted.
    Uninstall,
}

/// Returns the action that recovers a release after the helm process that wrote its newest record died.
///
/// `status` and `hooks` come from the newest record. `exists` tells whether the object of a pre-install hook exists in
/// the cluster.
///
/// The caller must be sure that the helm process that wrote the newest record is dead. Otherwise the action would
/// interfere with that process.
pub fn next_recovery_step(status: Status, hooks: &[Hook], exists: impl Fn(&Hook) -> bool) -> Recovery {
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
    // A pre-install hook is done if it succeeded. A hook of a kind that never completes, such as a Secret, is also done
    // if its object exists. Even after helm has deleted a hook's object, the record says whether the hook succeeded.
    let satisfied = |(hook, exists): &(&Hook, bool)| hook.phase() == Phase::Succeeded || (*exists && !hook.completes());
    if before.iter().all(satisfied) {
        return Recovery::RewriteFailed;
    }
    let leftovers = before.into_iter().filter(|(hook, exists)| *exists && !hook.replaces_its_predecessor());
    Recovery::DeleteRecord { leftovers: leftovers.map(|(hook, _)| hook.clone()).collect() }
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
        next_recovery_step(Status::PendingInstall, hooks, |hook| existing.contains(&hook.name.as_str()))
    }

    #[test]
    fn recovers_only_locked_releases() {
        let never = |_: &Hook| -> bool { panic!("osdpl checks for hooks' objects only in the status pending-install") };
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
            assert_eq!(next_recovery_step(status, &hooks, never), expected, "{status}");
        }
    }

    #[test]
    fn continues_as_upgrade_after_all_pre_install_hooks() {
        let post = hook("Job", "db-sync", Event::PostInstall, Phase::Running);
        let keys = hook("Secret", "keys", Event::PreInstall, Phase::Running);
        let job = hook("Job", "prepare", Event::PreInstall, Phase::Succeeded);
        assert_eq!(install(std::slice::from_ref(&post), &[]), Recovery::RewriteFailed);
        assert_eq!(install(&[keys, job, post], &["keys"]), Recovery::RewriteFailed);
    }

    #[test]
    fn reinstalls_with_pending_pre_install_hooks() {
        let first = hook("Secret", "first", Event::PreInstall, Phase::Succeeded);
        let second = hook("Secret", "second", Event::PreInstall, Phase::Unknown);
        let leftovers = vec![first.clone()];
        assert_eq!(install(&[first, second], &["first"]), Recovery::DeleteRecord { leftovers });
    }

    #[test]
    fn an_existing_job_has_not_completed() {
        let job = hook("Job", "prepare", Event::PreInstall, Phase::Running);
        let leftovers = vec![job.clone()];
        assert_eq!(install(&[job], &["prepare"]), Recovery::DeleteRecord { leftovers });
    }

    #[test]
    fn hooks_that_helm_replaces_are_not_leftovers() {
        let job = Hook { delete_policies: Vec::new(), ..hook("Job", "prepare", Event::PreInstall, Phase::Failed) };
        assert_eq!(install(&[job], &["prepare"]), Recovery::DeleteRecord { leftovers: Vec::new() });
    }
}
