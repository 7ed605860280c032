//! Standard output. A reader that has read enough (`osdpl render … | head`) ends us, as it ends any other program, without a panic.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// What a shell reports of a program that SIGPIPE ended: a command that did not get to its end must not look as if it had.
const BROKEN_PIPE: i32 = 141;
/// Where nothing can be told: 1 would say something of the cloud, that it differs or that a case fails.
const UNWRITABLE: i32 = 2;

/// Prints a text, and ends the process where nobody can read it.
pub fn print(text: impl Display) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = write!(output, "{text}").and_then(|()| output.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(BROKEN_PIPE);
        }
        eprintln!("osdpl: standard output can't be written: {error}");
        std::process::exit(UNWRITABLE);
    }
}

/// How something is printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Prints a line.
pub fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}
