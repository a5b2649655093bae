//! The files that the rules look at.

use super::tokens::{Token, Tokens, split};
use crate::files::failure;
use crate::repository::Failure;
use std::path::Path;

/// A file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root.
    pub(crate) path: String,
    /// The directory of its manifest, relative to the root; empty if it belongs to no crate.
    pub(crate) package: String,
    pub(crate) text: String,
}

impl File {
    /// Whether it is a source file in Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its path relative to the `src` of its crate; otherwise it is a test, an example or a document.
    pub(crate) fn below_src(&self) -> Option<&str> {
        let below = self.path.strip_prefix(&self.package)?;
        below.strip_prefix("/src/")
    }
}

/// A source file with its tokens.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) tokens: Tokens<'a>,
}

impl Source<'_> {
    pub(crate) fn from_file(file: &File) -> Source<'_> {
        let tokens = split(&file.text);
        Source { file, tokens }
    }
}

const KINDS: [&str; 8] = ["rs", "md", "py", "h", "hpp", "1", "3", "7"];

/// Reads the sources and documents of the repository, in the order of their paths.
///
/// # Errors
/// If a file or a directory cannot be read.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, Failure> {
    let mut files = Vec::new();
    enter(root, Path::new(""), "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn enter(
    root: &Path,
    directory: &Path,
    package: &str,
    files: &mut Vec<File>,
) -> Result<(), Failure> {
    let path = root.join(directory);
    let own = directory.to_string_lossy();
    // The manifest of the root is a workspace without a package.
    let begins = !own.is_empty() && path.join("Cargo.toml").exists();
    let package = if begins { &own } else { package };
    let cannot = |error| failure("read", &path, &error);
    for entry in std::fs::read_dir(&path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name();
        let kind = entry.file_type().map_err(cannot)?;
        let relative = directory.join(&name);
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if kind.is_dir() && name != "target" && !hidden {
            enter(root, &relative, package, files)?;
        } else if kind.is_file() && has_kind(&relative) {
            let text = std::fs::read_to_string(root.join(&relative));
            files.push(File {
                text: text.map_err(|error| failure("read", &relative, &error))?,
                path: relative.to_string_lossy().into_owned(),
                package: package.to_owned(),
            });
        }
    }
    Ok(())
}

fn has_kind(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// Removes the items that are compiled for tests only.
pub(crate) fn without_tests<'a>(code: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(code.len());
    let mut at = 0;
    while at < code.len() {
        let end = attribute(&code[at..]);
        if end > 0 && is_for_tests(&code[at..at + end]) {
            at += end;
            at += item(&code[at..]);
        } else {
            kept.push(code[at]);
            at += 1;
        }
    }
    kept
}

/// The length of an attribute such as `#[cfg(test)]`; 0 if the code begins with something else.
fn attribute(code: &[Token<'_>]) -> usize {
    match code {
        [hash, open, ..] if hash.text == "#" && open.text == "[" => 1 + group(&code[1..]),
        _ => 0,
    }
}

/// Whether `test` stands in nothing but `cfg` and `all`: code of `any(test, …)` is not for tests only.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let mut around = Vec::new();
    let mut previous = "";
    for token in &attribute[2..] {
        match token.text {
            "(" => around.push(previous),
            ")" => drop(around.pop()),
            "test" if around.first() == Some(&"cfg") => {
                return around[1..].iter().all(|outer| *outer == "all");
            }
            _ => {}
        }
        previous = token.text;
    }
    false
}

/// The length of a pair of brackets with its contents.
pub(crate) fn group(code: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (index, token) in code.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return index + 1;
        }
    }
    code.len()
}

const ITEMS: [&str; 17] = [
    "pub",
    "mod",
    "fn",
    "use",
    "struct",
    "enum",
    "union",
    "impl",
    "const",
    "static",
    "type",
    "trait",
    "unsafe",
    "extern",
    "async",
    "macro_rules",
    "thread_local",
];

/// The length of what follows an attribute: an item with its further attributes, or else a field, a variant or
/// an arm.
fn item(code: &[Token<'_>]) -> usize {
    let mut at = 0;
    while attribute(&code[at..]) > 0 {
        at += attribute(&code[at..]);
    }
    let first = code.get(at).map_or("", |token| token.text);
    let is_item = ITEMS.contains(&first);
    while at < code.len() {
        match code[at].text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" => {
                at += group(&code[at..]);
                if is_item && first != "use" {
                    return at;
                }
            }
            "(" | "[" => at += group(&code[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_for_tests_are_removed() {
        let text = "a;\n#[cfg(test)] #[path = \"x\"] mod tests { fn b() {} }\n\
                    #[cfg(test)] use c::{d, e};\n#[cfg(all(test, not(miri)))] mod f;\n\
                    #[cfg(not(test))] fn g() {}\n\
                    struct H { #[cfg(test)] i: Vec<u8>, j: u8 }\n\
                    #[cfg(test)] pub(crate) fn k() -> [u8; 2] { [0; 2] } l";
        let tokens = split(text);
        let kept: Vec<_> = without_tests(&tokens.code)
            .iter()
            .map(|token| token.text)
            .collect();
        let expected = "a ; # [ cfg ( not ( test ) ) ] fn g ( ) { } struct H { j : u8 } l";
        assert_eq!(kept.join(" "), expected);
    }
}
