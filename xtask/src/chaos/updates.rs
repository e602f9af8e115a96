//! Updates that must be encoded beside one that need not.

use std::time::Duration;

use serde_json::json;

use super::{Report, folder, index_copy};
use crate::failure::{Failure, Outcome};
use crate::paths::DEMO_MODEL;
use crate::server::Server;

/// Updates that encode at once.
const UPDATES: usize = 16;
/// Passages of each.
const PASSAGES: usize = 500;

pub(super) fn run(report: &mut Report) -> Outcome {
    let folder = folder("updates")?;
    let index = index_copy(&folder)?;
    let server = Server::start(&["--model", DEMO_MODEL, "--index", &index, "--allow-updates"], &[])?;
    let model = server.json("/v1/model")?;
    let one = json!({"id": "gone", "title": "", "text": "to be deleted", "vector": vec![0.036; 768]});
    let body = json!({"model": model["fingerprint"], "passages": [one]}).to_string();
    if server.ask("POST", "/v1/passages", &[], body.as_bytes())?.status != 200 {
        return Err(Failure::new("an update with a vector is refused"));
    }
    let text = "the quick brown fox jumps over the lazy dog ".repeat(20);
    let (server, text, fingerprint) = (&server, &text, &model["fingerprint"]);
    let deleted = std::thread::scope(|scope| {
        for update in 0..UPDATES {
            scope.spawn(move || {
                let passages: Vec<_> = (0..PASSAGES)
                    .map(|n| json!({"id": format!("s{update}-{n}"), "title": "", "text": text}))
                    .collect();
                let body = json!({"model": fingerprint, "passages": passages}).to_string();
                // A client that gives up: the server need not encode for it.
                let _ = server.leave("POST", "/v1/passages", body.as_bytes(), Duration::from_secs(15));
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        server.ask("DELETE", "/v1/passages", &[], br#"{"ids":["gone"]}"#)
    })?;
    report.line(
        &format!("a delete beside {UPDATES} updates of {PASSAGES} texts: status"),
        &deleted.status.to_string(),
        "200",
        deleted.status == 200,
    );
    report.line(
        "answered after",
        &format!("{:.0} ms", deleted.took.as_secs_f64() * 1e3),
        "less than 1 s",
        deleted.took < Duration::from_secs(1),
    );
    let bad = vec![json!({"id": "x", "title": "", "text": "y"}); 10_001];
    let body = json!({"model": fingerprint, "passages": bad}).to_string();
    let answer = server.ask("POST", "/v1/passages", &[], body.as_bytes())?;
    let status = answer.status;
    report.line(
        "10,001 passages in one update",
        &status.to_string(),
        "413 or 422",
        matches!(status, 413 | 422),
    );
    Ok(())
}
