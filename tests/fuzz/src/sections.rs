//! Splits the input of a fuzz target into named parts, such as the files of a chart.
//!
//! A line `=== NAME` begins a part. So libFuzzer can change the names, the contents and the number of the parts by
//! changes of a few bytes.

/// The beginning of the line before a part.
const MARKER: &str = "=== ";

/// Returns the parts of an input, each with its name. Text before the first marker has no name.
pub fn parse(input: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut parts: Vec<(&[u8], &[u8])> = Vec::new();
    let (mut name, mut start, mut at): (&[u8], usize, usize) = (b"", 0, 0);
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        if let Some(next) = line.strip_prefix(MARKER.as_bytes()) {
            parts.push((name, &input[start..at]));
            (name, start) = (next.trim_ascii_end(), at + line.len());
        }
        at += line.len();
    }
    parts.push((name, &input[start..]));
    parts.retain(|(name, content)| !name.is_empty() || !content.is_empty());
    parts
}

/// Returns an input that consists of these parts. This is the opposite of [`parse`].
pub fn write<N: AsRef<str>, C: AsRef<[u8]>>(parts: impl IntoIterator<Item = (N, C)>) -> Vec<u8> {
    let mut input = Vec::new();
    for (name, content) in parts {
        input.extend_from_slice(format!("{MARKER}{}\n", name.as_ref()).as_bytes());
        input.extend_from_slice(content.as_ref());
        if !input.ends_with(b"\n") {
            input.push(b'\n');
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let input = write([("a", "1\n2"), ("b/c", "\n"), ("d", "3")]);
        assert_eq!(input, b"=== a\n1\n2\n=== b/c\n\n=== d\n3\n");
        assert_eq!(parse(&input), [(&b"a"[..], &b"1\n2\n"[..]), (b"b/c", b"\n"), (b"d", b"3\n")]);
        assert_eq!(parse(b"text"), [(&b""[..], &b"text"[..])]);
    }
}
