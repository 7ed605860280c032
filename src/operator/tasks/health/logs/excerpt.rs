//! Finds the part of a log that explains a failure: Python's exception if the log ends with one, otherwise the last
//! lines.
//!
//! The last lines of a traceback often do not explain the failure, because they only mark the failed code with `^^^^`.
//! In a chain of exceptions, the first exception is the cause of the others:
//! <https://docs.python.org/3/library/traceback.html>.

/// The maximum number of lines at the end of a log that osdpl shows. If an exception ends within these lines, osdpl
/// shows the exception instead.
pub(super) const LINES: usize = 5;

/// The line with which Python begins the traceback of an exception.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// The lines that Python writes between two exceptions of a chain.
const CHAIN: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

/// The part of a log that explains a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Excerpt {
    /// The first and the last exception of the last chain of exceptions in the log. If this chain has only one
    /// exception, the list contains only this exception.
    Exceptions(Vec<String>),
    /// The last lines of the log, if it does not end with an exception.
    Lines(Vec<String>),
}

/// Returns the part of a log that explains a failure.
///
/// The function ignores lines with debug messages of OpenStack services, because they do not explain a failure.
pub(super) fn excerpt(text: &str) -> Excerpt {
    let lines: Vec<&str> = text.lines().filter(|line| is_relevant(line)).collect();
    if let Some(exceptions) = last_exceptions(&lines) {
        return Excerpt::Exceptions(exceptions);
    }
    let start = lines.len().saturating_sub(LINES);
    Excerpt::Lines(lines[start..].iter().map(|line| line.trim().to_owned()).collect())
}

/// Whether the line has text, and is not a debug message in the format of oslo.log: `date time process LEVEL …`.
fn is_relevant(line: &str) -> bool {
    let is_debug = || {
        let mut words = line.split_ascii_whitespace().skip(2);
        words.next().is_some_and(|process| process.parse::<u32>().is_ok()) && words.next() == Some("DEBUG")
    };
    !line.trim().is_empty() && !is_debug()
}

/// Returns the first and the last exception of the last chain of exceptions in a log. Returns `None` if the log has no
/// exception, or if [`LINES`] or more lines follow the chain: the log then does not end with the chain.
///
/// A program raises `SystemExit` to exit. So this exception does not explain a failure, and belongs to the chain that
/// ends shortly before it.
fn last_exceptions(lines: &[&str]) -> Option<Vec<String>> {
    let mut chain: Vec<&str> = Vec::new();
    let (mut begin, mut end) = (0, 0);
    let (mut is_chained, mut is_new) = (false, false);
    // oslo.log writes the same prefix before each line of a traceback.
    let mut prefix = None;
    for (index, line) in lines.iter().enumerate() {
        if let Some((before, _)) = line.split_once(TRACEBACK) {
            is_new = !std::mem::take(&mut is_chained);
            (prefix, begin) = (Some(before.len()), index);
        } else if CHAIN.iter().any(|text| line.ends_with(text)) {
            is_chained = true;
        } else if let Some(rest) = prefix.and_then(|length| line.get(length..))
            && !rest.starts_with([' ', '\t'])
        {
            prefix = None;
            if rest.starts_with("SystemExit") {
                end = if begin <= end + LINES { index } else { end };
                continue;
            }
            if is_new {
                chain.clear();
            }
            chain.push(rest.trim_end());
            end = index;
        }
    }
    let (first, last) = (chain.first()?, chain.last()?);
    let mut exceptions = vec![(*first).to_owned()];
    if chain.len() > 1 && last != first {
        exceptions.push((*last).to_owned());
    }
    (end + LINES >= lines.len()).then_some(exceptions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceptions(text: &str) -> Vec<String> {
        match excerpt(text) {
            Excerpt::Exceptions(exceptions) => exceptions,
            Excerpt::Lines(lines) => panic!("{lines:?}"),
        }
    }

    fn lines(text: &str) -> Vec<String> {
        match excerpt(text) {
            Excerpt::Lines(lines) => lines,
            Excerpt::Exceptions(exceptions) => panic!("{exceptions:?}"),
        }
    }

    #[test]
    fn a_chain_of_exceptions_begins_with_its_cause() {
        let log = "\
starting
Traceback (most recent call last):
  File \"/a.py\", line 3, in connect
    raise ConnectionRefusedError(111)
ConnectionRefusedError: [Errno 111] ECONNREFUSED

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File \"/b.py\", line 9, in start
    self.connect()
    ~~~~~~~~~~~~^^
oslo_db.exception.DBConnectionError: can't connect
  details of the error
";
        assert_eq!(
            exceptions(log),
            ["ConnectionRefusedError: [Errno 111] ECONNREFUSED", "oslo_db.exception.DBConnectionError: can't connect"]
        );
    }

    #[test]
    fn an_exception_that_oslo_logs_has_a_prefix_in_each_line() {
        let begin = "2026-08-01 10:00:00.123 7 ERROR nova ";
        let log = format!(
            "2026-08-01 10:00:00.122 7 CRITICAL nova [-] Unhandled error\n{begin}Traceback (most recent call last):\n\
             {begin}  File \"/manager.py\", line 1, in init_host\n{begin}    raise exception\n{begin}    ^^^^^\n\
             {begin}nova.exception.InvalidConfiguration: My hypervisor has existing instances\n{begin}\n"
        );
        assert_eq!(exceptions(&log), ["nova.exception.InvalidConfiguration: My hypervisor has existing instances"]);
    }

    #[test]
    fn an_earlier_exception_is_no_explanation() {
        let log = "Traceback (most recent call last):\n  File \"/a.py\"\nOSError: retried\n1\n2\n3\n4\nno space left\n";
        assert_eq!(lines(log), ["1", "2", "3", "4", "no space left"]);
        let other =
            "Traceback (most recent call last):\n  x\nOSError: a\nTraceback (most recent call last):\n  x\nKeyError: b";
        assert_eq!(exceptions(other), ["KeyError: b"]);
    }

    #[test]
    fn the_exit_of_a_program_is_no_explanation() {
        let cause = "Traceback (most recent call last):\n  x\nException: the upgrade failed\n";
        let exit = "Traceback (most recent call last):\n  sys.exit(0)\nSystemExit: 0\n";
        assert_eq!(exceptions(&format!("{cause}stopping\n{exit}")), ["Exception: the upgrade failed"]);
        let handled = "During handling of the above exception, another exception occurred:\n";
        assert_eq!(exceptions(&format!("{cause}{handled}{exit}")), ["Exception: the upgrade failed"]);
        let shown = lines(&format!("{cause}1\n2\n3\n4\n5\n6\n{exit}"));
        assert_eq!(shown, ["5", "6", TRACEBACK, "sys.exit(0)", "SystemExit: 0"]);
    }

    #[test]
    fn a_cut_traceback_shows_its_last_lines() {
        assert_eq!(lines("Traceback (most recent call last):\n  File \"/a.py\""), [TRACEBACK, "File \"/a.py\""]);
    }

    #[test]
    fn ignores_debug_messages() {
        let log = "no route\n\n2026-08-01 10:00:00.1 7 DEBUG oslo a\n2026 DEBUG b\n";
        assert_eq!(lines(log), ["no route", "2026 DEBUG b"]);
    }
}
