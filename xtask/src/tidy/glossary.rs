//! Rule: each term of the glossary occurs outside of it.

use super::fault::Fault;
use super::sources::File;

const GLOSSARY: &str = "docs/glossary.md";

/// Returns the terms that neither code nor documents use.
pub(crate) fn faults(files: &[File]) -> Vec<Fault> {
    let Some(glossary) = files.iter().find(|file| file.path == GLOSSARY) else {
        return Vec::new();
    };
    let others = files.iter().filter(|file| file.path != GLOSSARY);
    // Pages first, which use most terms.
    let mut others: Vec<_> = others.collect();
    others.sort_by_key(|file| !file.path.ends_with(".md"));
    let others = others.into_iter();
    let others: Vec<String> = others.map(|file| file.text.to_ascii_lowercase()).collect();
    let mut faults = Vec::new();
    for (index, line) in glossary.text.lines().enumerate() {
        let Some(term) = term(line) else { continue };
        let forms = forms(term);
        let is_used = |form: &String| others.iter().any(|text| text.contains(form));
        if !forms.iter().any(is_used) {
            faults.push(Fault {
                rule: "glossary",
                key: term.to_owned(),
                place: format!("{GLOSSARY}:{}", index + 1),
                what: format!("nothing uses the term \"{term}\": remove its row"),
            });
        }
    }
    faults
}

/// The term of a row, without the part of the project in parentheses.
fn term(line: &str) -> Option<&str> {
    let (term, _) = line.strip_prefix("| ")?.split_once(" |")?;
    let term = term.split(" (").next()?.trim_matches('`');
    (term != "term" && !term.starts_with("---")).then_some(term)
}

/// How prose and names of code write a term.
fn forms(term: &str) -> Vec<String> {
    let term = term.to_ascii_lowercase();
    let names = ["_", "", "-"].map(|link| term.replace([' ', '-'], link).replace('/', ""));
    std::iter::once(term).chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_may_be_a_name_of_the_code() {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            package: String::new(),
            text: text.into(),
        };
        let rows = "| term | meaning |\n| --- | --- |\n| back end (server) | x |\n| dead term | x |\n| I/O flight | x |\n";
        let files = [
            file(GLOSSARY, rows),
            file("a.rs", "struct IoFlight; let back_end;"),
        ];
        let faults = faults(&files);
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (&*fault.key, &*fault.place))
            .collect();
        assert_eq!(found, [("dead term", "docs/glossary.md:4")]);
    }
}
