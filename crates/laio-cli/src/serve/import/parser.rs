//! An nginx configuration as a tree of directives, with the files that it includes.

use super::lexer::{Lexer, Malformed, Token};
use globset::GlobBuilder;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// A directive, with its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: Place,
}

/// A line of a file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: Rc<Path>,
    pub(super) line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Directive {
    /// Returns the first word after the name, or nothing.
    pub(super) fn word(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns the directives of the block.
    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Returns the directive as one line, without its block.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.name.clone();
        for word in &self.words {
            shown.push(' ');
            shown += word;
        }
        if shown.len() > SHOWN {
            let end = (0..=SHOWN).rev().find(|&end| shown.is_char_boundary(end));
            shown.truncate(end.unwrap_or(0));
            shown.push('…');
        }
        shown
            .escape_debug()
            .to_string()
            .replace("\\'", "'")
            .replace("\\\"", "\"")
            .replace("\\\\", "\\")
    }
}

/// Bytes of a directive in a message.
const SHOWN: usize = 120;
/// Bytes of the longest file.
const FILE_BYTES: u64 = 4 << 20;
/// Files that are read, included ones too.
const FILES: usize = 1000;
/// Files that include one another.
const INCLUDES: usize = 16;
/// Blocks within one another.
const BLOCKS: usize = 32;
/// Directives of all files.
const DIRECTIVES: usize = 200_000;
/// Words of a directive.
const WORDS: usize = 4096;

/// Files whose contents are a part of the server here.
const BUILT_IN: [&str; 8] = [
    "mime.types",
    "fastcgi_params",
    "fastcgi.conf",
    "fastcgi-php.conf",
    "proxy_params",
    "scgi_params",
    "uwsgi_params",
    "options-ssl-nginx.conf",
];

/// Reads a configuration file and the files that it includes.
///
/// # Errors
/// Names the file and the line.
pub(super) fn read(file: &Path) -> Result<Vec<Directive>, String> {
    let mut reader = Reader {
        base: file.parent().unwrap_or(Path::new("")).to_owned(),
        files: 0,
        directives: 0,
    };
    reader.read(file, 0, 0)
}

/// Parses the text of a configuration; files that it includes are looked for in the current directory.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, String> {
    let mut reader = Reader {
        base: PathBuf::new(),
        files: 0,
        directives: 0,
    };
    reader.parse(text, Path::new("nginx.conf"), 0, 0)
}

struct Reader {
    /// The directory of the first file.
    base: PathBuf,
    files: usize,
    directives: usize,
}

impl Reader {
    fn read(
        &mut self,
        file: &Path,
        blocks: usize,
        includes: usize,
    ) -> Result<Vec<Directive>, String> {
        let name = file.display();
        self.files += 1;
        if self.files > FILES || includes > INCLUDES {
            return Err(format!(
                "{name} is one file too many: at most {FILES} files are read, included ones at most {INCLUDES} deep"
            ));
        }
        let mut text = Vec::new();
        // Not a FIFO or a device, which might never end.
        let opened = fs::metadata(file).and_then(|status| match status.is_file() {
            true => fs::File::open(file),
            false => Err(std::io::Error::other("it is not a regular file")),
        });
        opened
            .and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut text))
            .map_err(|error| format!("cannot read {name}: {error}"))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(format!("{name} is longer than {FILE_BYTES} bytes"));
        }
        self.parse(&String::from_utf8_lossy(&text), file, blocks, includes)
    }

    fn parse(
        &mut self,
        text: &str,
        file: &Path,
        blocks: usize,
        includes: usize,
    ) -> Result<Vec<Directive>, String> {
        let mut lexer = Lexer::new(text);
        let file: Rc<Path> = file.into();
        let parsed = self.block(&mut lexer, &file, blocks, blocks, includes);
        parsed.map_err(|failure| match failure {
            Failure::Malformed(Malformed { line, what }) => {
                format!("{}:{line}: {what}", file.display())
            }
            Failure::Included(text) => text,
        })
    }

    /// Parses directives up to the end of their block, or of the file.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        file: &Rc<Path>,
        blocks: usize,
        outermost: usize,
        includes: usize,
    ) -> Result<Vec<Directive>, Failure> {
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begun = 0;
        loop {
            let Some((token, line)) = lexer.next()? else {
                if !words.is_empty() {
                    return fail(begun, format!("{} does not end with a ;", words[0]));
                }
                if blocks > outermost {
                    return fail(begun, "a block is not closed: a } is missing");
                }
                return Ok(directives);
            };
            match token {
                Token::Word(word) => {
                    if words.is_empty() {
                        begun = line;
                    }
                    if words.len() == WORDS {
                        return fail(line, format!("a directive has more than {WORDS} words"));
                    }
                    words.push(word);
                }
                Token::Close if words.is_empty() && blocks > outermost => return Ok(directives),
                Token::Close if words.is_empty() => {
                    return fail(line, "there is no block that this } closes");
                }
                Token::Close => return fail(begun, format!("{} does not end with a ;", words[0])),
                Token::End | Token::Open if words.is_empty() => {
                    return fail(line, "a directive without a name");
                }
                Token::End | Token::Open => {
                    self.directives += 1;
                    if self.directives > DIRECTIVES {
                        return fail(line, format!("more than {DIRECTIVES} directives"));
                    }
                    let name = words.remove(0);
                    let words = std::mem::take(&mut words);
                    let line = begun;
                    let block = match token {
                        Token::Open if name.ends_with("_by_lua_block") => {
                            lexer.skip_foreign_block()?;
                            Some(Vec::new())
                        }
                        Token::Open if blocks - outermost >= BLOCKS => {
                            return fail(
                                line,
                                format!("more than {BLOCKS} blocks within one another"),
                            );
                        }
                        Token::Open => {
                            Some(self.block(lexer, file, blocks + 1, outermost, includes)?)
                        }
                        _ => None,
                    };
                    let file = file.clone();
                    let directive = Directive {
                        name,
                        words,
                        block,
                        place: Place { file, line },
                    };
                    match directive.name == "include" && directive.block.is_none() {
                        true => directives.extend(self.include(directive, includes)?),
                        false => directives.push(directive),
                    }
                }
            }
        }
    }

    /// Returns the directives of the files that an `include` names. One whose contents the server has itself
    /// stays as it is.
    fn include(
        &mut self,
        directive: Directive,
        includes: usize,
    ) -> Result<Vec<Directive>, Failure> {
        let pattern = Path::new(directive.word());
        let name = pattern.file_name().unwrap_or_default().to_string_lossy();
        if BUILT_IN.contains(&&*name) {
            return Ok(vec![directive]);
        }
        let mut found = Vec::new();
        for base in self.bases(&directive.place.file) {
            found = matching(&base, pattern);
            if !found.is_empty() {
                break;
            }
        }
        let is_pattern = directive.word().contains(['*', '?', '[']);
        if found.is_empty() && !is_pattern {
            // The translation says so.
            return Ok(vec![directive]);
        }
        let mut directives = Vec::new();
        for file in found {
            let included = self.read(&file, 0, includes + 1);
            directives.extend(included.map_err(Failure::Included)?);
        }
        Ok(directives)
    }

    /// Returns the directories to which the names of included files may be relative: that of the first file, as in
    /// nginx; that of the file with the directive; and that above it, for a file of `sites-available` alone.
    fn bases(&self, file: &Path) -> Vec<PathBuf> {
        let own = file.parent().unwrap_or(Path::new(""));
        let above = if own.as_os_str().is_empty() {
            PathBuf::from("..")
        } else {
            own.join("..")
        };
        vec![self.base.clone(), own.to_owned(), above]
    }
}

/// Why a file cannot be parsed.
enum Failure {
    Malformed(Malformed),
    /// A message about an included file.
    Included(String),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::Malformed(malformed)
    }
}

fn fail<T>(line: usize, what: impl std::fmt::Display) -> Result<T, Failure> {
    Err(Malformed::new(line, what).into())
}

/// Returns the files that a pattern names, in the order of their names.
fn matching(base: &Path, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![base.to_owned()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let is_pattern =
            matches!(component, Component::Normal(_)) && text.contains(['*', '?', '[']);
        if !is_pattern {
            for path in &mut found {
                path.push(component);
            }
            found.retain(|path| path.exists());
            continue;
        }
        let Ok(glob) = GlobBuilder::new(&text).literal_separator(true).build() else {
            return Vec::new();
        };
        let (glob, hidden) = (glob.compile_matcher(), text.starts_with('.'));
        let mut entries = Vec::new();
        for directory in &found {
            let here = match directory.as_os_str().is_empty() {
                true => Path::new("."),
                false => directory,
            };
            let Ok(names) = fs::read_dir(here) else {
                continue;
            };
            let names = names.filter_map(Result::ok).map(|entry| entry.file_name());
            let fitting = names.filter(|name| {
                let dot = name.to_string_lossy().starts_with('.');
                (hidden || !dot) && glob.is_match(name)
            });
            entries.extend(fitting.map(|name| directory.join(name)).take(FILES + 1));
        }
        entries.sort();
        found = entries;
    }
    found.retain(|path| path.is_file());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_lines() {
        let text = "a b;\nhttp {\n  server { listen 80; }\n  x_by_lua_block { if {} }\n}\n";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed[0].shown(), "a b");
        let http = &parsed[1];
        assert_eq!((http.place.line, http.inner().len()), (2, 2));
        assert_eq!(http.inner()[0].inner()[0].words, ["80"]);
        assert_eq!(http.inner()[0].place.to_string(), "nginx.conf:3");
    }

    #[test]
    fn malformed_files() {
        let nested = "a {".repeat(BLOCKS + 2);
        let many = format!("a {};", "b ".repeat(WORDS + 1));
        for (text, expected) in [
            ("a", "nginx.conf:1: a does not end with a ;"),
            ("a {\nb c\n}", "nginx.conf:2: b does not end with a ;"),
            ("a {", "a block is not closed"),
            ("a; }", "there is no block that this } closes"),
            (";", "a directive without a name"),
            ("{ a; }", "a directive without a name"),
            (&nested, "blocks within one another"),
            (&many, "more than 4096 words"),
            ("x_by_lua_block { {", "the block is not closed"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn included_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir_all(dir.path().join("sites/more")).unwrap();
        write(
            "nginx.conf",
            "include sites/*.conf; include sites/*/x; include mime.types; include absent;",
        );
        write("sites/b.conf", "b; include c;");
        write("sites/c", "c;");
        write("sites/a.conf", "a;");
        write("sites/.hidden.conf", "hidden;");
        write("sites/more/x", "x;");
        let main = dir.path().join("nginx.conf");
        let names: Vec<_> = read(&main)
            .unwrap()
            .into_iter()
            .map(|it| it.shown())
            .collect();
        assert_eq!(
            names,
            ["a", "b", "c", "x", "include mime.types", "include absent"]
        );
        write("sites/c", "include b.conf;");
        assert!(read(&main).unwrap_err().contains("one file too many"));
        write("sites/c", "\n}");
        assert!(
            read(&main)
                .unwrap_err()
                .contains("sites/c:2: there is no block")
        );
        assert!(read(dir.path()).unwrap_err().contains("not a regular file"));
        write("long", &"# x\n".repeat(FILE_BYTES as usize / 4 + 1));
        let error = read(&dir.path().join("long")).unwrap_err();
        assert!(error.contains("is longer than"), "{error}");
    }
}
