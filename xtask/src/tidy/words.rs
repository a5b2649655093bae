//! Rule: comments and documents use the field's words.

use super::fault::Fault;
use super::maps;
use super::sources::{File, Source};

/// Each phrase with the name under which it is counted, and what to write instead.
const PHRASES: [(&str, &str, &str); 13] = [
    ("told", "told", "say who says, passes or sets what"),
    ("heard", "heard", "name the event"),
    (
        "whoever",
        "whoever",
        "name the reader, the client or the thread",
    ),
    ("nobody", "nobody", "name what does not happen"),
    ("is to be", "is to be", "write must or should"),
    ("to be had", "to be had", "write available"),
    ("with a word", "with a word", "say what is printed"),
    ("or none", "none", NONE),
    ("is none", "none", NONE),
    ("none if", "none", NONE),
    ("returns none", "none", NONE),
    ("those of", "those of", REPEAT),
    ("that of", "that of", REPEAT),
];
const NONE: &str = "write `None`, nothing, or no with its noun";
const REPEAT: &str = "repeat the noun";

/// Returns the phrases that must not occur, outside code.
pub(crate) fn faults(files: &[File], sources: &[Source<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        let comments = source.tokens.comments.iter();
        let words = words(comments.map(|comment| (comment.line, comment.text)));
        find(&source.file.path, &source.file.package, &words, &mut faults);
    }
    for file in files {
        let Some(folder) = folder(file) else { continue };
        let lines = file.text.lines().enumerate();
        let words = words(lines.map(|(index, line)| (index + 1, line)));
        find(&file.path, folder, &words, &mut faults);
    }
    faults
}

/// The folder under which the words of a document are counted. The changelog has the words of its time, and
/// the map of modules repeats comments.
fn folder(file: &File) -> Option<&'static str> {
    let path = &file.path;
    let is_page = path.starts_with("docs/") || !path.contains('/');
    let is_left_out = path == "CHANGELOG.md" || path == maps::PAGE;
    if path.starts_with("man/") {
        Some("man")
    } else if path.ends_with(".md") && is_page && !is_left_out {
        Some("docs")
    } else {
        None
    }
}

struct Word<'a> {
    text: &'a str,
    line: usize,
    /// Whether a phrase may go on with the next word.
    goes_on: bool,
}

/// Returns the words of consecutive lines, without words of code.
fn words<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Word<'a>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut in_code = false;
    let mut previous = 0;
    for (line, text) in lines {
        let is_fence = text.trim_start().starts_with("```");
        let follows = line == previous + 1 && !text.trim().is_empty();
        if let (Some(last), false) = (words.last_mut(), follows && !is_fence) {
            last.goes_on = false;
        }
        previous = line;
        in_code ^= is_fence;
        if in_code || is_fence {
            continue;
        }
        for prose in text.split('`').step_by(2) {
            words.extend(prose.split_whitespace().map(|text| Word {
                text: text.trim_matches(|c: char| !c.is_alphanumeric()),
                line,
                goes_on: !text.ends_with(['.', ':', ';', '!', '?']),
            }));
        }
    }
    words
}

fn find(path: &str, counted: &str, words: &[Word<'_>], faults: &mut Vec<Fault>) {
    let mut at = 0;
    while at < words.len() {
        let found = PHRASES.iter().find(|phrase| begins(&words[at..], phrase.0));
        let Some((phrase, name, advice)) = found else {
            at += 1;
            continue;
        };
        faults.push(Fault {
            rule: "words",
            key: format!("{counted} {name}"),
            place: format!("{path}:{}", words[at].line),
            what: format!("\"{phrase}\": {advice}"),
        });
        at += phrase.split(' ').count();
    }
}

fn begins(words: &[Word<'_>], phrase: &str) -> bool {
    let mut goes_on = true;
    let mut rest = words.iter();
    phrase.split(' ').all(|wanted| {
        let word = rest.next().filter(|_| goes_on);
        goes_on = word.is_some_and(|word| word.goes_on);
        word.is_some_and(|word| word.text.eq_ignore_ascii_case(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: path.into(),
            package: "a".into(),
            text: text.into(),
        };
        let sources: Vec<_> = file
            .is_rust()
            .then(|| Source::from_file(&file))
            .into_iter()
            .collect();
        let faults = faults(std::slice::from_ref(&file), &sources);
        let lines = faults
            .iter()
            .map(|fault| format!("{} {}", fault.place, fault.key));
        lines.collect()
    }

    #[test]
    fn phrases_of_comments_are_found_across_lines() {
        let text = "/// Returns none if there is\n/// none. Told `told`.\nlet told = \"told\";\n\
                    // is\n\n// none\n";
        let expected = ["a.rs:1 a none", "a.rs:1 a none", "a.rs:2 a told"];
        assert_eq!(found("a.rs", text), expected);
    }

    #[test]
    fn documents_are_prose_but_for_their_code() {
        let text = "As that of it is. None of it.\n```\ntold\n```\n`told` Whoever\n";
        assert_eq!(
            found("docs/a.md", text),
            ["docs/a.md:1 docs that of", "docs/a.md:5 docs whoever"]
        );
        assert_eq!(found("CHANGELOG.md", text), [""; 0]);
    }
}
