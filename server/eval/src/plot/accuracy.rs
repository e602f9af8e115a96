//! Accuracy plot: top-k accuracy against the number of passages, as in the paper's Figure 1.

use super::chart::{Axis, Chart, Corner, Line, PlotError, even_ticks};
use crate::ranking::{TopK, top_k};

/// The ranks where the lines are marked.
const MARKED: [usize; 7] = [1, 5, 20, 40, 60, 80, 100];

/// Lines of fewer points than these are marked at all of them.
const FEW: usize = 20;

/// The accuracy curve of one system.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The system's name in the legend.
    pub name: String,
    /// The points, ascending in `k`; a straight line joins two neighbours.
    pub points: Vec<TopK>,
}

impl Curve {
    /// Returns the accuracy at every rank from 1 to `depth`, from each question's first hit.
    pub fn from_first_hits(name: impl Into<String>, first_hits: &[Option<usize>], depth: usize) -> Self {
        let ks: Vec<usize> = (1..=depth).collect();
        Self { name: name.into(), points: top_k(first_hits, &ks) }
    }

    fn check(&self) -> Result<(), PlotError> {
        let name = || self.name.clone();
        let is_ascending = self.points.windows(2).all(|pair| pair[0].k < pair[1].k);
        if !is_ascending || self.points.first().is_none_or(|point| point.k == 0) {
            return Err(PlotError::Points { name: name() });
        }
        match self.points.iter().find(|point| !(0.0..=1.0).contains(&point.accuracy)) {
            Some(TopK { k, accuracy }) => {
                Err(PlotError::Accuracy { name: name(), k: *k, accuracy: *accuracy })
            }
            None => Ok(()),
        }
    }

    fn percent(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().map(|point| (point.k as f64, point.accuracy * 100.0))
    }

    fn line(&self) -> Line<'_> {
        let is_marked = |k: f64| self.points.len() < FEW || MARKED.contains(&(k as usize));
        Line {
            name: &self.name,
            points: self.percent().collect(),
            marks: self.percent().filter(|(k, _)| is_marked(*k)).collect(),
        }
    }
}

/// Draws the curves as an SVG document: top-k accuracy in percent against k, both axes linear, a line and a
/// mark for each system, the legend in the order given. The text asks for a sans-serif font by that name.
///
/// # Errors
/// [`PlotError`] when there are no curves, or a curve has no points, points out of order or accuracies that are not
/// shares.
pub fn accuracy_svg(title: &str, curves: &[Curve]) -> Result<String, PlotError> {
    curves_svg(title, ["k: number of retrieved passages", "Top-k accuracy"], curves)
}

/// Draws exact match in percent against the number of passages that a reader reads, as [`accuracy_svg`] draws accuracy.
///
/// # Errors
/// [`PlotError`] as from [`accuracy_svg`].
pub fn reading_svg(title: &str, curves: &[Curve]) -> Result<String, PlotError> {
    curves_svg(title, ["Passages that are read", "Exact match"], curves)
}

fn curves_svg(title: &str, [x, y]: [&str; 2], curves: &[Curve]) -> Result<String, PlotError> {
    if curves.is_empty() {
        return Err(PlotError::NoCurves);
    }
    curves.iter().try_for_each(Curve::check)?;
    let last =
        curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.k).max().unwrap_or(1).max(2);
    let (least, most, step) = bounds(curves, last);
    let chart = Chart {
        title,
        x: Axis {
            label: x,
            from: 0.0,
            // Marks at the first and last rank stay whole.
            to: last as f64 * 1.01,
            ticks: ticks_of_ranks(last),
            digits: 0,
            unit: "",
            is_logarithmic: false,
        },
        y: Axis {
            label: y,
            from: least,
            to: most,
            ticks: even_ticks(least, most, step),
            digits: 0,
            unit: "%",
            is_logarithmic: false,
        },
        legend: Corner::LowerRight,
        lines: curves.iter().map(Curve::line).collect(),
    };
    chart.svg()
}

/// Returns the lowest and highest percentage of the axis, and the distance of its ticks. As in the paper's figure it
/// does not begin at 0, where the lines would crowd the upper edge; but low enough to leave the legend its corner.
fn bounds(curves: &[Curve], last: usize) -> (f64, f64, f64) {
    let all = || curves.iter().flat_map(Curve::percent).map(|(_, percent)| percent);
    let most = all().fold(0.0, f64::max);
    let right = curves.iter().flat_map(Curve::percent).filter(|(k, _)| *k > 0.6 * last as f64);
    let lowest_at_right = right.map(|(_, percent)| percent).fold(100.0, f64::min);
    let legend = (0.1 + 0.055 * curves.len() as f64).min(0.8);
    let least = all().fold(100.0, f64::min).min((lowest_at_right - legend * most) / (1.0 - legend));
    let step = if most - least > 35.0 { 10.0 } else { 5.0 };
    let below = ((least - 1.0) / step).floor() * step;
    let above = ((most + 1.0) / step).ceil() * step;
    (below.max(0.0), above.min(100.0), step)
}

/// 1, then five even steps.
fn ticks_of_ranks(last: usize) -> Vec<f64> {
    let step = last.div_ceil(5);
    let mut ranks = vec![1.0];
    ranks.extend(
        (1..=5).map(|number| (number * step) as f64).filter(|rank| *rank > 1.0 && *rank <= last as f64),
    );
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(usize, f64)]) -> Curve {
        let points = points.iter().map(|(k, accuracy)| TopK { k: *k, accuracy: *accuracy }).collect();
        Curve { name: name.into(), points }
    }

    #[test]
    fn every_system_has_its_line_and_its_name() {
        let hits: Vec<Option<usize>> = (0..300).map(|i| (i % 3 > 0).then_some(1 + i % 100)).collect();
        let curves =
            [Curve::from_first_hits("BM25", &hits, 100), curve("a < b & c", &[(1, 0.4), (100, 0.9)])];
        let svg = accuracy_svg("Natural Questions", &curves).unwrap();
        assert_eq!(svg.matches("<polyline").count() - svg.matches("stroke=\"#333333\"").count(), 4, "{svg}");
        for text in ["Natural Questions", "BM25", "a &lt; b &amp; c", "Top-k accuracy", "\n100\n", "40%"] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        let read = reading_svg("NQ", &curves).unwrap();
        assert!(read.contains("Passages that are read") && read.contains("Exact match"), "{read}");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn what_is_no_curve_is_not_drawn() {
        let draw = |curve: Curve| accuracy_svg("t", &[curve]).unwrap_err();
        assert_eq!(accuracy_svg("t", &[]), Err(PlotError::NoCurves));
        assert!(matches!(draw(curve("a", &[])), PlotError::Points { .. }));
        assert!(matches!(draw(curve("a", &[(5, 0.1), (1, 0.2)])), PlotError::Points { .. }));
        assert!(matches!(draw(curve("a", &[(1, 63.0)])), PlotError::Accuracy { k: 1, .. }));
        assert!(matches!(draw(curve("a", &[(1, f64::NAN)])), PlotError::Accuracy { .. }));
    }

    #[test]
    fn one_point_or_none_found_is_still_a_picture() {
        accuracy_svg("t", &[curve("a", &[(1, 0.0)])]).unwrap();
        accuracy_svg("t", &[curve("a", &[(1, 1.0), (2, 1.0)])]).unwrap();
    }
}
