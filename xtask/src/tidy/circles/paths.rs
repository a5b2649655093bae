//! Reads the modules, items, imports and paths that the tokens of a file have.

use crate::tidy::sources::group;
use crate::tidy::tokens::Token;
use std::collections::BTreeSet;

/// What a module contains: a file, or an inline module of one.
#[derive(Debug, Default)]
pub(crate) struct Contents<'a> {
    /// The modules that other files have.
    pub(crate) declared: Vec<&'a str>,
    pub(crate) inline: Vec<(&'a str, Contents<'a>)>,
    /// The names of its items.
    pub(crate) items: BTreeSet<&'a str>,
    pub(crate) imports: Vec<Import<'a>>,
    /// Paths outside of `use`.
    pub(crate) paths: Vec<Path<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import<'a> {
    /// The name that the module gets; `*` for all names.
    pub(crate) name: &'a str,
    pub(crate) path: Path<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    pub(crate) segments: Vec<&'a str>,
    pub(crate) line: usize,
}

const KEYWORDS: [&str; 9] = [
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "const",
    "static",
    "macro_rules",
];

pub(crate) fn read<'a>(code: &[Token<'a>]) -> Contents<'a> {
    let mut contents = Contents::default();
    let mut depth = 0;
    let mut at = 0;
    while at < code.len() {
        let text = |ahead: usize| code.get(at + ahead).map_or("", |token| token.text);
        match (text(0), text(2)) {
            ("mod", ";") => {
                contents.declared.push(text(1));
                at += 3;
            }
            ("mod", "{") => {
                let length = group(&code[at + 2..]);
                let inside = &code[at + 3..at + 1 + length];
                contents.inline.push((text(1), read(inside)));
                at += 2 + length;
            }
            ("use", _) => at += 1 + read_use(&code[at + 1..], &mut contents.imports),
            (keyword, after) if depth == 0 && KEYWORDS.contains(&keyword) => {
                let name = if text(1) == "!" { after } else { text(1) };
                contents.items.insert(name);
                at += 1;
            }
            (first, _) if text(1) == "::" && begins_path(first, &code[..at]) => {
                let (path, length) = read_path(&code[at..]);
                contents.paths.push(path);
                at += length;
            }
            (other, _) => {
                match other {
                    "{" => depth += 1,
                    "}" => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
    }
    contents
}

/// Names of types are left out: where their names come from, an import says.
fn begins_path(first: &str, before: &[Token<'_>]) -> bool {
    let previous = before.last().map_or("", |token| token.text);
    let of_visibility =
        previous == "in" && before.len() > 1 && before[before.len() - 2].text == "(";
    let lower = first.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    lower && previous != "::" && previous != "." && !of_visibility
}

fn read_path<'a>(code: &[Token<'a>]) -> (Path<'a>, usize) {
    let mut segments = vec![code[0].text];
    let mut at = 1;
    while let [link, word, ..] = &code[at..] {
        if link.text != "::"
            || !word
                .text
                .starts_with(|c: char| c == '_' || c.is_alphabetic())
        {
            break;
        }
        segments.push(word.text);
        at += 2;
    }
    let line = code[at - 1].line;
    (Path { segments, line }, at)
}

/// Reads a `use` up to its semicolon; returns the number of tokens.
fn read_use<'a>(code: &[Token<'a>], imports: &mut Vec<Import<'a>>) -> usize {
    let length = code.iter().position(|token| token.text == ";");
    let length = length.unwrap_or(code.len());
    read_tree(&code[..length], &[], imports);
    length
}

/// Reads a path, or one that ends with a group of paths.
fn read_tree<'a>(code: &[Token<'a>], before: &[&'a str], imports: &mut Vec<Import<'a>>) {
    let mut segments = before.to_vec();
    let mut name = None;
    let mut line = 0;
    for (at, token) in code.iter().enumerate() {
        line = token.line;
        match token.text {
            // A leading one means another crate, whose name is no module.
            "::" => {}
            "as" => {
                name = code.get(at + 1).map(|token| token.text);
                break;
            }
            "{" => {
                let inside = &code[at + 1..code.len() - 1];
                for part in parts(inside) {
                    read_tree(part, &segments, imports);
                }
                return;
            }
            "self" if !segments.is_empty() => {}
            word => segments.push(word),
        }
    }
    let Some(&last) = segments.last() else { return };
    if last == "*" {
        segments.pop();
    }
    let name = name.unwrap_or(last);
    let path = Path { segments, line };
    imports.push(Import { name, path });
}

/// Divides the contents of a group at its commas.
fn parts<'b, 'a>(code: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let mut depth = 0;
    let parts = code.split(|token| {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tokens::split;

    #[test]
    fn groups_of_imports_are_paths_with_names() {
        let tokens = split("use a::{self, b::{C, d as e},\n f::*};");
        let contents = read(&tokens.code);
        let imports = contents.imports.iter();
        let imports: Vec<_> = imports
            .map(|it| {
                format!(
                    "{}={}:{}",
                    it.name,
                    it.path.segments.join("::"),
                    it.path.line
                )
            })
            .collect();
        assert_eq!(imports, ["a=a:1", "C=a::b::C:1", "e=a::b::d:1", "*=a::f:2"]);
    }

    #[test]
    fn modules_items_and_paths_are_found() {
        let text = "mod a; mod b { struct C; mod d; } fn e() { fn no() {} f::g::<h::I>(j.k::<L>()); M::n() }\n\
                    macro_rules! o { () => { $crate::p } } pub(in crate::q) const R: u8 = 0;";
        let tokens = split(text);
        let contents = read(&tokens.code);
        assert_eq!(contents.declared, ["a"]);
        assert_eq!(contents.inline[0].1.declared, ["d"]);
        assert_eq!(contents.items, BTreeSet::from(["e", "o", "R"]));
        let paths: Vec<_> = contents
            .paths
            .iter()
            .map(|path| path.segments.join("::"))
            .collect();
        assert_eq!(paths, ["f::g", "h::I", "crate::p"]);
    }
}
