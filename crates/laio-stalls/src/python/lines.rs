//! The table of lines of a function, as CPython has it since 3.11.

/// The line of an instruction, by its index. `None` if the table has none for it.
pub(super) fn line(table: &[u8], first: u32, instruction: u64) -> Option<u32> {
    /// The forms of an entry: a change of line of 0, 1 or 2, one with columns that follow, one without, and
    /// no line. All others stay in the line.
    const ONE_LINE: std::ops::RangeInclusive<u8> = 10..=12;
    const NO_COLUMNS: u8 = 13;
    const LONG: u8 = 14;
    const NONE: u8 = 15;
    let mut line = i64::from(first);
    let mut end = 0;
    let mut rest = table;
    while let Some((&head, after)) = rest.split_first() {
        // Only the first byte of an entry has this bit.
        let length = after.iter().position(|byte| byte & 0x80 != 0);
        let (body, next) = after.split_at(length.unwrap_or(after.len()));
        rest = next;
        end += u64::from(head & 7) + 1;
        let form = head >> 3 & 15;
        line += match form {
            NO_COLUMNS | LONG => signed(body),
            form if ONE_LINE.contains(&form) => i64::from(form - ONE_LINE.start()),
            _ => 0,
        };
        if instruction < end {
            return if form == NONE {
                None
            } else {
                u32::try_from(line).ok()
            };
        }
    }
    None
}

/// A number in groups of six bits, the lowest first, whose lowest bit is its sign.
fn signed(bytes: &[u8]) -> i64 {
    /// Six bits of each, and more would not fit.
    const MOST: usize = 6;
    let mut number = 0;
    for (index, byte) in bytes.iter().take(MOST).enumerate() {
        number |= i64::from(byte & 63) << (6 * index);
        if byte & 64 == 0 {
            break;
        }
    }
    if number & 1 == 1 {
        -(number >> 1)
    } else {
        number >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_each_form() {
        // Two instructions in line 10, one in line 12, one without a line, three 40 lines on, one back.
        let table = [
            0x81, 0x12, 0xe0, 4, 9, 0xf8, 0xea, 0x50, 1, 0xe8, 3, 0x80, 0x00,
        ];
        let lines: Vec<_> = (0..10).map(|index| line(&table, 10, index)).collect();
        let expected = [10, 10, 12, 0, 52, 52, 52, 51, 51, 0];
        assert_eq!(lines, expected.map(|line| (line > 0).then_some(line)));
        assert_eq!(line(&[], 1, 0), None);
        assert_eq!(line(&[0xe8], 1, 0), Some(1));
    }
}
