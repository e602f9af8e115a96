//! Tests of the counters that operators are told of, held against those that the server has.

use std::collections::BTreeSet;
use std::path::Path;

use super::keys::KeyBox;
use super::*;
use crate::refusals::Refused;
use crate::{Access, Hosts, Scope, metrics_app};

/// Returns a file of the repository, by its path from the root.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs_err::read_to_string(root.join(path)).unwrap()
}

#[tokio::test]
async fn every_counter_is_in_the_guide_for_operators_and_the_guide_names_no_others() {
    let state = AppState::new(Options::default());
    // Counters with labels are written once something was counted.
    state.metrics().refusals().refused(Refused::Connections);
    let app = app(state);
    get(&app, "/healthz").await;
    let text = get(&app, "/metrics").await.text();
    let exported: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
        .collect();
    assert!(exported.len() > 15, "{exported:?}");

    let guide = file("docs/guide/operations.md");
    let rows = guide.lines().filter(|line| line.starts_with("| `dpr_"));
    // Names are in backticks in the first column.
    let named: Vec<&str> = rows
        .flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`'))
        .filter(|part| part.starts_with("dpr_"))
        .collect();
    let unsaid: Vec<_> = exported.iter().filter(|name| !named.contains(&name.as_str())).collect();
    assert!(unsaid.is_empty(), "docs/guide/operations.md does not name {unsaid:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !exported.iter().any(|known| known == *name)).collect();
    assert!(unknown.is_empty(), "docs/guide/operations.md names {unknown:?}, which the server does not have");
}

/// Returns the part of a text after `start` and before the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let after = text.split_once(start).unwrap_or_else(|| panic!("no {start:?} in {text}")).1;
    after.split_once(end).unwrap_or_else(|| panic!("no {end:?} after {start:?}")).0
}

#[tokio::test]
async fn prometheus_gets_the_counters_as_the_guide_for_operators_sets_it_up() {
    let guide = file("docs/guide/operations.md");
    let sample = between(&guide, "scrape_configs:\n", "```");
    // The address that the sample scrapes, and the key that it sends.
    let target = between(sample, "- targets: [\"", "\"]");
    assert!(sample.contains("    authorization:\n      credentials_file: "), "{sample}");
    let command = guide.lines().find(|line| line.contains("--metrics-listen 0.0.0.0:")).unwrap();
    let listen = between(command, "--metrics-listen ", " ");
    let name = command.split_once("--allow-host ").unwrap().1;
    assert_eq!(target.split_once(':').unwrap().1, listen.split_once(':').unwrap().1, "the ports");
    assert!(guide.contains("dpr keys new --name prometheus --scope admin\n"));

    let keys = KeyBox::new();
    let served = |names: &[String], access: Access| {
        let metrics_hosts = Some(Hosts::new(listen.parse().unwrap(), names).unwrap());
        metrics_app(AppState::new(Options {
            metrics_apart: true,
            metrics_hosts,
            access,
            ..Options::default()
        }))
    };
    let scrape = async |app: &Router, scope: Scope| {
        let key = format!("Bearer {}", keys.of(scope));
        get_with(app, "/metrics", &[("host", target), ("authorization", key.as_str())]).await
    };
    let app = served(&[name.to_owned()], keys.access(false));
    let reply = scrape(&app, Scope::Admin).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(scrape(&app, Scope::Search).await.error(), (403, "missing_scope".into()));
    let unnamed = served(&[], keys.access(false));
    assert_eq!(scrape(&unnamed, Scope::Admin).await.error(), (421, "unknown_host".into()));
}

#[test]
fn the_dashboard_divides_refused_searches_by_the_requests_to_all_routes_that_refuse_them() {
    let dashboard: Value = serde_json::from_str(&file("server/deploy/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .filter_map(|target| target["expr"].as_str());
    let share: Vec<&str> = expressions.filter(|text| text.contains("dpr_search_rejected_total")).collect();
    assert_eq!(share.len(), 1, "{share:?}");
    let asked: BTreeSet<&str> = between(share[0], "route=~\"", "\"").split('|').collect();

    let document: Value = serde_json::from_str(&crate::openapi_document()).unwrap();
    // Updates wait in queues of their own.
    let refuses = |operation: &Value| {
        let full = operation["responses"]["429"]["description"].as_str();
        full.is_some_and(|text| text.contains("`overloaded`")) && operation["tags"] == json!(["search"])
    };
    let routes = document["paths"].as_object().unwrap().iter();
    let refusing = routes.filter(|(_, methods)| methods.as_object().unwrap().values().any(refuses));
    let refusing: Vec<String> = refusing.map(|(path, _)| path.replace("{version}", ".*")).collect();
    let refusing: BTreeSet<&str> = refusing.iter().map(String::as_str).collect();
    assert_eq!(asked, refusing);
}
