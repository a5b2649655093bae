//! Aligned text.

use std::fmt::Write;

/// Formats lines of cells as columns, two spaces apart, without trailing spaces. Those in `left` begin at the left,
/// the others end at the right.
pub(crate) fn columns(left: &[usize], lines: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(line.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (index, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let written = if left.contains(&index) {
                write!(row, "{cell:<width$}  ")
            } else {
                write!(row, "{cell:>width$}  ")
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
        let text = columns(&[0, 2], &lines);
        assert_eq!(text, "call    ns  note\nstat  1000\n");
    }
}
