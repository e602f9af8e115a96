//! Hostile requests.

use std::fs;
use std::time::Duration;

use super::{Report, demo, folder, megabytes, search_body};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_INDEX, DEMO_MODEL};
use crate::server::Server;

/// Most that a refused body may add to the server's memory, in bytes.
const GROWTH: f64 = 64e6;

/// Bodies of two megabytes that parse into gigabytes where arrays are made before they are counted.
pub(super) fn bomb(report: &mut Report) -> Outcome {
    let server = demo(&[])?;
    let arrays = format!("{{\"vectors\":[{}]}}", vec!["[]"; (2_097_152 - 14) / 3].join(","));
    let objects = format!("{{\"k\":[{}]}}", vec!["{\"\":0}"; 290_000].join(","));
    for (name, body) in [("699,045 empty arrays", &arrays), ("290,000 objects as `k`", &objects)] {
        let (grown, answer) = server.growth(|| server.ask("POST", "/v1/search", &[], body.as_bytes()));
        let answer = answer?;
        report.line(
            &format!("{name}: status"),
            &answer.status.to_string(),
            "400 to 422",
            (400..=422).contains(&answer.status),
        );
        report.line(&format!("{name}: memory"), &megabytes(grown), "at most 64 MB", grown < GROWTH);
        let took = answer.took;
        report.line(
            &format!("{name}: answered after"),
            &format!("{:.1} ms", took.as_secs_f64() * 1e3),
            "at most 50 ms",
            took < Duration::from_millis(50),
        );
    }
    let (grown, ()) = server.growth(|| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| server.ask("POST", "/v1/search", &[], arrays.as_bytes()));
            }
        });
    });
    report.line("eight at once: memory", &megabytes(grown), "at most 64 MB", grown < GROWTH);
    Ok(())
}

/// Filters that would read every passage if they were answered by reading passages.
pub(super) fn filters(report: &mut Report) -> Outcome {
    let server = demo(&[])?;
    let time = |more: &str| -> Outcome<f64> {
        let body = search_body(&server, more)?;
        let mut times = Vec::new();
        for _ in 0..40 {
            let answer = server.ask("POST", "/v1/search", &[], body.as_bytes())?;
            if answer.status != 200 {
                return Err(Failure::new(format!("a search with {more} answers {}", answer.status)));
            }
            times.push(answer.took.as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    };
    let plain = time("")?;
    println!("a search without a filter: {plain:.2} ms, the middle of 40");
    let title = r#","filter":{"titles":["Super Bowl 50"]}"#;
    for (name, more, times) in
        [("an empty filter", ",\"filter\":{}", 2.0), ("a title that many passages have", title, 4.0)]
    {
        let took = time(more)?;
        report.line(
            name,
            &format!("{took:.2} ms"),
            &format!("at most {times} times as long"),
            took <= plain * times,
        );
    }
    Ok(())
}

/// Pages of other origins, and names that lead to this machine from elsewhere.
pub(super) fn pages(report: &mut Report) -> Outcome {
    let folder = folder("pages")?;
    let index = super::index_copy(&folder)?;
    let arguments = [
        "--model",
        DEMO_MODEL,
        "--index",
        &index,
        "--allow-updates",
        "--allow-origin",
        "https://page.example",
    ];
    let server = Server::start(&arguments, &[])?;
    let preflight = [
        "origin: https://page.example",
        "access-control-request-method: POST",
        "access-control-request-headers: content-type",
    ];
    let answer = server.ask("OPTIONS", "/v1/passages", &preflight, &[])?;
    let allowed = answer.text.to_ascii_lowercase().contains("access-control-allow");
    report.line(
        "preflight for an update",
        if allowed { "allowed" } else { "not allowed" },
        "not allowed",
        !allowed,
    );
    let body = search_body(&server, "")?;
    let rebound = ["host: rebound.example", "origin: http://rebound.example"];
    for (path, body) in [("/v1/search", body.as_str()), ("/v1/passages", "{}")] {
        let answer = server.ask("POST", path, &rebound, body.as_bytes())?;
        report.line(
            &format!("{path} under a foreign host name"),
            &answer.status.to_string(),
            "421",
            answer.status == 421,
        );
    }
    drop(server);
    let open = ["--model", DEMO_MODEL, "--index", DEMO_INDEX, "--allow-updates", "--listen", "0.0.0.0:0"];
    let begun = refuses(&open)?;
    report.line(
        "updates without a key beyond this machine",
        begun,
        "refused at the start",
        begun == "refused",
    );
    let begun = refuses(&["--model", DEMO_MODEL, "--index", DEMO_INDEX, "--listen", "0.0.0.0:0"])?;
    report.line(
        "searches without a key beyond this machine",
        begun,
        "refused at the start",
        begun == "refused",
    );
    Ok(())
}

/// Says whether a server does not start with these arguments.
fn refuses(arguments: &[&str]) -> Outcome<&'static str> {
    let mut command = crate::process::command(crate::paths::dpr(), &[&["serve"], arguments].concat());
    let limit = Duration::from_secs(10);
    // It either ends at once or serves until it is stopped.
    Ok(if crate::process::ends_within(&mut command, limit)? { "refused" } else { "served" })
}

/// Names of hidden files, written in every way that a server decodes.
pub(super) fn hidden(report: &mut Report) -> Outcome {
    let folder = folder("hidden")?;
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(|error| Failure::new(format!("{name}: {error}")))
    };
    fs::create_dir_all(folder.join(".git")).map_err(|error| Failure::new(error.to_string()))?;
    write("index.html", "<!doctype html>")?;
    write(".env", "SECRET=1")?;
    write(".git/config", "x")?;
    let web = folder.display().to_string();
    let server = Server::start(&["--model", DEMO_MODEL, "--index", DEMO_INDEX, "--web", &web], &[])?;
    for path in ["/.env", "/%2eenv", "/%2Egit/config", "/%2e%2e/etc/passwd", "/a/..%2f.env", "/.%00env"] {
        let status = server.ask("GET", path, &[], &[])?.status;
        report.line(path, &status.to_string(), "400 or 404", status == 404 || status == 400);
    }
    Ok(())
}
