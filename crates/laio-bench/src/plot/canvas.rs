//! The common parts of all plots: colours, title, caption, legend and axes.

use super::scale::{Axis, Span, written};
use std::fmt::Write;

/// The width of every plot: that of a page.
pub(super) const WIDTH: f64 = 760.0;
/// The number of distinguishable series; beyond it colours repeat.
pub(super) const COLOURS: usize = 10;

const LIGHT: [&str; COLOURS] = [
    "#0068a8", "#c94f00", "#00865f", "#b1488b", "#8a6a00", "#3d8fd1", "#555555", "#8f4a2b",
    "#6a3fb5", "#007d85",
];
const DARK: [&str; COLOURS] = [
    "#5bb5f0", "#ff9d5c", "#3fd6a4", "#f59bd0", "#eac435", "#9fd0ff", "#c8c8c8", "#dba27f",
    "#bd9bff", "#52d6dd",
];

/// The rectangle in which data is drawn.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn x(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    pub(super) fn y(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - self.top)
    }
}

/// An SVG image under construction.
pub(super) struct Canvas {
    text: String,
}

impl Canvas {
    pub(super) fn new(height: f64, title: &str, caption: &str) -> Canvas {
        let mut canvas = Canvas {
            text: String::new(),
        };
        canvas.add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{}">"#,
            escaped(title)
        ));
        canvas.add(format_args!("<style>{}</style>", style()));
        canvas.add(format_args!(
            r#"<rect class="sheet" width="{WIDTH}" height="{height}"/>"#
        ));
        canvas.words(16.0, 26.0, "title", "start", title);
        canvas.words(16.0, height - 10.0, "small", "start", caption);
        canvas
    }

    pub(super) fn add(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("a string takes all");
    }

    pub(super) fn words(&mut self, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
        let words = escaped(words);
        self.add(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws grid, numbers and label of the horizontal axis.
    pub(super) fn below(&mut self, area: Area, axis: &Axis, span: &Span) {
        for tick in &span.ticks {
            let Some(part) = span.place(*tick) else {
                continue;
            };
            let x = area.x(part);
            self.line("grid", (x, area.top), (x, area.bottom));
            self.words(x, area.bottom + 16.0, "small", "middle", &written(*tick));
        }
        let middle = (area.left + area.right) / 2.0;
        self.words(middle, area.bottom + 34.0, "label", "middle", &axis.label);
    }

    /// Draws grid, numbers and label of the vertical axis; its label is horizontal, above the axis.
    pub(super) fn left(&mut self, area: Area, axis: &Axis, span: &Span) {
        for tick in &span.ticks {
            let Some(part) = span.place(*tick) else {
                continue;
            };
            let y = area.y(part);
            self.line("grid", (area.left, y), (area.right, y));
            self.words(area.left - 6.0, y + 4.0, "small", "end", &written(*tick));
        }
        self.words(16.0, area.top - 10.0, "label", "start", &axis.label);
    }

    /// Draws the legend, in as many lines as necessary.
    pub(super) fn legend(&mut self, top: f64, entries: &[(String, Sample)]) {
        for ((name, sample), (x, y)) in entries.iter().zip(legend_places(top, entries)) {
            match *sample {
                Sample::Bar(colour) => self.add(format_args!(
                    r#"<rect class="f{colour}" x="{x:.1}" y="{:.1}" width="18" height="10"/>"#,
                    y - 9.0
                )),
                Sample::Line(colour, dash) => {
                    let class = format!("s{colour}{}", if dash { " dash" } else { "" });
                    self.line(&class, (x, y - 4.0), (x + 18.0, y - 4.0));
                    self.mark(colour, x + 9.0, y - 4.0);
                }
            }
            self.words(x + 24.0, y, "small", "start", name);
        }
    }

    /// Draws a point, whose shape also identifies its series.
    pub(super) fn mark(&mut self, colour: usize, x: f64, y: f64) {
        match colour % 3 {
            0 => self.add(format_args!(
                r#"<circle class="f{colour}" cx="{x:.1}" cy="{y:.1}" r="3.2"/>"#
            )),
            1 => self.add(format_args!(
                r#"<rect class="f{colour}" x="{:.1}" y="{:.1}" width="6" height="6"/>"#,
                x - 3.0,
                y - 3.0
            )),
            _ => self.add(format_args!(
                r#"<path class="f{colour}" d="M{x:.1} {:.1}l4 7h-8z"/>"#,
                y - 4.0
            )),
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// The symbol of a series in the legend.
#[derive(Clone, Copy)]
pub(super) enum Sample {
    Bar(usize),
    Line(usize, bool),
}

/// Returns the height of a legend.
pub(super) fn legend_height(entries: &[(String, Sample)]) -> f64 {
    let last = legend_places(0.0, entries).last();
    last.map_or(0.0, |(_, y)| y + 18.0)
}

fn legend_places(top: f64, entries: &[(String, Sample)]) -> impl Iterator<Item = (f64, f64)> {
    let (mut x, mut y) = (16.0, top);
    entries.iter().map(move |(name, _)| {
        // Seven units are the width of most letters of this size.
        let width = 24.0 + 7.0 * name.chars().count() as f64 + 16.0;
        if x + width > WIDTH && x > 16.0 {
            (x, y) = (16.0, y + 18.0);
        }
        let place = (x, y);
        x += width;
        place
    })
}

/// The style of all plots; included in each plot, and once in a page with many.
pub(crate) fn style() -> String {
    let mut style = "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\
        .title{font-size:16px;font-weight:600}.label{font-size:13px}.small{font-size:12px}\
        .grid{stroke-width:1}.whisker{stroke-width:1.5;opacity:.65}.mean{stroke-width:1.5;stroke-dasharray:2 3}\
        .dash{stroke-dasharray:6 4}"
        .to_owned();
    style.push_str(&theme("#ffffff", "#1b1f24", "#dfe3e8", &LIGHT));
    let dark = theme("#14171c", "#e4e8ee", "#333a44", &DARK);
    style.push_str(&format!("@media(prefers-color-scheme:dark){{{dark}}}"));
    style
}

fn theme(sheet: &str, ink: &str, grid: &str, colours: &[&str]) -> String {
    let mut style = format!(
        ".sheet{{fill:{sheet}}}text{{fill:{ink};stroke:{sheet};stroke-width:3px;paint-order:stroke}}.grid{{stroke:{grid}}}.whisker,.mean{{stroke:{ink}}}"
    );
    for (number, colour) in colours.iter().enumerate() {
        style.push_str(&format!(
            ".s{number}{{stroke:{colour};stroke-width:2;fill:none}}.f{number}{{fill:{colour}}}"
        ));
    }
    style
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
