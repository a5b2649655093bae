//! Values over an axis.

use super::canvas::{Area, Canvas, Sample, WIDTH, legend_height};
use super::palette::colours;
use super::scale::{Axis, Span};

/// A plot of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// A caption in small letters: where and how the values were measured.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// A reference value, drawn as a horizontal line.
    pub reference: Option<f64>,
}

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// The interquartile range of each point, or empty.
    pub ranges: Vec<(f64, f64)>,
    /// The style of the series.
    pub style: Style,
}

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with points.
    Line,
    /// A dashed line with points: published values.
    Dashed,
    /// A line without points, for many values.
    Plain,
    /// Points without a line.
    Points,
}

const HEIGHT: f64 = 300.0;

impl Lines {
    /// Returns the plot as SVG.
    pub fn svg(&self) -> String {
        let colours = colours(self.series.iter().map(|series| series.name.as_str()));
        let coloured = || self.series.iter().zip(&colours);
        let legend: Vec<_> = coloured().map(entry).collect();
        let above = 50.0 + legend_height(&legend) + 22.0;
        let area = Area {
            left: 64.0,
            top: above,
            right: WIDTH - 24.0,
            bottom: above + HEIGHT,
        };
        let height = area.bottom + 62.0;
        let mut canvas = Canvas::new(height, &self.title, &self.caption);
        canvas.legend(50.0, &legend);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ranges = self.series.iter().flat_map(|series| &series.ranges);
        let ranges = ranges.flat_map(|range| [range.0, range.1]);
        let x = Span::over(&self.x, points().map(|point| point.0));
        let y = points().map(|point| point.1);
        let y = Span::over(&self.y, y.chain(ranges).chain(self.reference));
        canvas.below(area, &self.x, &x);
        canvas.left(area, &self.y, &y);
        if let Some(part) = self.reference.and_then(|value| y.place(value)) {
            let across = area.y(part);
            canvas.line("mean", (area.left, across), (area.right, across));
        }
        for (series, colour) in coloured() {
            draw(&mut canvas, area, *colour, series, (&x, &y));
        }
        canvas.finish()
    }
}

fn entry((series, colour): (&Series, &usize)) -> (String, Sample) {
    let dashed = series.style == Style::Dashed;
    (series.name.clone(), Sample::Line(*colour, dashed))
}

fn draw(canvas: &mut Canvas, area: Area, colour: usize, series: &Series, (x, y): (&Span, &Span)) {
    let place = |point: &(f64, f64)| Some((area.x(x.place(point.0)?), area.y(y.place(point.1)?)));
    for (point, range) in series.points.iter().zip(&series.ranges) {
        let ends = (place(&(point.0, range.0)), place(&(point.0, range.1)));
        if let (Some(low), Some(high)) = ends {
            canvas.line("whisker", low, high);
        }
    }
    let places: Vec<_> = series.points.iter().filter_map(place).collect();
    if series.style != Style::Points {
        let path: Vec<_> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let dash = if series.style == Style::Dashed {
            " dash"
        } else {
            ""
        };
        let path = path.join(" ");
        canvas.add(format_args!(
            r#"<polyline class="s{colour}{dash}" points="{path}"/>"#
        ));
    }
    if series.style != Style::Plain {
        for (x, y) in places {
            canvas.mark(colour, x, y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Scale};
    use super::*;

    #[test]
    fn a_plot_has_axes_units_and_a_legend() {
        let plot = Lines {
            title: "Copying <trees> & more".to_owned(),
            caption: "Linux".to_owned(),
            x: Axis::new("file size, KiB", Scale::Log).at(&[4.0, 8.0, 16.0]),
            y: Axis::new("time, s", Scale::Linear),
            series: vec![Series {
                name: "lazy".to_owned(),
                points: vec![(4.0, 1.0), (8.0, 0.5), (16.0, f64::NAN)],
                ranges: vec![(0.9, 1.1)],
                style: Style::Line,
            }],
            reference: Some(1.0),
        };
        let svg = plot.svg();
        for part in [
            "Copying &lt;trees&gt; &amp; more",
            "file size, KiB",
            "time, s",
            ">lazy<",
            ">16<",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("NaN"), "{svg}");
        // Two drawable points, and one in the legend.
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
