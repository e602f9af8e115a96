//! Line plots over any two quantities, such as a loss over steps, in the style of the accuracy plot.

use super::chart::{Axis, Chart, Corner, Line, PlotError};

/// Lines of at most this many points have a mark at each.
const MARKED: usize = 30;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The line's name in the legend.
    pub name: String,
    /// `(x, y)`, joined in this order.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines as an SVG document, axes from the least to the largest number, x from 0.
///
/// # Errors
/// [`PlotError`] when there is nothing to draw, or a point is not a number.
pub fn series_svg(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> Result<String, PlotError> {
    if series.iter().all(|series| series.points.is_empty()) {
        return Err(PlotError::NoCurves);
    }
    for line in series {
        if line.points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return Err(PlotError::NotFinite { name: line.name.clone() });
        }
    }
    let points = || series.iter().flat_map(|series| &series.points);
    let chart = Chart {
        title,
        x: Axis::round(x_label, points().map(|(x, _)| *x).chain([0.0])),
        y: Axis::round(y_label, points().map(|(_, y)| *y)),
        legend: Corner::UpperRight,
        lines: series.iter().map(Series::line).collect(),
    };
    chart.svg()
}

impl Series {
    fn line(&self) -> Line<'_> {
        let marks = if self.points.len() <= MARKED { self.points.clone() } else { Vec::new() };
        Line { name: &self.name, points: self.points.clone(), marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_name_and_the_ticks_are_round() {
        let loss = |name: &str, scale: f64| Series {
            name: name.into(),
            points: (1..=100).map(|step| (step as f64 * 10.0, scale / step as f64)).collect(),
        };
        let svg =
            series_svg("Loss < 1", "Steps", "Loss", &[loss("training", 2.5), loss("dev", 3.0)]).unwrap();
        for text in ["Loss &lt; 1", "training", "dev", "Steps", "\n200\n", "\n1000\n", "\n0.5\n", "\n3.0\n"] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
    }

    #[test]
    fn one_point_is_a_picture_and_no_number_is_none() {
        let one = |y| Series { name: "a".into(), points: vec![(3.0, y)] };
        series_svg("t", "x", "y", &[one(0.0)]).unwrap();
        series_svg("t", "x", "y", &[one(-2.5)]).unwrap();
        let refused = series_svg("t", "x", "y", &[one(f64::NAN)]).unwrap_err();
        assert_eq!(refused, PlotError::NotFinite { name: "a".into() });
        assert_eq!(series_svg("t", "x", "y", &[]), Err(PlotError::NoCurves));
    }
}
