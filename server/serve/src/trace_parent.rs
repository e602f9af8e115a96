//! The header `traceparent` of W3C Trace Context: the span of the caller that a request is a part of.

use axum::http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Characters of the fields that all versions have: version, trace id, span id and flags, with hyphens between.
const LENGTH: usize = 55;

/// The span of the caller that a request is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace, not all zero.
    pub trace_id: [u8; 16],
    /// Id of the caller's span, not all zero.
    pub span_id: [u8; 8],
    /// `true` if the caller records its part of the trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Returns the parent that a request's headers name. A header that is malformed or sent twice is as none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut sent = headers.get_all(TRACEPARENT).iter();
        match (sent.next(), sent.next()) {
            (Some(value), None) => Self::parse(value.as_bytes()),
            _ => None,
        }
    }

    /// Reads `00-<trace id>-<span id>-<flags>`, in lowercase hexadecimal digits. A later version may have more fields.
    fn parse(value: &[u8]) -> Option<Self> {
        let (known, more) = value.split_at_checked(LENGTH)?;
        let hyphens = [known[2], known[35], known[52]];
        let [version] = bytes(&known[..2])?;
        let is_known_form = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.first().is_none_or(|&next| next == b'-'),
        };
        let (trace_id, span_id) = (bytes(&known[3..35])?, bytes(&known[36..52])?);
        let [flags] = bytes(&known[53..])?;
        let is_valid = is_known_form && hyphens == *b"---" && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

/// Returns the bytes that these lowercase hexadecimal digits stand for, `N` of them.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(values: &[String]) -> Option<TraceParent> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).unwrap());
        }
        TraceParent::of(&headers)
    }

    #[test]
    fn a_parent_is_read_as_the_specification_writes_it() {
        let trace_id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes();
        let span_id = 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes();
        let sampled = TraceParent { trace_id, span_id, sampled: true };
        assert_eq!(of(&[format!("00-{TRACE}-{SPAN}-01")]), Some(sampled));
        assert_eq!(of(&[format!("00-{TRACE}-{SPAN}-03")]), Some(sampled));
        assert_eq!(of(&[format!("00-{TRACE}-{SPAN}-00")]), Some(TraceParent { sampled: false, ..sampled }));
        assert_eq!(of(&[format!("01-{TRACE}-{SPAN}-01")]), Some(sampled));
        assert_eq!(of(&[format!("cc-{TRACE}-{SPAN}-01-what the future will be like")]), Some(sampled));
    }

    #[test]
    fn a_malformed_parent_is_as_none() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let malformed = [
            String::new(),
            "00".into(),
            good[..54].to_owned(),
            format!("{good}-more"),
            format!("{good} "),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0x-{TRACE}-{SPAN}-01"),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}_01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "g".repeat(32)),
            format!("00-{TRACE}-{SPAN}-0g"),
            "é".repeat(40),
        ];
        for value in malformed {
            assert_eq!(of(std::slice::from_ref(&value)), None, "{value}");
        }
        assert_eq!(of(&[good.clone(), good]), None, "sent twice");
        assert_eq!(of(&[]), None);
    }
}
