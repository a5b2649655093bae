//! Rule: a function has at most 70 lines.

use super::fault::Fault;
use super::sources::{Source, group};

const LIMIT: usize = 70;

/// Returns the functions that are longer, from the line of `fn` to the line of the closing brace.
pub(crate) fn faults(sources: &[Source<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources {
        for function in functions(source) {
            if function.lines <= LIMIT {
                continue;
            }
            let path = &source.file.path;
            faults.push(Fault {
                rule: "functions",
                key: format!("{path}::{}", function.name),
                place: format!("{path}:{}", function.line),
                what: format!(
                    "`{}` has {} lines: divide it into functions of at most {LIMIT}",
                    function.name, function.lines
                ),
            });
        }
    }
    faults
}

struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

fn functions<'a>(source: &Source<'a>) -> Vec<Function<'a>> {
    let code = &source.tokens.code;
    let mut found = Vec::new();
    for (at, pair) in code.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        // A type such as `fn(u8)` has no name.
        if keyword.text != "fn" || name.text == "(" {
            continue;
        }
        let mut end = at + 2;
        while end < code.len() {
            match code[end].text {
                ";" | "{" => break,
                "(" | "[" => end += group(&code[end..]),
                _ => end += 1,
            }
        }
        // A declaration without a body ends with a semicolon.
        if code.get(end).is_some_and(|token| token.text == "{") {
            let last = code[end + group(&code[end..]) - 1];
            found.push(Function {
                name: name.text,
                line: keyword.line,
                lines: last.line - keyword.line + 1,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sources::File;

    #[test]
    fn the_signature_and_the_braces_count() {
        let body = "    a();\n".repeat(LIMIT - 2);
        let longer = format!("fn b(\n    c: [u8; 2],\n) -> D {{\n{body}}}\n");
        let text = format!("fn e();\nfn a() {{\n{body}}}\nimpl F {{\n{longer}}}\n");
        let file = File {
            path: "x.rs".into(),
            package: String::new(),
            text,
        };
        let faults = faults(&[Source::from_file(&file)]);
        assert_eq!(faults.len(), 1);
        assert_eq!((&*faults[0].key, &*faults[0].place), ("x.rs::b", "x.rs:73"));
        assert!(faults[0].what.contains("72 lines"));
    }
}
