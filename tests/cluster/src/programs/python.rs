//! Provides a Python virtual environment in the cache, with the libraries that Python programs of the catalogue import.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Progress;
use super::build::{cache, lock, remove_leftovers};
use crate::Error;
use crate::folder::tail;

/// The requirements file for pip: every library with its exact version.
const REQUIREMENTS: &str = include_str!("../../programs/python/requirements.txt");
/// A Python program that prints the version, location and platform of Python, or nothing if Python is older than 3.10.
/// The installed libraries depend on these three properties.
const WHICH: &str = "import platform, sys, venv, ensurepip\n\
    if sys.version_info >= (3, 10): print(sys.version_info[:3], sys.executable, platform.platform())";

/// Returns the path of the environment's Python interpreter. Creates the environment if it does not exist.
///
/// # Errors
/// Returns an error if Python or its venv module is missing, or a library can't be installed.
pub fn ensure(report: &mut dyn FnMut(&Progress)) -> Result<PathBuf, Error> {
    let which = which()?;
    let cache = cache()?;
    std::fs::create_dir_all(&cache).map_err(Error::file("create", &cache))?;
    let name = format!("python-{}", crate::digest::short([REQUIREMENTS, &which]));
    let environment = cache.join(&name);
    let python = environment.join("bin/python");
    if python.is_file() {
        return Ok(python);
    }
    let _lock = lock(&cache.join(format!("{name}.lock")), || report(&Progress::WaitingForPython))?;
    if python.is_file() {
        return Ok(python);
    }
    let started = Instant::now();
    report(&Progress::Installing);
    let prefix = format!(".building-{name}-");
    remove_leftovers(&cache, &prefix);
    let work = tempfile::Builder::new().prefix(&prefix).tempdir_in(&cache).map_err(Error::file("create", &cache))?;
    install(work.path())?;
    // Remove an existing environment. It is unusable: the check above has found that its `bin/python` is missing, or is
    // a link to a Python that no longer exists.
    let _ = std::fs::remove_dir_all(&environment);
    std::fs::rename(work.path().join("environment"), &environment).map_err(Error::file("create", &environment))?;
    report(&Progress::Installed { elapsed: started.elapsed() });
    Ok(python)
}

/// Runs [`WHICH`] with the `python3` in PATH, and returns the printed version, location and platform.
fn which() -> Result<String, Error> {
    let output = Command::new("python3").args(["-c", WHICH]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Python { reason: format!("python3 does not run ({error})") })?;
    let last = |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
    match last(&output.stdout) {
        properties if output.status.success() && !properties.is_empty() => Ok(properties),
        _ if output.status.success() => Err(Error::Python { reason: "the python3 in PATH is older than 3.10".into() }),
        _ => Err(Error::Python { reason: format!("python3 printed {:?}", last(&output.stderr)) }),
    }
}

fn install(work: &Path) -> Result<(), Error> {
    let (requirements, environment) = (work.join("requirements.txt"), work.join("environment"));
    std::fs::write(&requirements, REQUIREMENTS).map_err(Error::file("write", &requirements))?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&environment);
    run(venv, "python3 -m venv", work)?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-deps", "--requirement"]);
    pip.arg(&requirements);
    run(pip, "pip install", work)
}

fn run(mut command: Command, what: &str, work: &Path) -> Result<(), Error> {
    let log = work.join("log");
    let file = || File::create(&log).map_err(Error::file("create", &log));
    let output = file()?;
    let errors = output.try_clone().map_err(Error::file("write", &log))?;
    let failed =
        |reason: String| Error::Build { program: "the Python environment".into(), reason, tail: tail(&log, 20) };
    let ended = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
    match ended.map_err(|error| failed(format!("{what} does not run ({error})")))? {
        status if status.success() => Ok(()),
        status => Err(failed(format!("{what} ended with {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_every_imported_library() {
        let lines: Vec<_> = REQUIREMENTS.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.iter().all(|line| line.split("==").count() == 2), "{lines:?}");
        for library in ["openstacksdk==", "cryptography=="] {
            assert!(lines.iter().any(|line| line.starts_with(library)), "{library}");
        }
    }
}
