//! Axes: maps numbers to positions, and chooses the numbers to print.

/// The quantity and scale of an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// The printed numbers; `None` chooses round ones.
    pub ticks: Vec<f64>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from zero.
    Linear,
    /// Logarithmic; numbers must be positive.
    Log,
}

impl Axis {
    /// Returns an axis with round numbers.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis {
            label: label.to_owned(),
            scale,
            ticks: Vec::new(),
        }
    }

    /// Returns an axis with these numbers.
    pub fn at(mut self, ticks: &[f64]) -> Axis {
        self.ticks = ticks.to_vec();
        self
    }
}

/// An axis with the range of the drawn values.
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Span {
    pub(super) fn over(axis: &Axis, values: impl Iterator<Item = f64>) -> Span {
        let log = axis.scale == Scale::Log;
        let drawn = values.chain(axis.ticks.iter().copied());
        let drawn: Vec<f64> = drawn
            .filter(|value| value.is_finite() && !(log && *value <= 0.0))
            .collect();
        let low = drawn.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let high = drawn.iter().copied().reduce(f64::max).unwrap_or(1.0);
        let (low, high) = match axis.scale {
            Scale::Linear => (low.min(0.0), if high > 0.0 { high * 1.05 } else { 1.0 }),
            Scale::Log if high / low < 1.5 => (low / 1.5, high * 1.5),
            Scale::Log => (low / 1.1, high * 1.1),
        };
        let ticks = match (axis.ticks.is_empty(), axis.scale) {
            (false, _) => axis.ticks.clone(),
            (true, Scale::Linear) => linear_ticks(low, high),
            (true, Scale::Log) => log_ticks(low, high),
        };
        Span {
            scale: axis.scale,
            low,
            high,
            ticks,
        }
    }

    /// Returns the position of a value: 0 to 1, or `None` if it cannot be drawn.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        part.is_finite().then_some(part.clamp(0.0, 1.0))
    }
}

/// Returns about five numbers, each 1, 2 or 5 times a power of ten apart.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Returns powers of ten, and intermediate numbers if there are few.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        few if few < 0.8 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        some if some < 3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    // Of very many powers, every second, third …
    let apart = ((decades / 8.0).ceil() as i32).max(1);
    let powers = (low.log10().floor() as i32..=high.log10().ceil() as i32)
        .filter(|power| power.rem_euclid(apart) == 0);
    powers
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

/// Formats a number of an axis.
pub(super) fn written(value: f64) -> String {
    let (value, unit) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, " G"),
        large if large >= 1e6 => (value / 1e6, " M"),
        large if large >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    // Removes digits that come from rounding errors.
    let rounded = format!("{value:.6}");
    let rounded = rounded.trim_end_matches('0').trim_end_matches('.');
    format!("{rounded}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_chosen() {
        assert_eq!(linear_ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            log_ticks(0.9, 120.0),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
        assert_eq!(log_ticks(0.9, 12000.0), [1.0, 10.0, 100.0, 1000.0, 10000.0]);
    }

    #[test]
    fn numbers_are_written_short() {
        let text = [0.1 + 0.2, 0.05, 1000.0, 20000.0, 2.5e6].map(written);
        assert_eq!(text, ["0.3", "0.05", "1000", "20 k", "2.5 M"]);
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let span = Span::over(&Axis::new("", Scale::Log), [1.0, 100.0, 0.0].into_iter());
        assert_eq!(span.place(0.0), None);
        assert!((span.place(10.0).unwrap() - 0.5).abs() < 1e-9);
        let nothing = Span::over(&Axis::new("", Scale::Linear), std::iter::empty());
        assert_eq!(nothing.place(f64::NAN), None);
    }
}
