//! Questions on which two systems differ, with the passages that they put first (paper §5.3, Table 7).

use std::fmt;

use dpr_core::random::SplitMix;
use dpr_data::RetrievedContext;
use serde::Serialize;

use crate::cli::flat;

/// Characters of a passage that are shown.
const SHOWN: usize = 240;

/// Results of one system, question by question.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) name: &'a str,
    /// Rank of the first right passage, from 1.
    pub(super) first_hits: &'a [Option<usize>],
    pub(super) firsts: &'a [First],
}

/// The passage that a system puts first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct First {
    id: String,
    title: String,
    /// The text around the first accepted answer that it holds in the same spelling, or its beginning.
    text: String,
    /// Rank of the first right passage, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    right_at: Option<usize>,
}

/// A question that one of two systems answers.
#[derive(Serialize)]
pub(super) struct Example {
    question: String,
    winner: String,
    loser: String,
    /// Ranks within which the winner has a right passage and the loser has none.
    k: usize,
    /// The winner's first passage.
    won: First,
    /// The loser's first passage.
    lost: First,
}

impl First {
    /// Returns what is shown of the best passage; empty where nothing was found.
    pub(super) fn of(context: Option<RetrievedContext>, answers: &[String]) -> Self {
        let Some(RetrievedContext { id, title, text, .. }) = context else {
            return Self { id: String::new(), title: String::new(), text: String::new(), right_at: None };
        };
        Self { id, title, text: excerpt(&text, answers), right_at: None }
    }
}

/// Returns up to `SHOWN` characters of `text` on one line: those around its first answer, or the first ones.
fn excerpt(text: &str, answers: &[String]) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let answer =
        answers.iter().filter(|answer| !answer.is_empty()).filter_map(|answer| line.find(answer)).min();
    let before = answer.map_or(0, |at| line[..at].chars().count());
    let length = line.chars().count();
    // The answer stands in the middle, unless the text ends before.
    let start = before.saturating_sub(SHOWN / 2).min(length.saturating_sub(SHOWN));
    let shown: String = line.chars().skip(start).take(SHOWN).collect();
    let [head, tail] = [start > 0, start + SHOWN < length].map(|is_cut| if is_cut { "…" } else { "" });
    format!("{head}{shown}{tail}")
}

/// Draws `most` questions for which the first of `pair` has a right passage within `k` and the second has none, then as
/// many the other way around. The same seed draws the same questions; they keep their order.
pub(super) fn draw(questions: &[String], pair: [Side; 2], k: usize, most: usize, seed: u64) -> Vec<Example> {
    let [one, other] = pair;
    let within = |side: Side, number: usize| side.first_hits[number].is_some_and(|rank| rank <= k);
    let of = |winner: Side, loser: Side| -> Vec<Example> {
        let mut numbers: Vec<usize> = (0..questions.len())
            .filter(|number| within(winner, *number) && !within(loser, *number))
            .collect();
        SplitMix::new(seed).shuffle(&mut numbers);
        numbers.truncate(most);
        numbers.sort_unstable();
        let first = |side: Side, number: usize| First {
            right_at: side.first_hits[number],
            ..side.firsts[number].clone()
        };
        let example = |number: usize| Example {
            question: questions[number].clone(),
            winner: winner.name.to_owned(),
            loser: loser.name.to_owned(),
            k,
            won: first(winner, number),
            lost: first(loser, number),
        };
        numbers.into_iter().map(example).collect()
    };
    if most == 0 {
        return Vec::new();
    }
    let mut drawn = of(one, other);
    drawn.extend(of(other, one));
    drawn
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { question, winner, loser, k, won, lost } = self;
        write!(f, "{}\n  {winner} has a right passage within {k}, {loser} has not", flat(question))?;
        for (name, first) in [(winner, won), (loser, lost)] {
            let rank = match first.right_at {
                Some(rank) => format!("right at {rank}"),
                None => "none is right".to_owned(),
            };
            let text = if first.id.is_empty() { "nothing found".to_owned() } else { flat(&first.text) };
            let title =
                if first.title.is_empty() { String::new() } else { format!("{} | ", flat(&first.title)) };
            write!(f, "\n  {name} ({rank}): {title}{text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_the_answer_on_one_line() {
        let text = format!("{}\nthe Denver\tBroncos won {}", "é ".repeat(300), "ü".repeat(300));
        let shown = excerpt(&text, &[String::new(), "Denver Broncos".to_owned()]);
        assert!(shown.contains("the Denver Broncos won"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count(), SHOWN + 2);
        assert_eq!(excerpt("short", &["absent".to_owned()]), "short");
        let at_the_end = excerpt(&format!("{} Denver", "a ".repeat(300)), &["Denver".to_owned()]);
        assert!(at_the_end.ends_with("Denver"), "{at_the_end}");
    }

    #[test]
    fn an_example_cannot_drive_the_terminal() {
        let first = |title: &str, text: &str| First {
            id: "1".to_owned(),
            title: title.to_owned(),
            text: text.to_owned(),
            right_at: Some(1),
        };
        let example = Example {
            question: "who\u{1b}]0;title\u{7} asks?".to_owned(),
            winner: "a".to_owned(),
            loser: "b".to_owned(),
            k: 1,
            won: first("\u{1b}[31mRed", "Red\u{9b}2J text."),
            lost: first("", "\u{8}Back."),
        };
        let shown = example.to_string();
        assert_eq!(shown.chars().filter(|c| c.is_control() && *c != '\n').count(), 0, "{shown:?}");
        assert_eq!(shown.lines().count(), 4, "{shown}");
        assert!(shown.contains("a (right at 1): \u{fffd}[31mRed | Red\u{fffd}2J text."), "{shown}");
    }

    #[test]
    fn examples_are_drawn_from_both_sides_and_keep_their_order() {
        let questions: Vec<String> = (0..100).map(|number| format!("question {number}")).collect();
        let hits = |every: usize| {
            (0..100_usize).map(|n| Some(if n.is_multiple_of(every) { 1 } else { 7 })).collect::<Vec<_>>()
        };
        let (second, third) = (hits(2), hits(3));
        let firsts: Vec<First> = (0..100).map(|_| First::of(None, &[])).collect();
        let side = |name, first_hits| Side { name, first_hits, firsts: &firsts };
        let names = |seed| -> Vec<(String, String)> {
            let drawn = draw(&questions, [side("a", &second), side("b", &third)], 1, 3, seed);
            drawn.into_iter().map(|example| (example.winner, example.question)).collect()
        };
        let drawn = names(1);
        let winners: Vec<&str> = drawn.iter().map(|(winner, _)| winner.as_str()).collect();
        assert_eq!(winners, ["a", "a", "a", "b", "b", "b"]);
        for (winner, question) in &drawn {
            let number: usize = question.rsplit(' ').next().unwrap().parse().unwrap();
            assert_eq!(winner == "a", number.is_multiple_of(2) && !number.is_multiple_of(3), "{question}");
        }
        assert_eq!(drawn, names(1));
        assert_ne!(drawn, names(2));
        assert!(draw(&questions, [side("a", &second), side("b", &third)], 7, 3, 1).is_empty());
    }
}
