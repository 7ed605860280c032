//! Runs programs that read their standard input.

use std::io::{Seek, Write};
use std::process::{Command, Output};

/// Runs a program with `input` as its standard input, waits until it exits, and returns its exit status and output.
///
/// The program reads the input from a temporary file instead of a pipe. The write to a pipe would fail if the program
/// exits without reading its input.
///
/// # Errors
///
/// Returns an error if the temporary file can't be written, or the program can't be started.
pub fn output_with_input(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    command.stdin(file).output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_reads_its_input() {
        let output = output_with_input(&mut Command::new("cat"), "text").unwrap();
        assert_eq!(output.stdout, b"text");
    }

    #[test]
    fn program_may_leave_its_input_unread() {
        let input = "a line that is not read\n".repeat(100_000);
        assert!(output_with_input(&mut Command::new("true"), &input).unwrap().status.success());
    }
}
