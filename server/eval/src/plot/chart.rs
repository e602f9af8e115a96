//! SVG charts: lines over two axes, linear or logarithmic, the common base of all plots.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{EmptyElement, PathElement, Polygon, Text};
use plotters::prelude::{ChartBuilder, IntoDrawingArea as _, LineSeries, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, TextStyle};

pub(super) use plotters::prelude::SeriesLabelPosition as Corner;

/// Width and height of the picture.
const SIZE: (u32, u32) = (880, 560);

/// Colours that the colour-blind tell apart (Okabe and Ito 2008), without yellow, which is faint on white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const INK: RGBColor = RGBColor(51, 51, 51);
const GRID: RGBColor = RGBColor(226, 226, 226);
const PAPER: RGBColor = RGBColor(255, 255, 255);

/// The reason why nothing was drawn.
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
    /// An accuracy that is not a share from 0 to 1.
    #[error("the curve of {name:?}: the accuracy at {k} is {accuracy}, not a share from 0 to 1")]
    Accuracy {
        /// The system.
        name: String,
        /// The rank.
        k: usize,
        /// The accuracy.
        accuracy: f64,
    },
    /// A point that no logarithmic axis has.
    #[error("the line of {name:?} holds a point that is not above 0, and the axes are logarithmic")]
    NotPositive {
        /// The line.
        name: String,
    },
    /// A point that is not a number.
    #[error("the line of {name:?} holds a point that is not a number")]
    NotFinite {
        /// The line.
        name: String,
    },
    /// The drawing library failed.
    #[error("cannot draw the plot: {0}")]
    Draw(String),
}

/// A picture: the axes, a line for each thing compared, and a legend in a corner.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: Axis<'a>,
    pub(super) y: Axis<'a>,
    /// The corner of the legend.
    pub(super) legend: Corner,
    /// In the order of the legend.
    pub(super) lines: Vec<Line<'a>>,
}

/// An axis with the ticks that are named, where the drawing library would choose its own.
#[derive(Clone)]
pub(super) struct Axis<'a> {
    pub(super) label: &'a str,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<f64>,
    /// Decimal places of the ticks' numbers.
    pub(super) digits: usize,
    /// The unit written after those numbers.
    pub(super) unit: &'static str,
    /// `true` if the numbers on the axis are decimal logarithms of those that are written.
    pub(super) is_logarithmic: bool,
}

/// One line of straight pieces.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// `(x, y)`, joined in this order.
    pub(super) points: Vec<(f64, f64)>,
    /// The points with marks, by which lines can be told apart in print without colour.
    pub(super) marks: Vec<(f64, f64)>,
}

impl<'a> Axis<'a> {
    /// Returns an axis over all `values`, with about five ticks at round numbers.
    pub(super) fn round(label: &'a str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let span = if most > least { most - least } else { most.abs().max(1.0) };
        let size = 10f64.powf((span / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|round| round * size);
        let step = steps.into_iter().find(|step| span / step <= 6.0).unwrap_or(span);
        let from = (least / step).floor() * step;
        let mut to = (most / step).ceil() * step;
        if to <= from {
            to = from + step;
        }
        let digits = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
        Self { label, from, to, ticks: even_ticks(from, to, step), digits, unit: "", is_logarithmic: false }
    }

    /// Returns a logarithmic axis over decimal logarithms, from a whole power of ten to another.
    pub(super) fn decades(label: &'a str, logarithms: impl Iterator<Item = f64> + Clone) -> Self {
        let from = logarithms.clone().fold(f64::INFINITY, f64::min).floor();
        let to = logarithms.fold(f64::NEG_INFINITY, f64::max).ceil().max(from + 1.0);
        Self { label, from, to, ticks: even_ticks(from, to, 1.0), digits: 0, unit: "", is_logarithmic: true }
    }

    fn named(&self, tick: f64) -> String {
        if self.is_logarithmic {
            return with_prefix(tick.round() as i32);
        }
        format!("{tick:.digits$}{unit}", digits = self.digits, unit = self.unit)
    }
}

/// Returns a power of ten with the prefix of its size.
fn with_prefix(exponent: i32) -> String {
    let (prefix, above) = match exponent {
        9.. => (" G", 9),
        6..9 => (" M", 6),
        3..6 => (" k", 3),
        _ => ("", 0),
    };
    let digits = (-exponent).max(0) as usize;
    format!("{:.digits$}{prefix}", 10f64.powi(exponent - above))
}

/// Returns the ticks from `least` to `most`, both included.
pub(super) fn even_ticks(least: f64, most: f64, step: f64) -> Vec<f64> {
    let count = ((most - least) / step).round() as usize;
    (0..=count).map(|number| least + number as f64 * step).collect()
}

impl Ranged for Axis<'_> {
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

impl Chart<'_> {
    /// Returns the picture as an SVG document. Its text asks for a sans-serif font by that name.
    pub(super) fn svg(self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(SVGBackend::with_string(&mut svg, SIZE)).map_err(PlotError::Draw)?;
        Ok(svg)
    }

    fn draw(self, backend: SVGBackend<'_>) -> Result<(), String> {
        let area = backend.into_drawing_area();
        area.fill(&PAPER).map_err(|e| e.to_string())?;
        let font = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
        let centred = font(24).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new(self.title.to_owned(), (SIZE.0 as i32 / 2, 26), centred))
            .map_err(|e| e.to_string())?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .margin_top(48)
            .margin_right(28)
            .x_label_area_size(56)
            .y_label_area_size(76)
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .map_err(|e| e.to_string())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID)
            .axis_style(INK)
            .label_style(font(18))
            .axis_desc_style(font(20))
            .x_label_formatter(&|tick| self.x.named(*tick))
            .y_label_formatter(&|tick| self.y.named(*tick))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .draw()
            .map_err(|e| e.to_string())?;
        for (number, line) in self.lines.into_iter().enumerate() {
            let stroke = COLOURS[number % COLOURS.len()].stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points, stroke))
                .map_err(|e| e.to_string())?
                .label(line.name)
                .legend(move |at| {
                    let sample = PathElement::new([(0, 0), (28, 0)], stroke);
                    EmptyElement::at(at) + sample + mark((14, 0), number)
                });
            let marks = line.marks.into_iter().map(|at| EmptyElement::at(at) + mark((0, 0), number));
            chart.draw_series(marks).map_err(|e| e.to_string())?;
        }
        chart
            .configure_series_labels()
            .position(self.legend)
            .margin(12)
            .legend_area_size(36)
            .background_style(PAPER.mix(0.9))
            .border_style(GRID)
            .label_font(font(18))
            .draw()
            .map_err(|e| e.to_string())?;
        area.present().map_err(|e| e.to_string())
    }
}

/// Returns the mark of the line with this number: another shape for each of five.
fn mark((x, y): (i32, i32), number: usize) -> Polygon<(i32, i32)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        for (values, from, to, ticks, last) in [
            (&[0.0, 1000.0][..], 0.0, 1000.0, 6, "1000"),
            (&[0.03, 2.9], 0.0, 3.0, 7, "3.0"),
            (&[-2.5], -2.5, -2.0, 2, "-2.0"),
            (&[0.0], 0.0, 0.2, 2, "0.2"),
        ] {
            let axis = Axis::round("x", values.iter().copied());
            assert_eq!((axis.from, axis.to, axis.ticks.len()), (from, to, ticks), "{values:?}");
            assert_eq!(axis.named(axis.to), last, "{values:?}");
        }
    }
}
