//! The address of a client behind proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue};

/// Header to which every proxy appends the address that it was called from.
pub(crate) const FORWARDED: &str = "x-forwarded-for";

/// Returns the address of a request's sender: `peer`, or what the farthest of `proxies` trusted proxies was called
/// from.
///
/// The header is read from its end, since what comes before the entries of trusted proxies may be written by anybody.
/// Where it does not hold so many addresses the request did not come through these proxies, and `peer` counts.
pub(crate) fn client_address(peer: Option<IpAddr>, headers: &HeaderMap, proxies: usize) -> Option<IpAddr> {
    if proxies == 0 {
        return peer;
    }
    // As bytes: an entry that is not text still counts as an entry.
    let values: Vec<&[u8]> = headers.get_all(FORWARDED).iter().map(HeaderValue::as_bytes).collect();
    let mut entries = values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
    let entry = entries.nth(proxies - 1).and_then(|entry| std::str::from_utf8(entry).ok());
    entry.and_then(|entry| address(entry.trim())).or(peer)
}

/// Reads an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_trusted_proxies_wrote_counts() {
        let peer = "10.0.0.1".parse().ok();
        let of = |values: &[&'static str], proxies| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FORWARDED, value.parse().unwrap());
            }
            client_address(peer, &headers, proxies).unwrap().to_string()
        };
        let cases: &[(&[&str], usize, &str)] = &[
            (&["1.1.1.1, 2.2.2.2"], 0, "10.0.0.1"),
            (&["1.1.1.1, 2.2.2.2"], 1, "2.2.2.2"),
            (&["1.1.1.1,2.2.2.2"], 2, "1.1.1.1"),
            (&["1.1.1.1", "2.2.2.2"], 1, "2.2.2.2"),
            (&["1.1.1.1, 2.2.2.2"], 3, "10.0.0.1"),
            (&[], 1, "10.0.0.1"),
            (&["unknown"], 1, "10.0.0.1"),
            (&["2.2.2.2:4711"], 1, "2.2.2.2"),
            (&["[2001:db8::1]:4711"], 1, "2001:db8::1"),
            (&["[2001:db8::1]"], 1, "2001:db8::1"),
            (&["2001:db8::1"], 1, "2001:db8::1"),
        ];
        for (values, proxies, expected) in cases {
            assert_eq!(of(values, *proxies), *expected, "{values:?} {proxies}");
        }
    }

    #[test]
    fn entries_that_are_no_text_are_counted_and_name_no_address() {
        let mut headers = HeaderMap::new();
        for value in [b"6.6.6.6".as_slice(), b"\xff, 2.2.2.2"] {
            headers.append(FORWARDED, HeaderValue::from_bytes(value).unwrap());
        }
        let of = |proxies| client_address("10.0.0.1".parse().ok(), &headers, proxies).unwrap().to_string();
        assert_eq!([1, 2, 3].map(of), ["2.2.2.2", "10.0.0.1", "6.6.6.6"]);
    }
}
