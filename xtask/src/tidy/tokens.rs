//! Splits a source file into the tokens and comments that the rules look at.
//!
//! A parser such as `syn` gives no comments, and takes ten times as long.

/// A word, a literal or a punctuation character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// `::` is one token; each other punctuation character is one; a literal is `""`.
    pub(crate) text: &'a str,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// A line of a comment, without its slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comment<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// What a file consists of.
#[derive(Debug, Default)]
pub(crate) struct Tokens<'a> {
    pub(crate) code: Vec<Token<'a>>,
    pub(crate) comments: Vec<Comment<'a>>,
}

/// Splits a source file that compiles; of any other the result is unspecified.
pub(crate) fn split(text: &str) -> Tokens<'_> {
    let mut lexer = Lexer {
        rest: text,
        line: 1,
        found: Tokens::default(),
    };
    while let Some(first) = lexer.rest.chars().next() {
        lexer.token(first);
    }
    lexer.found
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    found: Tokens<'a>,
}

impl<'a> Lexer<'a> {
    fn token(&mut self, first: char) {
        let rest = self.rest;
        if first.is_whitespace() {
            self.take(first.len_utf8());
        } else if rest.starts_with("//") {
            self.line_comment();
        } else if rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(length) = raw_string(rest) {
            self.literal(length);
        } else if first == '"' || rest.starts_with("b\"") || rest.starts_with("c\"") {
            self.literal(quoted(rest, '"'));
        } else if first == '\'' || rest.starts_with("b'") {
            self.quote();
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.push(length);
        } else if rest.starts_with("::") {
            self.push(2);
        } else {
            self.push(first.len_utf8());
        }
    }

    /// Takes so many bytes, and counts their lines.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.bytes().filter(|&byte| byte == b'\n').count();
        self.rest = rest;
        taken
    }

    fn push(&mut self, length: usize) {
        let line = self.line;
        let text = self.take(length);
        self.found.code.push(Token { text, line });
    }

    fn literal(&mut self, length: usize) {
        let line = self.line;
        self.take(length);
        self.found.code.push(Token { text: "\"\"", line });
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = self.take(length);
        let text = text.trim_start_matches('/').trim_start_matches('!');
        self.found.comments.push(Comment { text, line });
    }

    fn block_comment(&mut self) {
        let (mut depth, mut length) = (0, 0);
        loop {
            let rest = &self.rest[length..];
            if rest.starts_with("/*") {
                (depth, length) = (depth + 1, length + 2);
            } else if rest.starts_with("*/") {
                (depth, length) = (depth - 1, length + 2);
                if depth == 0 {
                    break;
                }
            } else {
                let Some(next) = rest.chars().next() else {
                    break;
                };
                length += next.len_utf8();
            }
        }
        let first = self.line;
        for (index, text) in self.take(length).lines().enumerate() {
            let line = first + index;
            self.found.comments.push(Comment { text, line });
        }
    }

    /// A character, or the quote of a lifetime or a label.
    fn quote(&mut self) {
        let after = self.rest.trim_start_matches('b');
        let mut next = after.chars().skip(1);
        let escaped = next.next() == Some('\\');
        if escaped || next.next() == Some('\'') {
            self.literal(quoted(self.rest, '\''));
        } else {
            self.push(1);
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The length of a literal that ends at the second unescaped `quote`.
fn quoted(text: &str, quote: char) -> usize {
    let begin = text.find(quote).unwrap_or(0) + 1;
    let mut escaped = false;
    for (at, c) in text[begin..].char_indices() {
        if c == quote && !escaped {
            return begin + at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length of a raw string, if the text begins with one.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let after = after.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<&str> {
        split(text).code.iter().map(|token| token.text).collect()
    }

    #[test]
    fn literals_and_comments_hide_their_contents() {
        let text = r###"a("fn \" x", r#"fn " y"#, b"fn", 'f', '\'', b'\\', c"z"); // fn
/* fn /* fn */ fn */ 'label: b::c"###;
        let expected = "a ( \"\" , \"\" , \"\" , \"\" , \"\" , \"\" , \"\" ) ; ' label : b :: c";
        assert_eq!(code(text).join(" "), expected);
    }

    #[test]
    fn tokens_and_comments_have_their_lines() {
        let tokens = split("//! one\nlet a = \"x\n\ny\";\nb // two\n");
        let lines: Vec<_> = tokens
            .comments
            .iter()
            .map(|it| (it.text, it.line))
            .collect();
        assert_eq!(lines, [(" one", 1), (" two", 5)]);
        let last = tokens.code.last().unwrap();
        assert_eq!((last.text, last.line), ("b", 5));
        let literal = tokens.code[3];
        assert_eq!((literal.text, literal.line), ("\"\"", 2));
    }
}
