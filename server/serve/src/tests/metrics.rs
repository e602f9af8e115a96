//! Tests of the counters that operators are told of, held against those that the server has.

use std::path::Path;

use super::*;
use crate::refusals::Refused;

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

    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/operations.md");
    let guide = fs_err::read_to_string(guide).unwrap();
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
