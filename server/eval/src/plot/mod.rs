//! Plots as SVG documents: the accuracy curves of the paper's Figure 1 and lines over any two quantities, on linear or
//! logarithmic axes.

mod accuracy;
mod chart;
mod lines;

pub use accuracy::{Curve, accuracy_svg, reading_svg};
pub use chart::PlotError;
pub use lines::{Series, log_series_svg, series_svg};
