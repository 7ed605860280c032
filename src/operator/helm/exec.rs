//! Becoming helm, tied to the life of the operator.
//!
//! Linux can send a process a signal when its parent ends, but only the process itself may ask for it, between fork and
//! exec, which safe Rust cannot do from outside. So the operator starts *itself* with a hidden subcommand; that asks, and
//! then turns into helm. The request survives the exec (prctl(2), `PR_SET_PDEATHSIG`).

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::Error;

/// The hidden subcommand that `main` hands to [`exec_with_parent_death_signal`]:
/// `osdpl exec-helm <parent pid> <helm> <arguments…>`.
pub const SUBCOMMAND: &str = "exec-helm";

/// The wrapper for a Runner: this very program, whatever became of its file meanwhile.
pub const SELF: &str = "/proc/self/exe";

/// Turns this process into `argv`, which gets SIGTERM as soon as the process `parent` ends; returns only on failure.
///
/// SIGTERM, because helm 3.7 and newer then mark an install or upgrade as failed before they leave; uninstall and
/// rollback have no handler and simply end.
///
/// # Errors
/// When the parent is gone already, or the program cannot be started.
pub fn exec_with_parent_death_signal(parent: u32, argv: &[OsString]) -> Result<Infallible, Error> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Error::NothingToExec);
    };
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| Error::Tie { why: error.into() })?;
    // The parent may have ended before the request; then nobody would ever send the signal.
    if getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().unsigned_abs()) != Some(parent) {
        return Err(Error::ParentGone { parent });
    }
    let why = become_program(program, arguments);
    Err(Error::Start { path: program.into(), why })
}

#[allow(clippy::disallowed_methods, reason = "replaces this process, starts none")]
fn become_program(program: &OsString, arguments: &[OsString]) -> std::io::Error {
    std::process::Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.lines().map(OsString::from).collect()
    }

    /// What the fake wrapper starts: the same as `main` does with the hidden subcommand.
    #[test]
    #[ignore = "only another test starts it"]
    fn turns_into_its_arguments() {
        let given = arguments(&std::env::var("OSDPL_TEST_EXEC").unwrap());
        assert_eq!(given[0], SUBCOMMAND);
        let parent = given[1].to_str().unwrap().parse().unwrap();
        panic!("{}", exec_with_parent_death_signal(parent, &given[2..]).unwrap_err());
    }

    #[test]
    fn a_parent_that_is_gone_already_is_noticed() {
        let error = exec_with_parent_death_signal(std::process::id(), &arguments("true")).unwrap_err();
        assert!(error.to_string().contains("is gone; helm was not started"), "{error}");
    }

    #[test]
    fn without_a_program_there_is_nothing_to_become() {
        let error = exec_with_parent_death_signal(1, &[]).unwrap_err();
        assert!(error.to_string().contains("exec-helm is internal"), "{error}");
    }
}
