//! Names and values that look like SQL.

use dpr_data::{Metadata, Passage};
use dpr_index::search::{Filter, ServiceError};
use dpr_index::{ChangeError, NewPassage};
use dpr_postgres::{PostgresAddress, PostgresError};

use super::server::Server;
use super::{embedding, filled, set};

const MEAN: [&str; 5] = [
    "'; DROP TABLE victim; --",
    "\"; DROP TABLE victim; --",
    "$1 OR TRUE",
    "\\'; DROP TABLE victim; --",
    "a{b}c%s 제목 \u{202e}",
];

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn names_of_tables_and_columns_are_names_alone() {
    let Some(server) = Server::get() else { return };
    server.sql("CREATE TABLE IF NOT EXISTS victim (a int)");
    for mean in MEAN {
        let name = encoded(mean);
        let options = format!("&id={name}&title={name}2&text={name}3&vector={name}4&metadata={name}5");
        let address: PostgresAddress = server.address_with(&name, &options);
        let mut set = set(50, 8);
        set.passages[0].metadata = Metadata::new([(mean, mean)]).unwrap();
        let index = filled(&address, &set);
        let question = embedding(&set.rows[..8]);
        let filter = Filter {
            titles: ["Title 0".to_owned()].into(),
            condition: Some(
                serde_json::from_value(serde_json::json!({ "field": mean, "in": [mean] })).unwrap(),
            ),
            ..Filter::default()
        };
        let hits = index.search(std::slice::from_ref(&question), 5, Some(&filter)).unwrap().unwrap();
        assert_eq!(hits[0].iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["p0"], "{mean}");
        assert_eq!(index.delete(&["p0".into()]).unwrap(), 1);
        assert_eq!(index.refresh().unwrap(), 49);
    }
    assert_eq!(server.texts("SELECT count(*) FROM pg_tables WHERE tablename = 'victim'"), ["1"]);
    // A schema that is not there is the server's to refuse.
    let address = server.address_with("a", &format!("&schema={}", encoded(MEAN[1])));
    let error = dpr_postgres::PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Missing { .. })), "{error}");
}

#[test]
fn ids_titles_texts_and_metadata_are_values_alone() {
    let Some(server) = Server::get() else { return };
    server.sql("CREATE TABLE IF NOT EXISTS victim (a int)");
    let set = set(30, 8);
    let index = filled(&server.address("mean_values"), &set);
    let question = embedding(&[9.0; 8]);
    for mean in MEAN {
        let metadata = Metadata::new([(mean, mean)]).unwrap();
        let passage = Passage::new(mean, mean, mean).with_metadata(metadata);
        index.put(&[NewPassage { passage: passage.clone(), vector: question.clone() }]).unwrap();
        assert_eq!(index.passages(&[mean.to_owned()]).unwrap(), std::slice::from_ref(&passage));
        let condition = |json: serde_json::Value| Some(serde_json::from_value(json).unwrap());
        for filter in [
            Filter { ids: [mean.to_owned()].into(), ..Filter::default() },
            Filter { titles: [mean.to_owned()].into(), ..Filter::default() },
            Filter {
                condition: condition(serde_json::json!({ "field": mean, "eq": mean })),
                ..Filter::default()
            },
            Filter {
                condition: condition(serde_json::json!({ "field": mean, "gte": mean, "lte": mean })),
                ..Filter::default()
            },
        ] {
            let hits = index.search(std::slice::from_ref(&question), 5, Some(&filter)).unwrap().unwrap();
            let found: Vec<_> = hits[0].iter().map(|hit| hit.clone().into_passage()).collect();
            assert_eq!(found, std::slice::from_ref(&passage), "{mean} {filter:?}");
        }
        assert_eq!(index.delete(&[mean.to_owned()]).unwrap(), 1);
    }
    for nul in ["\0", "p0\0"] {
        let filter = Filter { ids: [nul.to_owned()].into(), ..Filter::default() };
        assert_eq!(index.search(std::slice::from_ref(&question), 5, Some(&filter)).unwrap(), None);
        assert!(index.passages(&[nul.to_owned()]).unwrap().is_empty());
        assert!(matches!(
            index.delete(&[nul.to_owned()]),
            Err(PostgresError::Change(ChangeError::UnknownIds { .. }))
        ));
    }
    assert_eq!(index.refresh().unwrap(), 30);
    assert_eq!(server.texts("SELECT count(*) FROM pg_tables WHERE tablename = 'victim'"), ["1"]);
}

#[test]
fn errors_of_the_server_tell_no_value() {
    let Some(server) = Server::get() else { return };
    let index = filled(&server.address("telling"), &set(5, 8));
    server.sql("ALTER TABLE telling ADD CONSTRAINT short CHECK (length(text) < 20)");
    let text = "A secret of more than twenty letters.";
    let passage = Passage::new("new", "secret title", text);
    let error = index.put(&[NewPassage { passage, vector: embedding(&[1.0; 8]) }]).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("short") && shown.contains("23514") && !shown.contains("secret"), "{shown}");
    assert!(shown.contains(": change the passage, or that column or constraint"), "{shown}");
    // A trigger of the user may quote what it likes.
    server.sql(
        "ALTER TABLE telling DROP CONSTRAINT short; \
         CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'not %: %', NEW.title, NEW.text; END $$; \
         CREATE TRIGGER told BEFORE INSERT ON telling FOR EACH ROW EXECUTE FUNCTION tell()",
    );
    let passage = Passage::new("new", "secret title", text);
    let error = index.put(&[NewPassage { passage, vector: embedding(&[1.0; 8]) }]).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("P0001") && !shown.contains("secret"), "{shown}");
    assert_eq!(index.refresh().unwrap(), 5);
}
