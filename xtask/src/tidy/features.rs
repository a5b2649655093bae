//! Rule: a feature of the server is a module, which few lines elsewhere name.

use super::fault::Fault;
use super::sources::{Source, without_tests};
use super::tokens::Token;
use std::collections::BTreeSet;

struct Feature {
    /// Its name in `features.rs` of `laio-serve`.
    name: &'static str,
    /// What a name that belongs to the feature contains, as [`spelled_out`] writes it.
    words: &'static [&'static str],
    /// The beginnings of the paths of its files.
    own: &'static [&'static str],
}

const FEATURES: [Feature; 5] = [
    Feature {
        name: "acme",
        words: &["_acme"],
        own: &[
            "crates/laio-serve-acme/",
            "crates/laio-serve/src/features/acme.rs",
        ],
    },
    Feature {
        name: "http3",
        words: &["_http3", "_quic_", "_quinn"],
        own: &[
            "crates/laio-serve-base/src/observe/quic.rs",
            "crates/laio-serve-net/src/net/http3",
            "crates/laio-serve-net/src/net/quic",
            "crates/laio-serve/src/features/http3",
        ],
    },
    Feature {
        name: "response-cache",
        words: &["_response_cache"],
        own: &[
            "crates/laio-serve-proxy/src/proxy/cache",
            "crates/laio-serve-proxy/src/proxy/without_cache.rs",
            "crates/laio-serve/src/features/response_cache.rs",
        ],
    },
    Feature {
        name: "webdav",
        words: &["_webdav", "_web_dav"],
        own: &[
            "crates/laio-serve-uploads/src/uploads/webdav",
            "crates/laio-serve/src/features/webdav.rs",
        ],
    },
    Feature {
        name: "zip",
        words: &["_zip_", "_archive"],
        own: &[
            "crates/laio-serve-core/src/request/archive",
            "crates/laio-serve/src/features/zip.rs",
        ],
    },
];

/// Files that name every feature: the declarations of options, and what a crate exports.
const OF_ALL: [&str; 3] = [
    "crates/laio-serve-base/src/options",
    "crates/laio-serve/src/fuzzing.rs",
    "crates/laio-serve/src/lib.rs",
];

/// Returns the lines of the server that name a feature, outside its files and tests.
pub(crate) fn faults(sources: &[Source<'_>]) -> Vec<Fault> {
    let counts = |it: &&Source<'_>| {
        let path = &it.file.path;
        let of_all = OF_ALL.iter().any(|all| path.starts_with(all));
        path.starts_with("crates/laio-serve") && it.file.below_src().is_some() && !of_all
    };
    let mut faults = Vec::new();
    for source in sources.iter().filter(counts) {
        let code = without_tests(&source.tokens.code);
        for feature in &FEATURES {
            let path = &source.file.path;
            if feature.own.iter().any(|own| path.starts_with(own)) {
                continue;
            }
            let name = feature.name;
            faults.extend(lines(feature, &code, &source.file.text).map(|line| Fault {
                rule: "features",
                key: name.to_owned(),
                place: format!("{path}:{line}"),
                what: format!(
                    "names the feature `{name}`: let the module of the feature do it, through \
                     `features.rs` of laio-serve"
                ),
            }));
        }
    }
    faults
}

/// Returns the numbers of the lines that name a feature.
fn lines(feature: &Feature, code: &[Token<'_>], text: &str) -> impl Iterator<Item = usize> {
    let mut found = BTreeSet::new();
    let mut previous = "";
    for token in code {
        // Iterators have a method with this name.
        let is_method = previous == "." && token.text == "zip";
        if !is_method && is_of(feature, token.text) {
            found.insert(token.line);
        }
        previous = token.text;
    }
    let condition = format!("feature = \"{}\"", feature.name);
    let conditions = text.lines().enumerate();
    let conditions = conditions.filter(|(_, line)| line.contains(&condition));
    found.extend(conditions.map(|(index, _)| index + 1));
    found.into_iter()
}

fn is_of(feature: &Feature, name: &str) -> bool {
    let name = spelled_out(name);
    feature.words.iter().any(|word| name.contains(word))
}

/// Returns a name in lower case, with an underscore before and after each word: `_zip_file_` for `ZipFile`.
fn spelled_out(name: &str) -> String {
    let mut words = String::from("_");
    let mut is_lower = false;
    for letter in name.chars() {
        if is_lower && letter.is_uppercase() {
            words.push('_');
        }
        is_lower = !letter.is_uppercase() && letter != '_';
        words.extend(letter.to_lowercase());
    }
    words + "_"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sources::File;

    #[test]
    fn lines_outside_the_files_of_a_feature_count() {
        let text = "use a::Archives;\na.zip(b);\n// zip\n#[cfg(feature = \"zip\")]\n\
                    fn f() { zip_it(ZIP, 1) }\n#[cfg(test)] mod t { fn zip_it() {} }\n";
        let file = |path: &str| File {
            path: path.into(),
            package: "crates/laio-serve".into(),
            text: text.into(),
        };
        let files = [
            file("crates/laio-serve/src/x.rs"),
            file("crates/laio-serve/src/features/zip.rs"),
            file("crates/laio-serve/tests/x.rs"),
        ];
        let sources: Vec<_> = files.iter().map(Source::from_file).collect();
        let faults = faults(&sources);
        let found: Vec<_> = faults.iter().map(|it| (&*it.key, &*it.place)).collect();
        let expected = [1, 4, 5].map(|line| format!("crates/laio-serve/src/x.rs:{line}"));
        assert_eq!(found, expected.each_ref().map(|place| ("zip", &**place)));
    }
}
