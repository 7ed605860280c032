//! A fake helm for unit tests, which runs a script that the test provides.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

use super::{Config, Instance, Program, Runner};

/// Returns the path of the fake helm.
///
/// The fake helm is a file of the source tree, because a test can't safely execute a file that it has just written:
/// another thread may have forked a process while the file was open, and the forked process inherits the open file.
/// Linux refuses to execute a file that any process has open for writing.
pub(super) fn helm() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/fake/helm.sh")
}

/// Returns the path of the script that the tests run instead of `osdpl exec-helm`.
pub(super) fn wrapper() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/fake/wrapper.sh")
}

/// The home folder of fake helm processes, and the pipes between these processes and the test.
pub(crate) struct FakeHelm {
    pub(super) home: TempDir,
    messages: Lines<BufReader<Receiver>>,
    go: Sender,
}

impl FakeHelm {
    /// Creates a fake helm that runs `script`. The fake helm answers `helm version` with 4.3.1, without running the
    /// script.
    #[allow(clippy::disallowed_methods, reason = "safe Rust has no mkfifo")]
    pub(crate) fn with_script(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let script = format!("if [ \"$1\" = version ]; then echo v4.3.1; exit; fi\n{script}\n");
        fs::write(home.path().join("script"), script).unwrap();
        let pipe = |name: &str| {
            let path = home.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        pipe("never");
        let options = || OpenOptions::new().read_write(true).clone();
        let messages = options().open_receiver(pipe("messages")).unwrap();
        let go = options().open_sender(pipe("go")).unwrap();
        Self { messages: BufReader::new(messages).lines(), go, home }
    }

    pub(crate) async fn program(&self) -> Program {
        Program::find(Some(helm()), self.home.path().to_owned()).await.unwrap()
    }

    /// Returns a runner that starts this fake helm.
    pub(crate) async fn runner(&self, config: Config) -> Runner {
        Runner::new(self.program().await, config, Instance::of_this_process(None).unwrap()).unwrap()
    }

    /// Waits for the next message that the script of a fake helm process sends with `report`.
    pub(super) async fn receive(&mut self) -> String {
        self.messages.next_line().await.unwrap().unwrap()
    }

    /// Ends the wait of one fake helm process in the shell function `wait_for_go`.
    pub(super) async fn go(&mut self) {
        self.go.write_all(b"\n").await.unwrap();
    }

    /// Returns the content of the file `name` that a fake helm process wrote to its home folder.
    pub(super) fn read_file(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap()
    }
}
