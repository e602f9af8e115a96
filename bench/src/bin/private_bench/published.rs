//! Published costs of searches, or of parts of one, whose question the server does not see, and plots of them beside
//! what was measured.
//!
//! The figures are those of the publications, on other machines, and were not measured here.

use std::error::Error;
use std::path::Path;

use dpr_eval::{Series, log_series_svg};
use serde_json::Value;

/// The cost of one question over so many passages.
struct Published {
    name: &'static str,
    passages: f64,
    /// Megabytes up and down.
    megabytes: f64,
    /// Milliseconds of one core of the server.
    server_ms: f64,
}

const PUBLISHED: [Published; 2] = [
    // Henzinger, Dauterman, Corrigan-Gibbs, Zeldovich, SOSP 2023: 360 million pages, 56.9 MiB, 145 core-seconds, on 45
    // servers; a question is ranked against one cluster of the pages.
    Published { name: "Tiptoe (published)", passages: 360e6, megabytes: 59.7, server_ms: 145_000.0 },
    // apple/swift-homomorphic-encryption, PNNSProcessDatabase: 4,096 rows of 128 numbers, 28.2 kB and 52.1 kB, 10.4 to
    // 12.5 ms, of which the middle is plotted; scores alone, without texts.
    Published {
        name: "Apple PNNS, scores alone (published)",
        passages: 4096.0,
        megabytes: 0.0803,
        server_ms: 11.4,
    },
];

/// Draws bytes and processor time of a question by the number of passages into `folder`: `traffic.svg` and
/// `server.svg`. `lines` is a file of what this program printed.
pub(super) fn plot(lines: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs_err::read_to_string(lines)?;
    let measured = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let number = |line: &Value, name: &str| {
        line[name].as_f64().ok_or_else(|| format!("{}: a line has no {name}", lines.display()))
    };
    let (mut traffic, mut server) = (Vec::new(), Vec::new());
    for line in &measured {
        let passages = number(line, "passages")?;
        traffic.push((passages, (number(line, "up_bytes")? + number(line, "down_bytes")?) / 1e6));
        server.push((passages, number(line, "server_rank_ms")? + number(line, "server_fetch_ms")?));
    }
    let drawn = |name: &str, unit: &str, points, published: fn(&Published) -> f64| {
        let mut series = vec![Series { name: "dpr, measured".to_owned(), points }];
        series.extend(PUBLISHED.iter().map(|other| Series {
            name: other.name.to_owned(),
            points: vec![(other.passages, published(other))],
        }));
        log_series_svg(name, "passages", unit, &series)
    };
    let traffic = drawn("Encrypted search: up and down", "MB a question", traffic, |other| other.megabytes)?;
    let server =
        drawn("Encrypted search: the server", "ms of one core a question", server, |other| other.server_ms)?;
    fs_err::write(folder.join("traffic.svg"), traffic)?;
    Ok(fs_err::write(folder.join("server.svg"), server)?)
}
