//! Rule: one name, one public type in a crate.

use super::fault::Fault;
use super::sources::{Source, without_tests};
use std::collections::BTreeMap;

const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "type", "trait"];

/// Returns the definitions of public types whose name another public type of the crate has already.
pub(crate) fn faults(sources: &[Source<'_>]) -> Vec<Fault> {
    let mut first: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut faults = Vec::new();
    for source in sources.iter().filter(|it| it.file.below_src().is_some()) {
        let package = &*source.file.package;
        for three in without_tests(&source.tokens.code).windows(3) {
            let [public, keyword, name] = three else {
                continue;
            };
            // A macro gives the name of its definition as `$name`.
            if public.text != "pub" || !KEYWORDS.contains(&keyword.text) || name.text == "$" {
                continue;
            }
            let place = format!("{}:{}", source.file.path, name.line);
            let Some(other) = first.get(&(package, name.text)) else {
                first.insert((package, name.text), place);
                continue;
            };
            faults.push(Fault {
                rule: "types",
                key: format!("{package} {}", name.text),
                place,
                what: format!("{other} defines `{}` too: rename one of them", name.text),
            });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sources::File;

    #[test]
    fn only_public_types_of_one_crate_need_different_names() {
        let file = |package: &str, name: &str, text: &str| File {
            path: format!("{package}/src/{name}"),
            package: package.into(),
            text: text.into(),
        };
        let files = [
            file(
                "a",
                "x.rs",
                "pub struct A; pub(crate) enum B {}\npub type C = u8;",
            ),
            file(
                "a",
                "y.rs",
                "pub enum A {} pub enum B {}\n#[cfg(test)] mod t { pub struct C; }",
            ),
            file("b", "x.rs", "pub struct A;"),
        ];
        let sources: Vec<_> = files.iter().map(Source::from_file).collect();
        let faults = faults(&sources);
        let found: Vec<_> = faults
            .iter()
            .map(|fault| (&*fault.key, &*fault.place))
            .collect();
        assert_eq!(found, [("a A", "a/src/y.rs:1")]);
        assert!(faults[0].what.starts_with("a/src/x.rs:1 defines `A` too"));
    }
}
