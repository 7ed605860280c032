//! Starts helm in such a way that the kernel stops helm when the operator process ends.
//!
//! Linux can signal a process when its parent ends, but only the process itself can request this signal: after the
//! operator has forked it, and before it executes helm. Safe Rust cannot run code between fork and exec. So the
//! operator starts *itself* with a hidden subcommand, which requests the signal and then executes helm. The request
//! survives the exec (prctl(2), `PR_SET_PDEATHSIG`).

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::Error;

/// The hidden subcommand that calls [`exec_with_parent_death_signal`]:
/// `osdpl exec-helm <parent pid> <helm> <arguments…>`.
pub const SUBCOMMAND: &str = "exec-helm";

/// The path of the running osdpl program, with which the Runner starts `exec-helm`. The path stays valid even if
/// someone replaces the program's file, for example during an update.
pub(crate) const SELF_PATH: &str = "/proc/self/exe";

/// Replaces this process with the program in `argv`, which gets SIGTERM when the process `parent` ends.
///
/// The function returns only if it fails.
///
/// On SIGTERM, helm 3.7 and newer mark the record of an install or upgrade as failed. During an uninstall or rollback,
/// helm has no signal handler and just ends.
///
/// # Errors
/// Returns an error if `argv` is empty, the kernel rejects the request for the signal, the parent has already ended, or
/// the program cannot be started.
pub fn exec_with_parent_death_signal(parent: u32, argv: &[OsString]) -> Result<Infallible, Error> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Error::NothingToExec);
    };
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Error::ParentDeathSignal { why: error.into() })?;
    // If the parent ended before this process requested the signal, the kernel never sends it. So do not start helm.
    if getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().unsigned_abs()) != Some(parent) {
        return Err(Error::ParentGone { parent });
    }
    let why = become_program(program, arguments);
    Err(Error::Start { path: program.into(), why })
}

#[allow(clippy::disallowed_methods, reason = "replaces this process instead of starting one")]
fn become_program(program: &OsString, arguments: &[OsString]) -> std::io::Error {
    std::process::Command::new(program).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<OsString> {
        text.lines().map(OsString::from).collect()
    }

    /// Not a real test: the script `wrapper.sh` runs it for other tests, in place of the subcommand `exec-helm`. Like
    /// the subcommand, it executes a given command. The variable `OSDPL_TEST_EXEC` contains the command.
    #[test]
    #[ignore = "the fake wrapper of other tests runs it"]
    fn turns_into_its_arguments() {
        let given = arguments(&std::env::var("OSDPL_TEST_EXEC").unwrap());
        assert_eq!(given[0], SUBCOMMAND);
        let parent = given[1].to_str().unwrap().parse().unwrap();
        panic!("{}", exec_with_parent_death_signal(parent, &given[2..]).unwrap_err());
    }

    #[test]
    fn rejects_a_parent_that_has_ended() {
        let error = exec_with_parent_death_signal(std::process::id(), &arguments("true")).unwrap_err();
        assert!(error.to_string().contains("has ended; helm was not started"), "{error}");
    }

    #[test]
    fn rejects_a_missing_program() {
        let error = exec_with_parent_death_signal(1, &[]).unwrap_err();
        assert!(error.to_string().contains("exec-helm is internal"), "{error}");
    }
}
