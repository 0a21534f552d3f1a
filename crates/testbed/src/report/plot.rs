//! Plots as SVG: lines, cumulative distributions, bars.

use plotters::coord::Shift;
use plotters::prelude::*;

/// Size of a plot in pixels: letters stay readable on a phone.
const SIZE: (u32, u32) = (760, 380);
pub(super) const FONT: (&str, i32) = ("sans-serif", 16);

/// Colours that readers with colour blindness can distinguish, visible on white and on black (after Okabe and Ito).
pub(super) const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(128, 128, 128),
];

/// Reason why a plot cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlotError {
    /// There are no data, or no finite ones.
    NoData,
    /// The drawing failed.
    Drawing(String),
}

impl std::fmt::Display for PlotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoData => f.write_str("a plot has no finite point: give it data, or leave it out"),
            Self::Drawing(why) => write!(f, "a plot cannot be drawn: {why}"),
        }
    }
}

impl std::error::Error for PlotError {}

pub(super) fn drawing(error: impl std::fmt::Display) -> PlotError {
    PlotError::Drawing(error.to_string())
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points; non-finite ones are left out.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Creates a line through `points`.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), points }
    }
}

/// Cumulative distribution of `values`: share of values, from 0 to 1, up to each value. It begins at zero; non-finite
/// values count but are not shown, so the line ends below one.
pub fn cumulative(values: &[f64]) -> Vec<(f64, f64)> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_unstable_by(f64::total_cmp);
    let all = values.len() as f64;
    let mut points = Vec::with_capacity(2 * finite.len());
    for (i, value) in finite.into_iter().enumerate() {
        points.extend([(value, i as f64 / all), (value, (i + 1) as f64 / all)]);
    }
    points
}

/// A line plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines<'a> {
    /// Title above the plot.
    pub title: &'a str,
    /// Label of the x axis, with its unit.
    pub x: &'a str,
    /// Label of the y axis, with its unit.
    pub y: &'a str,
    /// The lines.
    pub series: Vec<Series>,
}

impl Lines<'_> {
    /// Draws the plot as an SVG element; its y axis begins at zero unless there are negative values.
    ///
    /// # Errors
    /// [`PlotError::NoData`] without a finite point.
    pub fn draw(&self) -> Result<String, PlotError> {
        let finite = |&&(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
        let all = || self.series.iter().flat_map(|series| &series.points).filter(finite);
        let (left, right) = range(all().map(|&(x, _)| x)).ok_or(PlotError::NoData)?;
        let (low, high) = range(all().map(|&(_, y)| y).chain([0.0])).ok_or(PlotError::NoData)?;
        svg(SIZE, |root| {
            let mut chart = ChartBuilder::on(root)
                .caption(self.title, (FONT.0, 18))
                .margin(12)
                .x_label_area_size(46)
                .y_label_area_size(72)
                .build_cartesian_2d(left..right, low..high + (high - low) * 0.04)
                .map_err(drawing)?;
            chart
                .configure_mesh()
                .max_light_lines(0)
                .x_label_formatter(&|x| plain(*x))
                .y_label_formatter(&|y| plain(*y))
                .x_desc(self.x)
                .y_desc(self.y)
                .label_style(FONT)
                .draw()
                .map_err(drawing)?;
            for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
                let points = series.points.iter().filter(finite).copied();
                chart
                    .draw_series(LineSeries::new(points, colour.stroke_width(2)))
                    .map_err(drawing)?
                    .label(&series.name)
                    .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
            }
            chart.configure_series_labels().label_font(FONT).draw().map_err(drawing)
        })
    }
}

/// A bar of a bar plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Label below the bar.
    pub name: String,
    /// Height, at least zero.
    pub value: f64,
}

/// A bar plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars<'a> {
    /// Title above the plot.
    pub title: &'a str,
    /// Label of the y axis, with its unit.
    pub y: &'a str,
    /// Bars, from left to right.
    pub bars: Vec<Bar>,
}

impl Bars<'_> {
    /// Draws the plot as an SVG element.
    ///
    /// # Errors
    /// [`PlotError::NoData`] without bars, or with a non-finite height.
    pub fn draw(&self) -> Result<String, PlotError> {
        if !self.bars.iter().all(|bar| bar.value.is_finite()) || self.bars.is_empty() {
            return Err(PlotError::NoData);
        }
        let (low, high) = range(self.bars.iter().map(|bar| bar.value).chain([0.0])).ok_or(PlotError::NoData)?;
        let name = |&x: &f64| {
            let index = x.round();
            let bar = if (x - index).abs() < 0.01 && index >= 0.0 { self.bars.get(index as usize) } else { None };
            bar.map(|bar| bar.name.clone()).unwrap_or_default()
        };
        svg(SIZE, |root| {
            let mut chart = ChartBuilder::on(root)
                .caption(self.title, (FONT.0, 18))
                .margin(12)
                .x_label_area_size(36)
                .y_label_area_size(72)
                .build_cartesian_2d(-0.5..self.bars.len() as f64 - 0.5, low..high + (high - low) * 0.04)
                .map_err(drawing)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .max_light_lines(0)
                .y_label_formatter(&|y| plain(*y))
                .x_labels(self.bars.len() * 2 + 1)
                .x_label_formatter(&name)
                .y_desc(self.y)
                .label_style(FONT)
                .draw()
                .map_err(drawing)?;
            let bars = self.bars.iter().zip(COLOURS.iter().cycle()).enumerate().map(|(i, (bar, colour))| {
                let middle = i as f64;
                Rectangle::new([(middle - 0.3, 0.0), (middle + 0.3, bar.value)], colour.filled())
            });
            chart.draw_series(bars).map_err(drawing)?;
            Ok(())
        })
    }
}

/// Formats a number for an axis, without trailing zeros.
fn plain(number: f64) -> String {
    let text = format!("{number:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Range of the values, never empty; `None` without values.
pub(super) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })?;
    Some(if low < high { (low, high) } else { (low, low + 1.0) })
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on an area of this size in pixels.
pub(super) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, size).into_drawing_area();
        draw(&root)?;
        root.present().map_err(drawing)?;
    }
    // A fixed size would not shrink with the window; the view box does.
    let fixed = format!("width=\"{}\" height=\"{}\" ", size.0, size.1);
    Ok(out.replacen(&fixed, "", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cumulative_distribution_climbs_from_zero_to_the_share_that_arrived() {
        let points = cumulative(&[3.0, 1.0, f64::INFINITY, 2.0]);
        assert_eq!(points, [(1.0, 0.0), (1.0, 0.25), (2.0, 0.25), (2.0, 0.5), (3.0, 0.5), (3.0, 0.75)]);
        assert!(cumulative(&[]).is_empty());
    }

    #[test]
    fn numbers_on_axes_are_plain() {
        assert_eq!([500.0, 0.1 + 0.2, -0.0, 1_000.0, 0.05].map(plain), ["500", "0.3", "0", "1000", "0.05"]);
    }

    #[test]
    fn nothing_finite_is_no_plot() {
        let mut lines = Lines { title: "", x: "", y: "", series: vec![Series::new("a", vec![(f64::NAN, 0.0)])] };
        assert_eq!(lines.draw(), Err(PlotError::NoData));
        lines.series[0].points.push((1.0, 1.0));
        assert!(lines.draw().is_ok(), "one point is enough");
        assert_eq!(Bars { title: "", y: "", bars: Vec::new() }.draw(), Err(PlotError::NoData));
    }

    #[test]
    fn names_and_colours_are_in_the_drawing() {
        let series = vec![Series::new("plain", vec![(0.0, 0.0), (9.0, 4.0)]), Series::new("late", vec![(0.0, 1.0)])];
        let svg = Lines { title: "Delay", x: "time, s", y: "delay, ms", series }.draw().unwrap();
        for part in ["Delay", "time, s", "delay, ms", "plain", "late", "#0072B2", "#D55E00"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        let bars = ["TCP", "Timeous"].map(|name| Bar { name: name.into(), value: 3.5 }).to_vec();
        let svg = Bars { title: "Frames", y: "%", bars }.draw().unwrap();
        assert!(svg.contains("TCP") && svg.contains("Timeous") && svg.starts_with("<svg viewBox"), "{svg}");
    }
}
