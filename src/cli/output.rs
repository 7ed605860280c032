//! Writes to standard output. If the reader closes the pipe (`osdpl render … | head`), the process exits without a
//! panic.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// The exit code if the reader closes the pipe. A shell reports the same code for a process that SIGPIPE has ended. The
/// code is not 0, because the output is incomplete.
const BROKEN_PIPE: i32 = 141;
/// The exit code if osdpl can't write to standard output. The code is not 1, because some commands exit with 1 if they
/// find differences or failed test cases.
const UNWRITABLE: i32 = 2;

/// Prints a string to standard output. If that fails, exits the process.
pub(crate) fn print(text: impl Display) {
    let mut output = std::io::stdout().lock();
    if let Err(error) = write!(output, "{text}").and_then(|()| output.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            std::process::exit(BROKEN_PIPE);
        }
        eprintln!("osdpl: standard output can't be written: {error}");
        std::process::exit(UNWRITABLE);
    }
}

/// An output format.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// Prints a string and a line break to standard output. If that fails, exits the process.
pub(crate) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}
