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
    check(series)?;
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

/// Draws lines over two logarithmic axes as an SVG document; the axes end at whole powers of ten.
///
/// # Errors
/// [`PlotError`] when there is nothing to draw, or a point is not above 0.
pub fn log_series_svg(
    title: &str,
    x_label: &str,
    y_label: &str,
    series: &[Series],
) -> Result<String, PlotError> {
    check(series)?;
    if let Some(line) = series.iter().find(|line| line.points.iter().any(|(x, y)| *x <= 0.0 || *y <= 0.0)) {
        return Err(PlotError::NotPositive { name: line.name.clone() });
    }
    let logarithms = |line: &Series| {
        let points = line.points.iter().map(|(x, y)| (x.log10(), y.log10())).collect();
        Series { name: line.name.clone(), points }
    };
    let series: Vec<Series> = series.iter().map(logarithms).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let chart = Chart {
        title,
        x: Axis::decades(x_label, points().map(|(x, _)| *x)),
        y: Axis::decades(y_label, points().map(|(_, y)| *y)),
        legend: Corner::UpperLeft,
        lines: series.iter().map(Series::line).collect(),
    };
    chart.svg()
}

/// Refuses a plot of nothing, and points that are not numbers.
fn check(series: &[Series]) -> Result<(), PlotError> {
    if series.iter().all(|series| series.points.is_empty()) {
        return Err(PlotError::NoCurves);
    }
    let is_number = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    match series.iter().find(|line| !line.points.iter().all(is_number)) {
        Some(line) => Err(PlotError::NotFinite { name: line.name.clone() }),
        None => Ok(()),
    }
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
    fn logarithmic_axes_end_at_powers_of_ten_and_have_no_zero() {
        let line = |points: &[(f64, f64)]| Series { name: "cost".into(), points: points.to_vec() };
        let svg = log_series_svg("t", "Passages", "MB", &[line(&[(2067.0, 0.08), (360e6, 57.0)])]).unwrap();
        for text in ["\n1 k\n", "\n10 M\n", "\n1 G\n", "\n0.01\n", "\n1\n", "\n100\n", "Passages", "cost"] {
            assert!(svg.contains(text), "no {text:?} in {svg}");
        }
        log_series_svg("t", "x", "y", &[line(&[(10.0, 10.0)])]).unwrap();
        for point in [(0.0, 1.0), (1.0, -1.0)] {
            let refused = log_series_svg("t", "x", "y", &[line(&[point])]).unwrap_err();
            assert_eq!(refused, PlotError::NotPositive { name: "cost".into() });
        }
        assert_eq!(log_series_svg("t", "x", "y", &[]), Err(PlotError::NoCurves));
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
