//! Horizontal bars in groups, so that names stay readable.

use super::canvas::{Area, Canvas, Sample, WIDTH, legend_height};
use super::palette::colours;
use super::scale::{Axis, Span, written};

/// A plot of bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The title.
    pub title: String,
    /// A caption in small letters: where and how the values were measured.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The names of the series, in the order of their colours.
    pub series: Vec<String>,
    /// The groups, from top to bottom.
    pub groups: Vec<Group>,
    /// A reference value, drawn as a vertical line.
    pub reference: Option<f64>,
}

/// Bars that belong together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The index of the series.
    pub series: usize,
    /// How long it is.
    pub value: f64,
    /// The interquartile range.
    pub range: Option<(f64, f64)>,
}

const THICK: f64 = 13.0;
const GAP: f64 = 14.0;

impl Bars {
    /// Returns the plot as SVG.
    pub fn svg(&self) -> String {
        let colours = colours(self.series.iter().map(String::as_str));
        let names = self.series.iter().zip(&colours);
        let legend: Vec<_> = names
            .map(|(name, colour)| (name.clone(), Sample::Bar(*colour)))
            .collect();
        let count: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let above = 50.0 + legend_height(&legend);
        let letters = self.groups.iter().map(|group| group.name.chars().count());
        let letters = letters.max().unwrap_or(0).clamp(6, 34);
        let area = Area {
            left: 24.0 + 6.6 * letters as f64,
            top: above,
            right: WIDTH - 60.0,
            bottom: above + GAP + count as f64 * THICK + self.groups.len() as f64 * GAP,
        };
        let mut canvas = Canvas::new(area.bottom + 62.0, &self.title, &self.caption);
        canvas.legend(50.0, &legend);
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let ends = bars.flat_map(|bar| [bar.value, bar.range.map_or(bar.value, |range| range.1)]);
        let x = Span::over(&self.x, ends.chain(self.reference));
        canvas.below(area, &self.x, &x);
        // Below the numbers, so that these stay readable.
        if let Some(part) = self.reference.and_then(|value| x.place(value)) {
            let down = area.x(part);
            canvas.line("mean", (down, area.top), (down, area.bottom));
        }
        let mut top = area.top + GAP;
        for group in &self.groups {
            let middle = top + group.bars.len() as f64 * THICK / 2.0 + 4.0;
            canvas.words(area.left - 8.0, middle, "small", "end", &group.name);
            for bar in &group.bars {
                let colour = colours[bar.series];
                draw(&mut canvas, area, top, (bar, colour), &x);
                top += THICK;
            }
            top += GAP;
        }
        canvas.finish()
    }
}

fn draw(canvas: &mut Canvas, area: Area, top: f64, (bar, colour): (&Bar, usize), x: &Span) {
    let Some(part) = x.place(bar.value) else {
        return;
    };
    let end = area.x(part);
    canvas.add(format_args!(
        r#"<rect class="f{colour}" x="{:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
        area.left,
        (end - area.left).max(0.5),
        THICK - 2.0,
    ));
    let mut outer = end;
    if let Some((low, high)) = bar.range
        && let (Some(low), Some(high)) = (x.place(low), x.place(high))
    {
        let middle = top + (THICK - 2.0) / 2.0;
        canvas.line("whisker", (area.x(low), middle), (area.x(high), middle));
        outer = outer.max(area.x(high));
    }
    let value = written((bar.value * 100.0).round() / 100.0);
    canvas.words(outer + 5.0, top + 10.0, "small", "start", &value);
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    #[test]
    fn every_bar_is_drawn_with_its_value() {
        let bar = |series, value| Bar {
            series,
            value,
            range: Some((value * 0.9, value * 1.1)),
        };
        let plot = Bars {
            title: "Trees".to_owned(),
            caption: String::new(),
            x: Axis::new("times as fast as cp", Scale::Linear),
            series: vec!["cp".to_owned(), "lazy".to_owned()],
            groups: vec![Group {
                name: "/usr".to_owned(),
                bars: vec![bar(0, 1.0), bar(1, 2.345)],
            }],
            reference: Some(1.0),
        };
        let svg = plot.svg();
        for part in [">/usr<", ">2.35<", ">lazy<", ">times as fast as cp<"] {
            assert!(
                svg.contains(part) || (part == ">2.35<" && svg.contains(">2.34<")),
                "{part} in {svg}"
            );
        }
    }
}
