//! Aligned text.

use std::fmt::Write;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats lines of cells as columns, two spaces apart, without trailing spaces.
pub(crate) fn columns(align: &[Align], lines: &[Vec<String>]) -> String {
    let mut widths = vec![0; align.len()];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for ((cell, &width), align) in line.iter().zip(&widths).zip(align) {
            let written = match align {
                Align::Left => write!(row, "{cell:<width$}  "),
                Align::Right => write!(row, "{cell:>width$}  "),
            };
            written.expect("a string takes all");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let line = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let lines = [line(["call", "ns", "note"]), line(["stat", "1000", ""])];
        let text = columns(&[Align::Left, Align::Right, Align::Left], &lines);
        assert_eq!(text, "call    ns  note\nstat  1000\n");
    }
}
