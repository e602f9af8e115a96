//! `dpr data ict`: training data from a corpus alone.

use crate::support::common;
use crate::support::squad;

use common::{Bench, fail, succeed};
use dpr_data::read_training;

#[test]
fn a_corpus_is_not_overwritten_by_the_training_data_that_is_made_of_it() {
    let bench = Bench::new();
    let corpus = squad::articles(0..2, 6).to_string();
    bench.write("corpus.json", &corpus);
    let ict = |out: &str| bench.dpr(&["data", "ict", "--passages", "corpus.json", "--out", out]);
    for out in ["corpus.json", "./corpus.json"] {
        let error = fail(&mut ict(out));
        assert!(error.contains("corpus.json"), "{error}");
        assert_eq!(fs_err::read_to_string(bench.path("corpus.json")).unwrap(), corpus);
    }
    succeed(&mut ict("ict.json"));
    assert!(read_training(&bench.path("ict.json")).unwrap().count() > 0);
}

#[test]
fn a_limit_of_no_passages_is_refused_as_the_flag_that_it_is() {
    let bench = Bench::new();
    bench.write("corpus.json", squad::articles(0..1, 4).to_string());
    let ict = ["data", "ict", "--passages", "corpus.json", "--out", "ict.json", "--limit"];
    let refused = bench.dpr(&ict).arg("0").output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("--limit") && error.contains("it must be at least 1"), "{error}");
    succeed(bench.dpr(&ict).arg("2"));
    assert!((1..=2).contains(&read_training(&bench.path("ict.json")).unwrap().count()));
}
