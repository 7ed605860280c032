//! Builds programs with Go, and stores them in the cache.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Program, Recipe};
use crate::Error;
use crate::folder::tail;

/// The flags of every `go build`. With `-trimpath`, programs contain no absolute paths. With `-dwarf=false`, the
/// compiler writes no debug information. This saves a tenth of the compiler's time, and the linker would remove the
/// information anyway.
const FLAGS: [&str; 2] = ["-trimpath", "-gcflags=all=-dwarf=false"];
/// The environment of every `go` command. With it, Go does not download another version of itself, uses no C compiler
/// and does not change `go.mod`.
const ENVIRONMENT: [(&str, &str); 4] =
    [("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0"), ("GOWORK", "off"), ("GOFLAGS", "-mod=readonly")];

/// The interval at which a long build reports its progress.
const TICK: Duration = Duration::from_secs(15);

/// The position of a program in the list of programs to build, such as 2 of 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The program's number in the list, starting with 1.
    pub number: usize,
    /// The number of programs in the list.
    pub of: usize,
}

/// The progress of a build, or of the installation of Python libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process is already building this program, and this process waits for the result.
    Waiting(Program),
    /// The build of a program begins.
    Building {
        /// The program that is being built.
        program: Program,
        /// The version of the program that is being built.
        version: &'static str,
        /// The position of the program in the list of programs to build.
        position: Position,
        /// The version of Go that builds the program, such as `go1.26.8`.
        go: String,
    },
    /// The build of a program is still running.
    Still {
        /// The program that is being built.
        program: Program,
        /// The time since the build began.
        elapsed: Duration,
    },
    /// Another process is already creating the Python environment, and this process waits for the result.
    WaitingForPython,
    /// The creation of the Python environment begins.
    Installing,
    /// The Python environment is complete.
    Installed {
        /// The time that the creation of the environment took.
        elapsed: Duration,
    },
    /// The build of a program is complete.
    Built {
        /// The program that was built.
        program: Program,
        /// The time that the build took.
        elapsed: Duration,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(program) => write!(formatter, "waiting for another process that builds {program}"),
            Self::Building { program, version, position, go } => write!(
                formatter,
                "building {} {version} with {go} (program {} of {}; takes minutes, but only once on this machine)",
                program.executable(),
                position.number,
                position.of
            ),
            Self::Still { program, elapsed } => write!(formatter, "  … {program}, {} s", elapsed.as_secs()),
            Self::WaitingForPython => {
                formatter.write_str("waiting for another process that creates the Python environment")
            }
            Self::Installing => formatter.write_str("installing OpenStack's Python libraries (only once per machine)"),
            Self::Installed { elapsed } => write!(formatter, "  installed the libraries in {} s", elapsed.as_secs()),
            Self::Built { program, elapsed } => write!(formatter, "  built {program} in {} s", elapsed.as_secs()),
        }
    }
}

/// The Go toolchain in PATH.
#[derive(Clone, Debug)]
pub(super) struct Go {
    /// Go's version, such as `go1.26.8`.
    version: String,
}

impl Go {
    /// Runs `go env` to find Go's version. The error is the reason why `go` cannot be used.
    pub fn find() -> Result<Self, String> {
        let output = Command::new("go").args(["env", "GOVERSION"]).envs(ENVIRONMENT).output();
        let output = output.map_err(|error| format!("the go command does not run ({error})"))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if version.starts_with("go") {
            Ok(Self { version })
        } else {
            Err(format!("go reports the version {version:?}"))
        }
    }

    fn is_at_least(&self, needed: &str) -> bool {
        let parts = |text: &str| -> Vec<u32> {
            text.split('.')
                .map(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>())
                .map(|digits| digits.parse().unwrap_or(0))
                .collect()
        };
        parts(self.version.trim_start_matches("go")) >= parts(needed)
    }
}

/// Returns the error for a program that cannot be built. `reason` says why Go cannot be used.
pub(super) fn no_go(recipe: &Recipe, reason: String) -> Error {
    Error::Go { program: recipe.program.to_string(), reason, needed: recipe.go_needed().to_string() }
}

/// Returns the path at which a build stores the program in the cache. The file may not exist yet.
pub(super) fn target(recipe: &Recipe, go: &Go) -> Result<PathBuf, Error> {
    Ok(cache()?.join(folder_name(recipe, go)).join(recipe.program.executable()))
}

/// Builds a program, and returns the program's path. Does not build it if another process has done so in the meantime.
pub(super) fn build(
    recipe: &Recipe,
    go: &Go,
    position: Position,
    report: &mut dyn FnMut(&Progress),
) -> Result<PathBuf, Error> {
    if !go.is_at_least(recipe.go_needed()) {
        return Err(no_go(recipe, format!("the `go` command has the version {}", go.version)));
    }
    let cache = cache()?;
    std::fs::create_dir_all(&cache).map_err(Error::file("create", &cache))?;
    let name = folder_name(recipe, go);
    let _lock = lock(&cache.join(format!("{name}.lock")), || report(&Progress::Waiting(recipe.program)))?;
    let target = target(recipe, go)?;
    if target.is_file() {
        return Ok(target);
    }
    let started = Instant::now();
    report(&Progress::Building { program: recipe.program, version: recipe.version, position, go: go.version.clone() });
    let prefix = format!(".building-{name}-");
    remove_leftovers(&cache, &prefix);
    let work = tempfile::Builder::new().prefix(&prefix).tempdir_in(&cache).map_err(Error::file("create", &cache))?;
    compile(recipe, work.path(), &mut |elapsed| report(&Progress::Still { program: recipe.program, elapsed }))?;
    let path = cache.join(name);
    std::fs::rename(work.path().join("bin"), &path).map_err(Error::file("create", &path))?;
    report(&Progress::Built { program: recipe.program, elapsed: started.elapsed() });
    Ok(target)
}

/// Runs `go build` in the folder `work`. Calls `tick` with the elapsed time every 15 seconds.
fn compile(recipe: &Recipe, work: &Path, tick: &mut dyn FnMut(Duration)) -> Result<(), Error> {
    let source = work.join("source");
    write_source(recipe, &source)?;
    let log = work.join("log");
    let output = File::create(&log).map_err(Error::file("create", &log))?;
    let mut command = Command::new("go");
    command.arg("-C").arg(&source).arg("build").args(FLAGS).arg("-ldflags").arg(&recipe.linker_flags);
    command.arg("-o").arg(work.join("bin").join(recipe.program.executable())).arg(recipe.package);
    command.envs(ENVIRONMENT).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let failed = |reason: String| Error::Build { program: recipe.program.to_string(), reason, tail: tail(&log, 20) };
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait()));
    let started = Instant::now();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => return Err(failed(format!("go build ended with {status}"))),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => tick(started.elapsed()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                return Err(failed("the thread that waits for go build has ended".into()));
            }
        }
    }
}

/// Writes the recipe's `go.mod`, `go.sum` and own source file into the folder `source`.
fn write_source(recipe: &Recipe, source: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(source).map_err(Error::file("create", source))?;
    let own = recipe.source.map(|source| (source.file, source.text));
    for (file, contents) in [("go.mod", recipe.go_mod), ("go.sum", recipe.go_sum)].into_iter().chain(own) {
        let path = source.join(file);
        std::fs::write(&path, contents).map_err(Error::file("write", &path))?;
    }
    Ok(())
}

/// Returns the folder of the recipe's module in Go's module cache. Downloads the module if it is missing.
pub(super) fn module(recipe: &Recipe) -> Result<PathBuf, Error> {
    let work = tempfile::tempdir().map_err(Error::file("create", &std::env::temp_dir()))?;
    write_source(recipe, work.path())?;
    let mut command = Command::new("go");
    command.arg("-C").arg(work.path()).args(["mod", "download", "-json", recipe.module]).envs(ENVIRONMENT);
    let failed = |reason: String, tail: String| Error::Build { program: recipe.program.to_string(), reason, tail };
    let output = command.output().map_err(|error| failed(error.to_string(), String::new()))?;
    // If a download fails, Go prints the reason into the field `Error` of the result.
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let folder = result["Dir"].as_str().filter(|_| output.status.success()).map(PathBuf::from);
    let printed = || [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    folder.ok_or_else(|| failed(format!("go mod download ended with {}", output.status), printed()))
}

/// Returns the path of the folder `programs` in the cache, which contains one folder for each built program.
pub(super) fn cache() -> Result<PathBuf, Error> {
    Ok(root()?.join("programs"))
}

/// Returns the path of the cache (see the documentation of [`super`]).
pub(crate) fn root() -> Result<PathBuf, Error> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("OSDPL_CACHE").or_else(|| Some(set("XDG_CACHE_HOME")?.join("osdpl")));
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".cache/osdpl")));
    let path = folder.unwrap_or_else(|| std::env::temp_dir().join("osdpl"));
    std::path::absolute(&path).map_err(Error::file("resolve", &path))
}

/// Returns the name of a program's folder in the cache, such as `kubectl-1.36.3-0123456789abcdef`. The name ends with
/// a digest of all inputs of the build.
fn folder_name(recipe: &Recipe, go: &Go) -> String {
    let platform = [std::env::consts::OS, std::env::consts::ARCH];
    let environment = ENVIRONMENT.iter().flat_map(|(name, value)| [*name, *value]);
    let parts = [recipe.go_mod, recipe.go_sum, recipe.package, &recipe.linker_flags, &go.version];
    let own = recipe.source.map(|source| source.text);
    let key = crate::digest::short(parts.into_iter().chain(FLAGS).chain(environment).chain(platform).chain(own));
    format!("{}-{}-{key}", recipe.program.executable(), recipe.version)
}

/// Locks a file until the returned value is dropped. If another process holds the lock, calls `waiting` and then waits.
pub(crate) fn lock(path: &Path, waiting: impl FnOnce()) -> Result<File, Error> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::file("create", path))?;
    if file.try_lock().is_err() {
        waiting();
        file.lock().map_err(Error::file("lock", path))?;
    }
    Ok(file)
}

/// Removes the folders of interrupted builds, whose names begin with `prefix`. The caller holds the lock of the build,
/// so no other process uses these folders.
pub(crate) fn remove_leftovers(cache: &Path, prefix: &str) {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        // Ignore an error: a folder that cannot be removed only uses disk space.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_go_versions_numerically() {
        let go = |version: &str| Go { version: version.into() };
        assert!(go("go1.26.8").is_at_least("1.26.0"));
        assert!(go("go1.100.0").is_at_least("1.26.0"));
        assert!(go("go1.27rc1").is_at_least("1.26.0"));
        assert!(!go("go1.9.7").is_at_least("1.26.0"));
    }

    #[test]
    fn cache_folder_depends_on_go_and_program() {
        let name = |program, go: &str| folder_name(&Recipe::of(program), &Go { version: go.into() });
        assert_ne!(name(Program::Kwok, "go1.26.8"), name(Program::Kwok, "go1.26.9"));
        assert_ne!(name(Program::Helm3, "go1.26.8"), name(Program::Helm4, "go1.26.8"));
    }

    #[test]
    fn formats_progress() {
        let progress = Progress::Still { program: Program::KubeApiserver, elapsed: Duration::from_millis(30_400) };
        assert_eq!(progress.to_string(), "  … kube-apiserver, 30 s");
    }
}
