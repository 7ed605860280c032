//! `osdpl completions`.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub struct Arguments {
    /// The shell to complete for.
    shell: Shell,
}

impl Arguments {
    pub fn run<Root: CommandFactory>(&self) -> ExitCode {
        clap_complete::generate(self.shell, &mut Root::command(), "osdpl", &mut std::io::stdout());
        ExitCode::SUCCESS
    }
}
