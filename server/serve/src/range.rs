//! The `Range` header (RFC 9110 §14): one range of bytes, for downloads that resume.

use std::ops::Range;

/// The part of a file that a `Range` header asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The whole file: no range, one that is not understood, or several (a server may answer those in full).
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes beyond the end: 416.
    Nothing,
}

/// Reads `bytes=a-b`, `bytes=a-` or `bytes=-n` for a file of `len` bytes.
pub(super) fn parse(header: &str, len: u64) -> Wanted {
    let Some((unit, spec)) = header.split_once('=') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") || spec.contains(',') {
        return Wanted::Whole;
    }
    let Some((first, last)) = spec.trim().split_once('-') else { return Wanted::Whole };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            if last.is_some_and(|last| last < first) {
                return Wanted::Whole;
            }
            if first >= len {
                return Wanted::Nothing;
            }
            let end = last.map_or(len, |last| last.saturating_add(1).min(len));
            Wanted::Part(first..end)
        }
        (Some(None), Some(Some(count))) => {
            if count == 0 || len == 0 {
                return Wanted::Nothing;
            }
            Wanted::Part(len.saturating_sub(count)..len)
        }
        _ => Wanted::Whole,
    }
}

/// `Some(None)` for nothing at all, `None` for what is not a number.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More digits than u64 holds is beyond the end of any file.
    Some(Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_ten_byte_file() {
        let cases = [
            ("bytes=0-3", Wanted::Part(0..4)),
            ("bytes=4-", Wanted::Part(4..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-99", Wanted::Part(0..10)),
            ("bytes=9-99999999999999999999999", Wanted::Part(9..10)),
            ("Bytes=5-5", Wanted::Part(5..6)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=3-1", Wanted::Whole),
            ("bytes=0-1,4-5", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("bytes", Wanted::Whole),
        ];
        for (header, wanted) in cases {
            assert_eq!(parse(header, 10), wanted, "{header}");
        }
        assert_eq!(parse("bytes=0-", 0), Wanted::Nothing);
    }
}
