//! What is said about an import: what was left out, and what is different.

use super::parser::{Directive, Place};
use std::collections::BTreeSet;

/// The remarks about an import.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    lines: Vec<Remark>,
    /// Remarks about keys, not about lines.
    keys: Vec<String>,
    /// The names of directives that need no equivalent.
    needless: BTreeSet<String>,
    /// Whether something was left out.
    lost: bool,
}

#[derive(Debug)]
struct Remark {
    file: std::rc::Rc<std::path::Path>,
    line: usize,
    text: String,
}

impl Remarks {
    /// Says that a directive was left out, and what to do.
    pub(super) fn lost(&mut self, directive: &Directive, why: impl std::fmt::Display) {
        self.lost = true;
        self.push(
            &directive.place,
            format!("left out: {}: {why}", directive.shown()),
        );
    }

    /// Says that a key was left out, whose directive is not known.
    pub(super) fn lost_key(&mut self, key: &str, why: &str) {
        self.lost = true;
        self.keys
            .push(format!("left out: no value for {key}: {why}\n"));
    }

    /// Says how a directive differs from its translation.
    pub(super) fn differs(&mut self, directive: &Directive, how: impl std::fmt::Display) {
        self.push(
            &directive.place,
            format!("note: {}: {how}", directive.shown()),
        );
    }

    /// Notes a directive that needs no equivalent.
    pub(super) fn needless(&mut self, directive: &Directive) {
        self.needless.insert(directive.name.clone());
    }

    /// Whether something was left out.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    fn push(&mut self, place: &Place, text: String) {
        let remark = Remark {
            file: place.file.clone(),
            line: place.line,
            text,
        };
        self.lines.push(remark);
    }

    /// Returns the remarks, one on each line, in the order of the files.
    pub(super) fn text(mut self) -> String {
        self.lines
            .sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
        let mut lines: Vec<_> = self
            .lines
            .iter()
            .map(|it| format!("{}:{}: {}\n", it.file.display(), it.line, it.text))
            .collect();
        // One included file may be part of several servers.
        lines.dedup();
        lines.append(&mut self.keys);
        if !self.needless.is_empty() {
            let names: Vec<_> = self.needless.into_iter().collect();
            lines.push(format!(
                "note: nothing takes the place of these, because laio decides by itself: {}\n",
                names.join(", ")
            ));
        }
        lines.concat()
    }
}
