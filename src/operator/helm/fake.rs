//! A helm that does what a test says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

use super::Program;

/// The fake program. It lies in the source tree and is never written by a test: a file that some other thread's fork still
/// holds open for writing cannot be executed.
pub(super) fn helm() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/fake/helm.sh")
}

/// The fake `exec-helm`.
pub(super) fn wrapper() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/fake/wrapper.sh")
}

/// Where children play, and how the test speaks with them.
pub(super) struct Stage {
    pub(super) home: TempDir,
    said: Lines<BufReader<Receiver>>,
    go: Sender,
}

impl Stage {
    /// A stage for this play; `helm version` answers 4.3.1 by itself.
    #[allow(clippy::disallowed_methods, reason = "mkfifo is no system call that safe Rust has")]
    pub(super) fn of(play: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let play = format!("if [ \"$1\" = version ]; then echo v4.3.1; exit; fi\n{play}\n");
        fs::write(home.path().join("play"), play).unwrap();
        let pipe = |name: &str| {
            let path = home.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        pipe("never");
        let options = || OpenOptions::new().read_write(true).clone();
        let said = options().open_receiver(pipe("said")).unwrap();
        let go = options().open_sender(pipe("go")).unwrap();
        Self { said: BufReader::new(said).lines(), go, home }
    }

    pub(super) async fn program(&self) -> Program {
        Program::find(Some(helm()), self.home.path().to_owned()).await.unwrap()
    }

    /// The next thing that a child says.
    pub(super) async fn hear(&mut self) -> String {
        self.said.next_line().await.unwrap().unwrap()
    }

    /// Lets one child go on.
    pub(super) async fn go(&mut self) {
        self.go.write_all(b"\n").await.unwrap();
    }

    /// What a child left in a file.
    pub(super) fn left(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap()
    }
}
