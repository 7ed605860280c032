//! A bounded memory of what a child wrote to stderr: its beginning and its end.
//!
//! The end says what went wrong, but helm puts an object's name at the start of a line that may go on for many kilobytes.

use std::collections::VecDeque;

use osdpl_core::scrub::Scrubber;

/// Bytes of the beginning that are kept.
const BEGINNING: usize = 4 * 1024;

/// Bytes of the end that are kept: two refused Jobs' pod templates, which helm 3 joins into one line, fit.
const END: usize = 60 * 1024;

/// What stands where bytes were dropped.
const GAP: &str = " … ";

/// The beginning and the end of a stream.
#[derive(Default)]
pub(super) struct Tail {
    beginning: Vec<u8>,
    end: VecDeque<u8>,
    dropped: bool,
}

impl Tail {
    /// Takes in more of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = BEGINNING - self.beginning.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.beginning.extend_from_slice(first);
        self.end.extend(rest);
        let excess = self.end.len().saturating_sub(END);
        self.dropped |= excess > 0;
        self.end.drain(..excess);
    }

    /// All that is left of the stream, without secrets, nor the halves of any that the bounds cut through.
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
    fn a_short_stream_is_kept_whole_however_it_was_cut() {
        let text = "ä".repeat(BEGINNING);
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
        assert_eq!(tail(&chunks).text(&Scrubber::default()), text);
    }

    #[test]
    fn a_long_stream_keeps_its_beginning_and_its_end_within_bounds() {
        let stream = ["Error: the object".as_bytes(), &b" x".repeat(1_000_000), b"the reason"].concat();
        let tail = tail(&[&stream]);
        let text = tail.text(&Scrubber::default());
        assert!(text.starts_with("Error: the object") && text.ends_with("the reason"));
        assert!(text.len() <= BEGINNING + END + GAP.len());
    }

    #[test]
    fn no_half_of_a_secret_survives_at_the_cut() {
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
