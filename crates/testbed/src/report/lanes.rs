//! Lane plots as SVG: outcomes of many items over time, one row per kind.

use plotters::prelude::*;

use super::plot::{COLOURS, FONT, PlotError, drawing, range, svg};

const WIDTH: u32 = 860;
const LANE: u32 = 30;
/// Height for title, legend and time axis.
const AROUND: u32 = 110;

/// Class of outcomes, with its appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name in the legend.
    pub name: &'static str,
    /// Height of its marks, in percent of the lane: distinguishes classes without colours.
    pub height: u8,
}

/// A row of the plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Label on the left.
    pub name: String,
    /// Times, each with the index of a class.
    pub marks: Vec<(f64, usize)>,
}

/// A lane plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Lanes<'a> {
    /// Title above the plot.
    pub title: &'a str,
    /// Label of the x axis, with its unit.
    pub x: &'a str,
    /// Classes of the marks.
    pub classes: &'a [Class],
    /// Lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// Width of a mark, in units of `x`.
    pub mark: f64,
}

impl Lanes<'_> {
    /// Draws the plot as an SVG element.
    ///
    /// # Errors
    /// [`PlotError::NoData`] without a finite mark.
    pub fn draw(&self) -> Result<String, PlotError> {
        let marks = self.lanes.iter().flat_map(|lane| &lane.marks);
        let (left, right) = range(marks.map(|(x, _)| *x).filter(|x| x.is_finite())).ok_or(PlotError::NoData)?;
        let count = self.lanes.len();
        // The legend has a lane of its own, above the others.
        let top = count as f64 + 1.0;
        let name = |y: &f64| {
            // The middle of a lane bears its label; lanes are counted from below.
            let index = (y - 0.5).round();
            let middle = (y - 0.5 - index).abs() < 0.01 && index >= 0.0;
            let lane = if middle { count.checked_sub(1 + index as usize) } else { None };
            lane.map(|lane| self.lanes[lane].name.clone()).unwrap_or_default()
        };
        svg((WIDTH, AROUND + LANE * (count as u32 + 1)), |root| {
            let mut chart = ChartBuilder::on(root)
                .caption(self.title, (FONT.0, 18))
                .margin(12)
                .x_label_area_size(42)
                .y_label_area_size(64)
                .build_cartesian_2d(left..right + self.mark, 0.0..top)
                .map_err(drawing)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_desc(self.x)
                .y_labels(4 * count + 4)
                .y_label_formatter(&name)
                .label_style(FONT)
                .draw()
                .map_err(drawing)?;
            for (index, lane) in self.lanes.iter().enumerate() {
                let bottom = (count - 1 - index) as f64 + 0.1;
                let marks = lane.marks.iter().filter(|(x, _)| x.is_finite()).map(|(x, class)| {
                    let height = 0.8 * f64::from(self.classes[*class].height) / 100.0;
                    Rectangle::new([(*x, bottom), (x + self.mark, bottom + height)], colour(*class).filled())
                });
                chart.draw_series(marks).map_err(drawing)?;
            }
            let step = (right - left) / self.classes.len().max(1) as f64;
            for (index, class) in self.classes.iter().enumerate() {
                let (x, y) = (left + step * index as f64, count as f64 + 0.3);
                let height = 0.5 * f64::from(class.height) / 100.0;
                let sign = Rectangle::new([(x, y), (x + step * 0.06, y + height)], colour(index).filled());
                chart.draw_series([sign]).map_err(drawing)?;
                let text = Text::new(class.name, (x + step * 0.09, y + 0.45), FONT);
                chart.draw_series([text]).map_err(drawing)?;
            }
            Ok(())
        })
    }
}

/// Colour of a class; the first class is the good one.
fn colour(class: usize) -> RGBColor {
    const ORDER: [usize; 4] = [2, 4, 1, 5];
    COLOURS[ORDER[class % ORDER.len()]]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [Class; 2] = [Class { name: "in time", height: 100 }, Class { name: "lost", height: 40 }];

    fn lanes(marks: Vec<(f64, usize)>) -> Lanes<'static> {
        let lanes = ["I", "P"].map(|name| Lane { name: name.into(), marks: marks.clone() }).to_vec();
        Lanes { title: "Frames", x: "time, s", classes: &CLASSES, lanes, mark: 0.1 }
    }

    #[test]
    fn every_mark_is_drawn_in_the_colour_of_its_class() {
        let svg = lanes(vec![(0.0, 0), (1.0, 1), (2.0, 0), (f64::NAN, 0)]).draw().unwrap();
        let count = |colour: &str| svg.matches(&format!("fill=\"{colour}\"")).count();
        assert_eq!(count("#009E73"), 2 * 2 + 1, "in two lanes and the legend: {svg}");
        assert_eq!(count("#D55E00") + count("#E69F00"), 2 + 1);
        for text in ["Frames", "time, s", "in time", "lost", "I", "P"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text} in {svg}");
        }
    }

    #[test]
    fn without_a_mark_there_is_no_plot() {
        assert_eq!(lanes(Vec::new()).draw(), Err(PlotError::NoData));
        assert!(lanes(vec![(3.0, 1)]).draw().is_ok());
    }
}
