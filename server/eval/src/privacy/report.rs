//! The report of attacks: a table, JSON and a plot.

use serde::Serialize;

use super::attack::Attacked;
use super::groups::GroupGuess;
use super::pieces::Named;
use super::recall::Searched;
use crate::plot::{PlotError, Series, series_svg};

/// One mode: what it finds, what it costs and what it shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeReport {
    /// The mode's name.
    pub mode: String,
    /// The data that the server sees.
    pub sees: String,
    /// The results of the attacks on it.
    pub attacked: Attacked,
    /// The recall and the costs; `None` for a control that finds nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched: Option<Searched>,
    /// The share of fetched sets whose real group is named; `None` for a mode without groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupGuess>,
}

/// The result of attacks on several modes, which `privacy.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrivacyReport {
    /// Fingerprint of the model.
    pub model: String,
    /// Passages that were searched.
    pub passages: usize,
    /// Questions that attackers were trained on.
    pub train: usize,
    /// Questions by which their settings were chosen.
    pub held_out: usize,
    /// Questions that were attacked.
    pub test: usize,
    /// Questions that were searched for in each mode.
    pub searched: usize,
    /// Word pieces that attackers can name.
    pub pieces: usize,
    /// The seed of the split.
    pub seed: u64,
    /// The scores of guesses without having seen anything.
    pub floor: Named,
    /// Share of questions that have the commonest topic.
    pub topic_floor: f64,
    /// The modes.
    pub modes: Vec<ModeReport>,
}

impl PrivacyReport {
    /// Returns the table as Markdown, with a line below it for each mode whose fetched sets have groups.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| mode | the server sees | k' | recall@20 within k' | re-ranked | content, ridge | content, network | content, decoder | exact | exact text | known | topic | up, bytes | down, bytes | ms |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for ModeReport { mode, sees, attacked, searched, .. } in &self.modes {
            let Attacked { ridge, network, decoder, known, topic } = attacked;
            let network = network.map_or("–".to_owned(), |named| format!("{:.3}", named.content));
            let decoder = decoder.map_or(("–".to_owned(), "–".to_owned()), |decoded| {
                (format!("{:.3}", decoded.content), format!("{:.4}", decoded.exact))
            });
            let found = searched.as_ref().map_or_else(
                || ("– | – | –".to_owned(), "– | – | –".to_owned()),
                |found| {
                    let Searched {
                        candidates,
                        recall_within,
                        recall,
                        up_bytes,
                        down_bytes,
                        milliseconds,
                        ..
                    } = found;
                    (
                        format!("{candidates} | {recall_within:.4} | {recall:.4}"),
                        format!("{up_bytes:.0} | {down_bytes:.0} | {milliseconds:.2}"),
                    )
                },
            );
            text.push_str(&format!(
                "| {mode} | {sees} | {} | {:.3} | {network} | {} | {:.4} | {} | {known:.3} | {topic:.3} | {} |\n",
                found.0,
                ridge.content,
                decoder.0,
                attacked.exact(),
                decoder.1,
                found.1,
            ));
        }
        let Named { content, exact, .. } = self.floor;
        text.push_str(&format!(
            "| nothing seen | | | | | {content:.3} | {content:.3} | {content:.3} | {exact:.4} | | | {:.3} | | | |\n",
            self.topic_floor
        ));
        for ModeReport { mode, groups, .. } in &self.modes {
            if let Some(GroupGuess { right, chance }) = groups {
                text.push_str(&format!(
                    "\n{mode}: the group of the home is named by its overlaps with others in {right:.3} of the fetched \
                     sets, by chance in {chance:.3}\n"
                ));
            }
        }
        text
    }

    /// Draws recall@20 within the candidates against the content that the best attacker names, a mark for each
    /// mode that finds something.
    ///
    /// # Errors
    /// [`PlotError`] when no mode finds anything.
    pub fn svg(&self) -> Result<String, PlotError> {
        let point = |report: &ModeReport| {
            let recall = report.searched.as_ref()?.recall_within;
            let (name, content) = (report.mode.clone(), report.attacked.content());
            Some(Series { name, points: vec![(content, recall)] })
        };
        let series: Vec<Series> = self.modes.iter().filter_map(point).collect();
        series_svg(
            "What is found, what is given away",
            "Content of questions that an attacker names",
            "recall@20 within the candidates",
            &series,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::pieces::Decoded;

    #[test]
    fn every_mode_has_its_line_and_its_mark() {
        let attacked = |content: f64| Attacked {
            ridge: Named { content, f1: 0.5, exact: 0.01 },
            network: Some(Named { content: content / 2.0, f1: 0.4, exact: 0.02 }),
            decoder: Some(Decoded { content: content / 4.0, exact: 0.005 }),
            known: 1.0,
            topic: 0.75,
        };
        let searched = Searched { recall_within: 0.98765, candidates: 400, ..Searched::default() };
        let mode = |mode: &str, content, searched| ModeReport {
            mode: mode.to_owned(),
            sees: "64 numbers".to_owned(),
            attacked: attacked(content),
            searched,
            groups: (mode == "medium").then_some(GroupGuess { right: 0.625, chance: 0.5 }),
        };
        let report = PrivacyReport {
            model: "m".to_owned(),
            passages: 5,
            train: 100,
            held_out: 10,
            test: 20,
            searched: 20,
            pieces: 300,
            seed: 1,
            floor: Named { content: 0.0, f1: 0.25, exact: 0.0 },
            topic_floor: 0.05,
            modes: vec![mode("medium", 0.125, Some(searched)), mode("random", 0.001, None)],
        };
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "| medium | 64 numbers | 400 | 0.9877 | 0.0000 | 0.125 | 0.062 | 0.031 | 0.0200 | 0.0050 | 1.000 | 0.750 | 0 | 0 | 0.00 |"
        );
        assert!(lines[3].contains("| – | – | – | 0.001 |"), "{}", lines[3]);
        let columns = |line: &str| line.matches('|').count();
        let rows = &lines[..lines.len() - 2];
        assert!(rows.iter().all(|line| columns(line) == columns(lines[0])), "{table}");
        let groups = "medium: the group of the home is named by its overlaps with others in 0.625 of the fetched \
                      sets, by chance in 0.500";
        assert_eq!(lines[lines.len() - 2..], ["", groups]);
        let svg = report.svg().unwrap();
        assert!(svg.contains("medium") && !svg.contains("random"), "{svg}");
        assert!(serde_json::to_string(&report).unwrap().contains("\"content\":0.125"));
    }
}
