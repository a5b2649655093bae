//! Plots as SVG: lines over an axis, and bars in groups. Readable at page width, and in light and dark mode.
//!
//! A small writer of our own, because the available crates draw for one background.

mod bars;
mod canvas;
mod lines;
mod palette;
mod scale;

pub use bars::{Bar, Bars, Group};
pub(crate) use canvas::style;
pub use lines::{Lines, Series, Style};
pub use scale::{Axis, Scale};
