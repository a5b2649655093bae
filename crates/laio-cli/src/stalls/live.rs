//! The view while the program runs: the longest wait of each second, and the calls that waited most.

use laio_stalls::{Watch, length};
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

/// The time between two pictures.
const EVERY: Duration = Duration::from_millis(250);

/// How many calls are shown.
const ROWS: usize = 5;

/// How many seconds are shown.
const COLUMNS: usize = 40;

/// How many characters of a file's name are shown.
const NAME: usize = 44;

/// A picture on a terminal, which the next one replaces.
pub(super) struct LiveView {
    is_shown: bool,
    last: Duration,
    lines: usize,
}

impl LiveView {
    pub(super) fn new(is_quiet: bool) -> LiveView {
        LiveView {
            is_shown: !is_quiet && stderr().is_terminal(),
            last: Duration::ZERO,
            lines: 0,
        }
    }

    pub(super) fn show(&mut self, watch: &Watch) {
        let now = watch.lasted();
        if !self.is_shown || now - self.last < EVERY {
            return;
        }
        self.last = now;
        let picture = picture(watch, now);
        let text = format!("{}{picture}", self.erasure());
        self.lines = picture.lines().count();
        // An error is ignored, because the picture is only informative.
        let _ = stderr().write_all(text.as_bytes());
    }

    pub(super) fn clear(&mut self) {
        let _ = stderr().write_all(self.erasure().as_bytes());
        self.lines = 0;
    }

    /// Moves the cursor to the start of the picture, and clears what follows.
    fn erasure(&self) -> String {
        match self.lines {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }
}

fn picture(watch: &Watch, now: Duration) -> String {
    let report = watch.report();
    let mut entries: Vec<_> = report.entries.iter().collect();
    entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.total));
    let first = report.intervals.len().saturating_sub(COLUMNS);
    let mut text = format!(
        "{:>8} {} longest {}\n",
        length(now),
        sparkline(&report.intervals[first..]),
        length(report.longest())
    );
    for (key, entry) in entries.iter().take(ROWS) {
        let skipped = key.subject.chars().count().saturating_sub(NAME);
        let end: String = key.subject.chars().skip(skipped).collect();
        let row = format!(
            "{:>9} ×{:<6} {} {end}\n",
            length(entry.longest),
            entry.count,
            key.call
        );
        text.push_str(&row);
    }
    text
}

/// One character for each interval, as high as the logarithm of its longest wait: from 1 ms to 1 s.
fn sparkline(intervals: &[Duration]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |interval: &Duration| match interval.as_secs_f64() * 1e3 {
        ..1.0 => ' ',
        milliseconds => LEVELS[((milliseconds.log10() / 3.0 * 7.0) as usize).min(7)],
    };
    intervals.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_logarithmic() {
        let line = sparkline(&[0, 1, 10, 100, 1000, 100_000].map(Duration::from_millis));
        assert_eq!(line, " ▁▃▅██");
    }
}
