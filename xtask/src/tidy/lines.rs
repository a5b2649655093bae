//! Rule: a line of a source file has at most 110 characters.

use super::fault::Fault;
use super::sources::File;

const LIMIT: usize = 110;

/// Returns the lines that are longer: comments and strings, which rustfmt leaves as they are.
pub(crate) fn faults(files: &[File]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, line) in file.text.lines().enumerate() {
            // Counting characters takes longer than the number of bytes.
            if line.len() <= LIMIT || line.chars().count() <= LIMIT {
                continue;
            }
            faults.push(Fault {
                rule: "lines",
                key: file.path.clone(),
                place: format!("{}:{}", file.path, index + 1),
                what: format!("more than {LIMIT} characters: break the line"),
            });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_only_in_source_files() {
        let file = |path: &str| File {
            path: path.into(),
            package: String::new(),
            text: format!("{}\n{}\n", "ä".repeat(LIMIT), "ä".repeat(LIMIT + 1)),
        };
        let faults = faults(&[file("a.rs"), file("a.md")]);
        let places: Vec<_> = faults.iter().map(|fault| &*fault.place).collect();
        assert_eq!(places, ["a.rs:2"]);
    }
}
