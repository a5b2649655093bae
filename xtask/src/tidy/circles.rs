//! Rule: no circle of imports leaves a folder.
//!
//! A module of the crate's root, `a.rs`, and its folder `a/` are one folder. Files of one folder may import each
//! other in circles; a circle through two folders makes both of them one, and a reader needs all of it at once.
//! What a module says of its own descendants (declarations, re-exports, uses) is not an import.

mod graph;
mod paths;
mod tree;

use super::fault::Fault;
use super::sources::Source;
use graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the files in circles that leave a folder, for each crate.
pub(crate) fn faults(sources: &[Source<'_>]) -> Vec<Fault> {
    let mut packages: BTreeMap<&str, Vec<&Source<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|it| it.file.below_src().is_some()) {
        packages
            .entry(&source.file.package)
            .or_default()
            .push(source);
    }
    packages
        .values()
        .flat_map(|sources| of_crate(sources))
        .collect()
}

fn of_crate(sources: &[&Source<'_>]) -> Vec<Fault> {
    let names: Vec<&str> = sources
        .iter()
        .filter_map(|it| it.file.below_src())
        .collect();
    let graph = Graph::new(names.len(), tree::arrows(&names, sources));
    let mut faults = Vec::new();
    for circle in graph.circles() {
        let folders: BTreeSet<_> = circle.iter().map(|&file| folder(names[file])).collect();
        if folders.len() == 1 {
            continue;
        }
        for &file in &circle {
            let (next, line) = leaving(&graph, &circle, &names, file);
            let back = graph.path(next, file);
            let back: Vec<&str> = back.into_iter().map(|file| names[file]).collect();
            let path = &sources[file].file.path;
            faults.push(Fault {
                rule: "circles",
                key: path.clone(),
                place: format!("{path}:{line}"),
                what: format!(
                    "this import closes a circle through {} folders: {}; take away one of the imports: pass \
                     plain values, or declare what both need in a folder below them",
                    folders.len(),
                    back.join(" → "),
                ),
            });
        }
    }
    faults
}

/// The folder of a file: the name of its module in the crate's root.
fn folder(name: &str) -> &str {
    let first = name.split('/').next().unwrap_or(name);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// An import of a file that stays in the circle; if there is one, an import that leaves the folder.
fn leaving(graph: &Graph, circle: &[usize], names: &[&str], file: usize) -> (usize, usize) {
    let inside = graph.arrows(file).filter(|(to, _)| circle.contains(to));
    let mut inside: Vec<_> = inside.collect();
    inside.sort_by_key(|&(to, line)| (folder(names[to]) == folder(names[file]), line));
    inside[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sources::File;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(name, text): &(&str, &str)| File {
            path: format!("x/src/{name}"),
            package: "x".into(),
            text: (*text).into(),
        };
        let files: Vec<_> = files.iter().map(file).collect();
        let sources: Vec<_> = files.iter().map(Source::from_file).collect();
        let faults = faults(&sources);
        let lines = faults.iter().map(|fault| {
            let circle = fault.what.split(": ").nth(1).unwrap_or_default();
            format!(
                "{} {}",
                fault.place,
                circle.split(';').next().unwrap_or_default()
            )
        });
        lines.collect()
    }

    #[test]
    fn a_circle_through_two_folders_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c;\npub use c::C;\nfn f() { crate::b::g() }"),
            ("a/c.rs", "\nuse crate::b::{\n    g,\n};"),
            ("b.rs", "use crate::a::C; pub fn g() {}"),
        ];
        let expected = ["x/src/a/c.rs:3 b.rs → a/c.rs", "x/src/b.rs:1 a/c.rs → b.rs"];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn circles_within_a_folder_are_allowed() {
        let files = [
            ("lib.rs", "mod a; use a::F;"),
            ("a.rs", "mod b; mod c; pub struct F; use b::B; "),
            ("a/b.rs", "use super::F; use super::c::C; use crate::a;"),
            ("a/c.rs", "use super::b::B;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn imports_of_tests_and_of_other_crates_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod t;"),
            (
                "a.rs",
                "use crate::b::B; use std::fmt; #[cfg(test)] mod tests { use crate::t::T; }",
            ),
            (
                "b.rs",
                "use other::a::A; #[cfg(test)] use crate::a; // crate::a\nlet x = \"crate::a::A\";",
            ),
            ("t.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn imports_lead_through_aliases_globs_and_inline_modules() {
        let through = |text: &str| {
            let files = [
                ("lib.rs", "mod a; mod b; mod c; pub(crate) use a::*;"),
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", text),
                (
                    "c.rs",
                    "pub use crate::a::A as D; pub mod e { pub use super::super::a::A; }",
                ),
            ];
            found(&files).len()
        };
        assert_eq!(through("use crate::A;"), 2);
        assert_eq!(through("use crate::c::D;"), 2);
        assert_eq!(through("use crate::c::e::A;"), 2);
        assert_eq!(through("mod inner { use super::super::a; }"), 2);
        assert_eq!(through("use crate::{c as d}; fn f() { d::D::new() }"), 3);
        assert_eq!(through("pub(in crate::a) fn f() {}"), 0);
        assert_eq!(through("use crate::c;"), 3);
    }
}
