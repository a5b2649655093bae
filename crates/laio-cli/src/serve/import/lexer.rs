//! The words of an nginx configuration file.

use std::fmt;

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word without its quotes and escapes.
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Text that no configuration can contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) line: usize,
    pub(super) what: String,
}

impl Malformed {
    pub(super) fn new(line: usize, what: impl fmt::Display) -> Malformed {
        let what = what.to_string();
        Malformed { line, what }
    }
}

/// The tokens of a text, one after the other.
pub(super) struct Lexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        let rest = text.trim_start_matches('\u{feff}').chars().peekable();
        Lexer { rest, line: 1 }
    }

    /// Returns the next token and the line where it begins; none at the end.
    ///
    /// # Errors
    /// When a quote is not closed, or text follows a closed one.
    pub(super) fn next(&mut self) -> Result<Option<(Token, usize)>, Malformed> {
        self.skip_blank();
        let line = self.line;
        let Some(&first) = self.rest.peek() else {
            return Ok(None);
        };
        let token = match first {
            ';' | '{' | '}' => {
                self.take();
                match first {
                    ';' => Token::End,
                    '{' => Token::Open,
                    _ => Token::Close,
                }
            }
            '"' | '\'' => Token::Word(self.quoted(first)?),
            _ => Token::Word(self.word()),
        };
        Ok(Some((token, line)))
    }

    /// Skips the text of a block whose braces are those of another language, up to its closing brace.
    ///
    /// # Errors
    /// When the block does not end.
    pub(super) fn skip_foreign_block(&mut self) -> Result<(), Malformed> {
        let line = self.line;
        let mut open = 1_usize;
        while let Some(c) = self.take() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                // The strings and comments of Lua.
                '"' | '\'' => {
                    while let Some(inner) = self.take().filter(|inner| *inner != c) {
                        if inner == '\\' {
                            self.take();
                        }
                    }
                }
                '-' if self.rest.peek() == Some(&'-') => {
                    while self.take().is_some_and(|inner| inner != '\n') {}
                }
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
        Err(Malformed::new(line, "the block is not closed"))
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip_blank(&mut self) {
        while let Some(&c) = self.rest.peek() {
            if c == '#' {
                while self.rest.peek().is_some_and(|&c| c != '\n') {
                    self.take();
                }
            } else if c.is_ascii_whitespace() {
                self.take();
            } else {
                return;
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Malformed> {
        let line = self.line;
        self.take();
        let mut word = String::new();
        loop {
            match self.take() {
                None => {
                    return Err(Malformed::new(
                        line,
                        format!("the quote {quote} is not closed"),
                    ));
                }
                Some(c) if c == quote => break,
                Some('\\') => self.escaped(&mut word),
                Some(c) => word.push(c),
            }
        }
        match self.rest.peek() {
            // In a condition: `if ($host = "a")`.
            Some(')') => {
                self.take();
                word.push(')');
                Ok(word)
            }
            Some(c) if !c.is_ascii_whitespace() && !matches!(c, ';' | '{' | '}') => {
                Err(Malformed::new(
                    self.line,
                    format!("a space is missing after the quote {quote}"),
                ))
            }
            _ => Ok(word),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            // `${name}` is a variable.
            let begins_block = c == '{' && !word.ends_with('$');
            if c.is_ascii_whitespace() || c == ';' || begins_block {
                break;
            }
            self.take();
            match c {
                '\\' => self.escaped(&mut word),
                c => word.push(c),
            }
        }
        word
    }

    /// Takes the character after a backslash as nginx does: before other characters than these it stays.
    fn escaped(&mut self, word: &mut String) {
        match self.take() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, Malformed> {
        let mut lexer = Lexer::new(text);
        let mut words = Vec::new();
        while let Some((token, line)) = lexer.next()? {
            words.push(match token {
                Token::Word(word) => format!("{line}:{word}"),
                Token::End => ";".to_owned(),
                Token::Open => "{".to_owned(),
                Token::Close => "}".to_owned(),
            });
        }
        Ok(words)
    }

    #[test]
    fn words_quotes_and_comments() {
        for (text, expected) in [
            ("", &[][..]),
            ("a b;", &["1:a", "1:b", ";"]),
            ("# x\na{b;}", &["2:a", "{", "2:b", ";", "}"]),
            ("a 'b c' \"d;{\";", &["1:a", "1:b c", "1:d;{", ";"]),
            (
                r#"a 'it\'s' \.php$ "\d\\";"#,
                &["1:a", "1:it's", r"1:\.php$", r"1:\d\", ";"],
            ),
            ("a b#c ${d}e{", &["1:a", "1:b#c", "1:${d}e", "{"]),
            ("if ($a = \"b\") {", &["1:if", "1:($a", "1:=", "1:b)", "{"]),
            ("a\r\n\tb;", &["1:a", "2:b", ";"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn quotes_that_are_not_closed() {
        assert_eq!(words("a\n'b").unwrap_err().line, 2);
        assert!(words("a 'b'c;").is_err());
    }
}
