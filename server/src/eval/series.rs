//! Lines over any two quantities, such as a loss over steps, in the style of the accuracy plot.

use plotters::element::{EmptyElement, PathElement, Text};
use plotters::prelude::{
    ChartBuilder, IntoDrawingArea as _, LineSeries, RGBColor, SVGBackend, SeriesLabelPosition,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, TextStyle};

use super::plot::{Axis, COLOURS, GRID, INK, PlotError, SIZE, mark, ticks};

/// Lines of at most this many points have a mark at each.
const MARKED: usize = 30;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// `(x, y)`, joined in this order.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines as an SVG document, axes from the least to the largest number, x from 0.
///
/// # Errors
/// [`PlotError`] when there is nothing to draw, or a point is no number.
pub fn series_svg(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> Result<String, PlotError> {
    if series.iter().all(|series| series.points.is_empty()) {
        return Err(PlotError::NoCurves);
    }
    for line in series {
        if line.points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return Err(PlotError::NotFinite { name: line.name.clone() });
        }
    }
    let mut svg = String::new();
    draw(SVGBackend::with_string(&mut svg, SIZE), title, [x_label, y_label], series)
        .map_err(PlotError::Draw)?;
    Ok(svg)
}

fn draw(
    backend: SVGBackend<'_>,
    title: &str,
    [x_label, y_label]: [&str; 2],
    series: &[Series],
) -> Result<(), String> {
    let area = backend.into_drawing_area();
    area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
    let centre = Pos::new(HPos::Center, VPos::Center);
    let font = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    area.draw(&Text::new(title.to_owned(), (SIZE.0 as i32 / 2, 26), font(24).pos(centre)))
        .map_err(|e| e.to_string())?;
    let points = || series.iter().flat_map(|series| &series.points);
    let (x, x_digits) = axis(points().map(|(x, _)| *x).chain([0.0]));
    let (y, y_digits) = axis(points().map(|(_, y)| *y));
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .margin_top(48)
        .margin_right(28)
        .x_label_area_size(56)
        .y_label_area_size(76)
        .build_cartesian_2d(x, y)
        .map_err(|e| e.to_string())?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(GRID)
        .axis_style(INK)
        .label_style(font(18))
        .axis_desc_style(font(20))
        .x_label_formatter(&|x| format!("{x:.x_digits$}"))
        .y_label_formatter(&|y| format!("{y:.y_digits$}"))
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()
        .map_err(|e| e.to_string())?;
    for (number, line) in series.iter().enumerate() {
        let stroke = COLOURS[number % COLOURS.len()].stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), stroke))
            .map_err(|e| e.to_string())?
            .label(line.name.clone())
            .legend(move |(x, y)| {
                EmptyElement::at((x, y)) + PathElement::new([(0, 0), (28, 0)], stroke) + mark((14, 0), number)
            });
        let marked = line.points.iter().filter(|_| line.points.len() <= MARKED);
        chart
            .draw_series(marked.map(|at| EmptyElement::at(*at) + mark((0, 0), number)))
            .map_err(|e| e.to_string())?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(12)
        .legend_area_size(36)
        .background_style(RGBColor(255, 255, 255).mix(0.9))
        .border_style(GRID)
        .label_font(font(18))
        .draw()
        .map_err(|e| e.to_string())?;
    area.present().map_err(|e| e.to_string())
}

/// An axis with about five ticks at round numbers, and the decimal places those have.
fn axis(values: impl Iterator<Item = f64> + Clone) -> (Axis, usize) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let span = if most > least { most - least } else { most.abs().max(1.0) };
    let size = 10f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * size).into_iter().find(|step| span / step <= 6.0);
    let step = step.unwrap_or(span);
    let from = (least / step).floor() * step;
    let mut to = (most / step).ceil() * step;
    if to <= from {
        to = from + step;
    }
    let digits = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
    (Axis { from, to, ticks: ticks(from, to, step) }, digits)
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
