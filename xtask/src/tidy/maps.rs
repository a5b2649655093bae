//! Rule: the tables of `docs/modules.md` list every source file with its purpose: the first sentence of its
//! documentation. They are generated between markers such as `<!-- files of xtask/src -->`.

use super::fault::Fault;
use super::sources::File;
use std::collections::BTreeSet;

/// The page with the tables.
pub(crate) const PAGE: &str = "docs/modules.md";

const BEGIN: &str = "<!-- files of ";
const END: &str = "<!-- end of files -->";

/// Returns the files without a purpose, the crates without a table, and the first line that is out of date.
pub(crate) fn faults(files: &[File]) -> Vec<Fault> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let folders: Vec<&str> = page.text.lines().filter_map(folder).collect();
    for file in files {
        let is_listed = folders.iter().any(|folder| name_in(file, folder).is_some());
        if is_listed && purpose(file).is_none() {
            let what = "begin the file with a sentence that says what it is for (`//! …`)";
            faults.push(fault(&file.path, 1, what));
        }
    }
    let packages = files.iter().filter(|file| file.below_src().is_some());
    let packages: BTreeSet<&str> = packages.map(|file| &*file.package).collect();
    for package in packages {
        let src = format!("{package}/src");
        if !folders.contains(&&*src) {
            let what = format!("add a table of {src}: `{BEGIN}{src} -->` and `{END}`");
            faults.push(fault(PAGE, 1, &what));
        }
    }
    let current = generate(&page.text, files);
    if current != page.text {
        let lines = page.text.lines().zip(current.lines());
        let same = lines.take_while(|(old, new)| old == new).count();
        let what = "out of date: run `cargo xtask tidy --update`";
        faults.push(fault(PAGE, same + 1, what));
    }
    faults
}

fn fault(path: &str, line: usize, what: &str) -> Fault {
    Fault {
        rule: "maps",
        key: path.to_owned(),
        place: format!("{path}:{line}"),
        what: what.to_owned(),
    }
}

/// Returns the page with current tables.
pub(crate) fn generate(page: &str, files: &[File]) -> String {
    let mut text = String::new();
    let mut in_table = false;
    for line in page.lines() {
        in_table &= line != END;
        if !in_table {
            text += line;
            text += "\n";
        }
        if let Some(folder) = folder(line) {
            in_table = true;
            text += &table(folder, files);
        }
    }
    text
}

/// The folder of a marker.
fn folder(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(" -->")
}

fn table(folder: &str, files: &[File]) -> String {
    let files = files
        .iter()
        .filter_map(|file| Some((name_in(file, folder)?, file)));
    let mut files: Vec<_> = files.collect();
    files.sort_by_cached_key(|(name, _)| order(name));
    let mut text = "\n| file | purpose |\n| --- | --- |\n".to_owned();
    for (name, file) in files {
        let purpose = purpose(file).unwrap_or_default();
        text += &format!("| `{name}` | {purpose} |\n");
    }
    text + "\n"
}

/// The name of a source file below a folder.
fn name_in<'a>(file: &'a File, folder: &str) -> Option<&'a str> {
    let name = file.path.strip_prefix(folder)?.strip_prefix('/')?;
    let is_source = name.ends_with(".rs") || documentation(file).is_some();
    is_source.then_some(name)
}

/// A module comes before its children, and the root of a crate before all others.
fn order(name: &str) -> Vec<String> {
    let (stem, _) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let is_root = parts
        .last()
        .is_some_and(|last| matches!(&**last, "lib" | "main" | "__init__" | "mod"));
    if is_root {
        parts.pop();
    }
    parts
}

/// The first sentence of a file's documentation, as a cell of a table.
fn purpose(file: &File) -> Option<String> {
    let text = documentation(file)?;
    let first = sentence(&text);
    let plain = without_links(first.trim_end_matches(['.', ':']));
    (!plain.is_empty()).then(|| plain.replace('|', "\\|"))
}

/// The first paragraph of a file's documentation, as one line.
fn documentation(file: &File) -> Option<String> {
    let kind = file.path.rsplit('.').next().unwrap_or_default();
    let lines: Vec<&str> = match kind {
        "rs" => {
            let lines = file.text.lines();
            let lines =
                lines.take_while(|line| !line.starts_with("mod ") && !line.starts_with("use "));
            let lines = lines.skip_while(|line| !line.starts_with("//!"));
            lines.map_while(|line| line.strip_prefix("//!")).collect()
        }
        "py" => {
            let text = file.text.trim_start_matches(['#', '!']);
            let text = text.split("\"\"\"").nth(1).unwrap_or_default();
            text.lines().collect()
        }
        "h" | "hpp" => {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            let begin = format!(" * {name} - ");
            let at = file.text.find(&begin).map(|at| at + begin.len());
            let comment = at.map_or("", |at| &file.text[at..]);
            let lines = comment.lines().take_while(|line| *line != " */");
            lines.map(|line| line.trim_start_matches(" *")).collect()
        }
        _ => return None,
    };
    let paragraph = lines.iter().map(|line| line.trim());
    let paragraph: Vec<_> = paragraph.take_while(|line| !line.is_empty()).collect();
    Some(paragraph.join(" "))
}

/// The text up to a period before a word that begins a sentence.
fn sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").find(|(at, _)| {
        let next = text[at + 2..].chars().next();
        next.is_some_and(|next| next.is_uppercase() || matches!(next, '`' | '['))
    });
    ends.map_or(text, |(at, _)| &text[..at])
}

/// Replaces links, which would lead elsewhere from the page, by their text.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inside, after)) = after.split_once(']') else {
            break;
        };
        plain += before;
        plain += inside;
        rest = after;
        if let Some((_, after)) = after.strip_prefix('(').and_then(|it| it.split_once(')')) {
            rest = after;
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            package: "a".into(),
            text: text.into(),
        }
    }

    #[test]
    fn tables_are_replaced_and_prose_stays() {
        let page = "one\n<!-- files of a/src -->\nold\n<!-- end of files -->\ntwo\n";
        let files = [
            file(
                "a/src/b.rs",
                "//! The [`B`] of\n//! [c](d): e.g. f. Not this.\n\nuse x;",
            ),
            file("a/src/b/z.rs", "//! Z.\n"),
            file("a/src/b_c.rs", "//! C | D\n//!\n//! More.\n"),
            file("a/src/lib.rs", "#![forbid(unsafe_code)]\n//! The root.\n"),
            file(PAGE, page),
        ];
        let rows = "| file | purpose |\n| --- | --- |\n| `lib.rs` | The root |\n\
                    | `b.rs` | The `B` of c: e.g. f |\n| `b/z.rs` | Z |\n| `b_c.rs` | C \\| D |\n";
        let expected =
            format!("one\n<!-- files of a/src -->\n\n{rows}\n<!-- end of files -->\ntwo\n");
        assert_eq!(generate(page, &files), expected);
        let found = faults(&files);
        assert_eq!((found.len(), &*found[0].place), (1, "docs/modules.md:3"));
        assert_eq!(generate(&expected, &files), expected);
    }

    #[test]
    fn each_file_has_a_purpose_and_each_crate_a_table() {
        let files = [
            file("a/src/b.rs", "use x;\n"),
            file("a/inc/c.h", "/* \n * c.h - A header. It.\n */"),
            file(PAGE, ""),
        ];
        assert!(faults(&files)[0].what.starts_with("add a table of a/src"));
        let table = |folder: &str| format!("{BEGIN}{folder} -->\n{END}\n");
        let text = generate(&(table("a/inc") + &table("a/src")), &files);
        assert!(text.contains("| `c.h` | A header |"));
        let files = [
            file("a/src/b.rs", "use x;\n"),
            file(PAGE, &text.replace("| `c.h` | A header |\n", "")),
        ];
        assert_eq!(faults(&files)[0].place, "a/src/b.rs:1");
        assert_eq!(faults(&files).len(), 1);
    }
}
