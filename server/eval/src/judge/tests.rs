//! Tests of the relevance judge.

use super::*;
use dpr_data::Answers;

fn passages() -> Vec<Passage> {
    ["a", "b", "c", "d"].map(|id| Passage::new(id, "", format!("It is {id} here."))).into()
}

fn question(id: &str, gold: Option<&str>, answer: &str) -> Question {
    let text = |id: &str| format!("It is\n{id} here.").into();
    let gold = gold.map(|id| Gold { id: id.into(), text: text(id), answer: None });
    let answers = Answers::Texts(vec![answer.into()]);
    Question { id: id.into(), text: "who?".into(), answers, gold }
}

fn rows(rows: &[usize]) -> Vec<ScoredRow> {
    rows.iter().map(|row| ScoredRow { row: *row, score: 1.0 }).collect()
}

#[test]
fn the_gold_passage_is_the_right_one() {
    let passages = passages();
    let questions = [question("1", Some("b"), "x"), question("2", Some("z"), "x")];
    let judge = Judge::gold(&questions, &passages).unwrap();
    assert_eq!(judge.gold_not_in_index(), 1);
    assert_eq!(judge.first_right(&[rows(&[3, 1]), rows(&[0, 1, 2])]).unwrap(), [Some(2), None]);
    let rankings = [rows(&[0, 1, 2, 3]), rows(&[0, 1])];
    let (missed, all) = (vec![false; 2], vec![false, true, false, false]);
    for (depth, first) in [(0, &all[..2]), (1, &all[..2]), (3, &all[..3]), (9, &all[..])] {
        assert_eq!(judge.marks(&rankings, depth).unwrap(), [first, &missed], "{depth}");
    }
    assert!(matches!(judge.first_right(&[]), Err(EvalError::Lists { got: 0, expected: 2 })));
}

#[test]
fn a_passage_with_the_answer_is_right() {
    let (passages, questions) = (passages(), [question("1", None, "IT IS C")]);
    let judge = Judge::answers(&questions, &passages).unwrap();
    assert_eq!(judge.first_right(&[rows(&[0, 1, 2])]).unwrap(), [Some(3)]);
}

#[test]
fn a_passage_is_cut_into_tokens_once_for_all_questions() {
    let (passages, questions) = (passages(), [question("1", None, "zz"), question("2", None, "it is a")]);
    let judge = Judge::answers(&questions, &passages).unwrap();
    assert!(!judge.is_right(0, 0));
    let cut = judge.texts[0].run().as_ptr();
    assert!(judge.is_right(1, 0));
    assert_eq!(judge.texts[0].run().as_ptr(), cut);
}

#[test]
fn questions_that_no_passage_answers_are_told_apart() {
    let passages = passages();
    let questions = [question("1", Some("b"), "it is c"), question("2", Some("z"), "it is q")];
    assert_eq!(Judge::answers(&questions, &passages).unwrap().answerable(), [true, false]);
    assert_eq!(Judge::gold(&questions, &passages).unwrap().answerable(), [true, false]);
    let mut qrels = Qrels::default();
    qrels.insert("2", "d", 1);
    assert_eq!(Judge::graded(&questions, &passages, &qrels).unwrap().answerable(), [false, true]);
}

#[test]
fn aliases_of_which_nothing_is_left_are_counted_and_the_question_is_judged_by_the_others() {
    let passages = passages();
    let answers = Answers::Texts(vec!["\u{200b}".into(), "it is c".into()]);
    let questions = [Question { answers, ..question("1", None, "") }, question("2", None, "here")];
    let judge = Judge::answers(&questions, &passages).unwrap();
    assert_eq!(judge.empty_answers(), 1);
    assert_eq!(judge.first_right(&[rows(&[0, 2]), rows(&[1])]).unwrap(), [Some(2), Some(1)]);
}

#[test]
fn a_passage_graded_above_0_is_right() {
    let (passages, mut qrels) = (passages(), Qrels::default());
    qrels.insert("1", "b", 0);
    qrels.insert("1", "d", 2);
    let questions = [question("1", None, "x"), question("2", None, "x")];
    let judge = Judge::graded(&questions, &passages, &qrels).unwrap();
    assert_eq!(judge.first_right(&[rows(&[1, 3]), rows(&[3])]).unwrap(), [Some(2), None]);
    qrels.insert("1", "z", 1);
    let error = Judge::graded(&questions, &passages, &qrels).unwrap_err();
    assert!(error.to_string().contains("\"z\", which is not in the corpus"), "{error}");
}

#[test]
fn rankings_by_ids_have_the_later_id_first_among_equal_scores() {
    let (passages, mut qrels) = (passages(), Qrels::default());
    qrels.insert("1", "b", 1);
    let questions = [question("1", None, "x")];
    let judge = Judge::graded(&questions, &passages, &qrels).unwrap();
    let scored = |list: [(usize, f32); 4]| vec![list.map(|(row, score)| ScoredRow { row, score }).to_vec()];
    let by_ids = judge.by_ids(&questions, &scored([(3, 2.0), (0, 1.0), (1, 1.0), (2, 0.5)])).unwrap();
    assert_eq!(by_ids["1"], ["d", "b", "a", "c"]);
    let error = judge.by_ids(&questions, &scored([(0, 1.0), (1, 1.0), (2, f32::NAN), (3, 0.0)])).unwrap_err();
    assert!(matches!(error, RankingError::Score { passage, .. } if passage == "c"));
}

#[test]
fn questions_that_cannot_be_judged_are_refused() {
    let passages = passages();
    assert!(matches!(Judge::gold(&[], &passages), Err(EvalError::NoQuestions)));
    let error = Judge::gold(&[question("7", None, "x")], &passages).unwrap_err();
    assert!(matches!(error, EvalError::NoGold { id } if id == "7"));
    let other = [question("1", Some("x"), "x"), question("2", Some("y"), "x")];
    let error = Judge::gold(&other, &passages).unwrap_err();
    assert!(matches!(error, EvalError::OtherCorpus { questions: 2, first } if first == "x"));
    let gold = Gold { id: "a".into(), text: "Another paragraph.".into(), answer: None };
    let namesake = [Question { gold: Some(gold), ..question("1", None, "x") }];
    let error = Judge::gold(&namesake, &passages).unwrap_err();
    assert!(matches!(error, EvalError::OtherCorpus { questions: 1, .. }), "the same id, another text");
    let silent = Question { answers: Answers::default(), ..question("8", None, "") };
    let error = Judge::answers(&[silent], &passages).unwrap_err();
    assert!(matches!(error, EvalError::NoAnswer { id } if id == "8"));
    let mut qrels = Qrels::default();
    qrels.insert("9", "a", 1);
    let error = Judge::graded(&[question("1", None, "x")], &passages, &qrels).unwrap_err();
    assert!(
        error.to_string().contains("of 1 question or ranking none is one of the 1 question of the qrels"),
        "{error}"
    );
}
