//! Accuracy against the number of passages, as in the paper's Figure 1.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{EmptyElement, PathElement, Polygon, Text};
use plotters::prelude::{
    ChartBuilder, IntoDrawingArea as _, LineSeries, RGBColor, SVGBackend, SeriesLabelPosition,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, TextStyle};

use super::ranking::{TopK, top_k};

/// Width and height of the picture.
pub(super) const SIZE: (u32, u32) = (880, 560);

/// Where the lines are marked, so that they stay apart in print without colour.
const MARKED: [usize; 7] = [1, 5, 20, 40, 60, 80, 100];

/// Colours that the colour-blind tell apart (Okabe and Ito 2008), without yellow, which is faint on white.
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

pub(super) const INK: RGBColor = RGBColor(51, 51, 51);
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);

/// Why nothing was drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// No system to draw.
    #[error("there is no curve to draw")]
    NoCurves,
    /// A curve without points, or whose ranks do not ascend from 1 on.
    #[error("the curve of {name:?} needs points at ascending ranks, from 1 on")]
    Points {
        /// The system.
        name: String,
    },
    /// A share that is none.
    #[error("the curve of {name:?}: the accuracy at {k} is {accuracy}, not a share from 0 to 1")]
    Accuracy {
        /// The system.
        name: String,
        /// The rank.
        k: usize,
        /// The accuracy.
        accuracy: f64,
    },
    /// A point that is no number.
    #[error("the line of {name:?} holds a point that is no number")]
    NotFinite {
        /// The line.
        name: String,
    },
    /// The drawing library failed.
    #[error("cannot draw the plot: {0}")]
    Draw(String),
}

/// One system's line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Ascending; a straight line joins two of them.
    pub points: Vec<TopK>,
}

impl Curve {
    /// The accuracy at every rank from 1 to `depth`, from each question's first hit.
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
}

/// Draws the curves as an SVG document: top-k accuracy in percent against k, both axes linear, a line and a
/// mark for each system, the legend in the order given. The text asks for a sans-serif font by that name.
///
/// # Errors
/// [`PlotError`] when there are no curves, or a curve is not one.
pub fn accuracy_svg(title: &str, curves: &[Curve]) -> Result<String, PlotError> {
    if curves.is_empty() {
        return Err(PlotError::NoCurves);
    }
    curves.iter().try_for_each(Curve::check)?;
    let mut svg = String::new();
    draw(SVGBackend::with_string(&mut svg, SIZE), title, curves).map_err(PlotError::Draw)?;
    Ok(svg)
}

fn draw(backend: SVGBackend<'_>, title: &str, curves: &[Curve]) -> Result<(), String> {
    let area = backend.into_drawing_area();
    area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
    let centre = Pos::new(HPos::Center, VPos::Center);
    let font = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    area.draw(&Text::new(title.to_owned(), (SIZE.0 as i32 / 2, 26), font(24).pos(centre)))
        .map_err(|e| e.to_string())?;

    let last =
        curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.k).max().unwrap_or(1).max(2);
    let (least, most, step) = bounds(curves, last);
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .margin_top(48)
        .margin_right(28)
        .x_label_area_size(56)
        .y_label_area_size(68)
        .build_cartesian_2d(
            // Marks at the first and last rank stay whole.
            Axis { from: 0.0, to: last as f64 * 1.01, ticks: ticks_of_ranks(last) },
            Axis { from: least, to: most, ticks: ticks(least, most, step) },
        )
        .map_err(|e| e.to_string())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(GRID)
        .axis_style(INK)
        .label_style(font(18))
        .axis_desc_style(font(20))
        .x_label_formatter(&|k| format!("{k:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0}%"))
        .x_desc("k: number of retrieved passages")
        .y_desc("Top-k accuracy")
        .draw()
        .map_err(|e| e.to_string())?;
    for (number, curve) in curves.iter().enumerate() {
        let line = COLOURS[number % COLOURS.len()].stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.percent(), line))
            .map_err(|e| e.to_string())?
            .label(curve.name.clone())
            .legend(move |(x, y)| {
                EmptyElement::at((x, y)) + PathElement::new([(0, 0), (28, 0)], line) + mark((14, 0), number)
            });
        let marked =
            curve.percent().filter(|(k, _)| MARKED.contains(&(*k as usize)) || curve.points.len() < 20);
        chart
            .draw_series(marked.map(|at| EmptyElement::at(at) + mark((0, 0), number)))
            .map_err(|e| e.to_string())?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .margin(12)
        .legend_area_size(36)
        .background_style(RGBColor(255, 255, 255).mix(0.9))
        .border_style(GRID)
        .label_font(font(18))
        .draw()
        .map_err(|e| e.to_string())?;
    area.present().map_err(|e| e.to_string())
}

/// The mark of the system with this number: another shape for each of five.
pub(super) fn mark((x, y): (i32, i32), number: usize) -> Polygon<(i32, i32)> {
    let shape: &[(i32, i32)] = match number % 5 {
        // As round as whole pixels make it.
        0 => &[(-5, -2), (-2, -5), (2, -5), (5, -2), (5, 2), (2, 5), (-2, 5), (-5, 2)],
        1 => &[(-5, -5), (5, -5), (5, 5), (-5, 5)],
        2 => &[(0, -6), (6, 5), (-6, 5)],
        3 => &[(0, -7), (7, 0), (0, 7), (-7, 0)],
        _ => &[(0, 6), (6, -5), (-6, -5)],
    };
    let points: Vec<(i32, i32)> = shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    Polygon::new(points, COLOURS[number % COLOURS.len()].filled())
}

/// A linear axis with the ticks that are named, where the library's own would choose them.
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + ((value - self.from) / (self.to - self.from) * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// The lowest and highest percentage of the axis, and the distance of its ticks. As in the paper's figure it does
/// not begin at 0, where the lines would crowd the upper edge; but low enough to leave the legend its corner.
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

pub(super) fn ticks(least: f64, most: f64, step: f64) -> Vec<f64> {
    let count = ((most - least) / step).round() as usize;
    (0..=count).map(|number| least + number as f64 * step).collect()
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
