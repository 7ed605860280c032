//! Keeps the beginning and the end of a helm process's stderr, and drops the middle if stderr is long.
//!
//! The end contains the reason of a failure. The beginning may contain the name of the object that caused the failure:
//! this name is at the start of the error line, which may be many kilobytes long.

use std::collections::VecDeque;

use osdpl_core::scrub::Scrubber;

/// The number of bytes that osdpl keeps from the beginning of stderr.
const BEGINNING: usize = 4 * 1024;

/// The number of bytes that osdpl keeps from the end of stderr.
///
/// This number is enough for an error about two Jobs that the API server refused. Such an error is long, because helm 3
/// writes the pod templates of both Jobs on one line.
const END: usize = 60 * 1024;

/// The text that replaces the dropped middle of stderr.
const GAP: &str = " … ";

/// The beginning and the end of a process's stderr.
#[derive(Default)]
pub(super) struct Tail {
    beginning: Vec<u8>,
    end: VecDeque<u8>,
    dropped: bool,
}

impl Tail {
    /// Appends the next bytes of stderr.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let free = BEGINNING - self.beginning.len();
        let (first, rest) = bytes.split_at(free.min(bytes.len()));
        self.beginning.extend_from_slice(first);
        self.end.extend(rest);
        let excess = self.end.len().saturating_sub(END);
        self.dropped |= excess > 0;
        self.end.drain(..excess);
    }

    /// Returns the beginning and the end of stderr, without secrets. If a secret is cut because a part of it is in the
    /// dropped middle, the function also removes the remaining part.
    pub(super) fn text(&self, scrubber: &Scrubber) -> String {
        let end: Vec<u8> = self.end.iter().copied().collect();
        if self.dropped {
            let beginning = scrubber.scrub_beginning(&String::from_utf8_lossy(&self.beginning));
            let end = scrubber.scrub_end(&String::from_utf8_lossy(&end));
            return [&beginning, GAP, &end].concat();
        }
        scrubber.scrub(&String::from_utf8_lossy(&[&self.beginning[..], &end].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(chunks: &[&[u8]]) -> Tail {
        let mut tail = Tail::default();
        for chunk in chunks {
            tail.push(chunk);
        }
        tail
    }

    #[test]
    fn keeps_a_short_stream_whole() {
        let text = "ä".repeat(BEGINNING);
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
        assert_eq!(tail(&chunks).text(&Scrubber::default()), text);
    }

    #[test]
    fn bounds_a_long_stream() {
        let stream = ["Error: the object".as_bytes(), &b" x".repeat(1_000_000), b"the reason"].concat();
        let tail = tail(&[&stream]);
        let text = tail.text(&Scrubber::default());
        assert!(text.starts_with("Error: the object") && text.ends_with("the reason"));
        assert!(text.len() <= BEGINNING + END + GAP.len());
    }

    #[test]
    fn a_cut_stream_shows_no_part_of_a_secret() {
        let scrubber = Scrubber::new(["correct-horse-battery-staple"]);
        for shift in 0..40 {
            let mut stream = vec![b'.'; BEGINNING - 20];
            stream.extend(vec![b'.'; shift]);
            stream.extend_from_slice(b"correct-horse-battery-staple");
            stream.extend(vec![b'.'; END]);
            stream.extend_from_slice(b"correct-horse-battery-staple");
            stream.extend(vec![b'.'; END - 40 + shift]);
            let text = tail(&[&stream]).text(&scrubber);
            for half in ["corr", "rse-bat", "aple"] {
                assert!(!text.contains(half), "shift {shift} leaves {half}");
            }
        }
    }
}
