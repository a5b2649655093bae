//! Includes and excludes files by globs.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::Path;

/// Selects the files to copy: all except those that are excluded and not included before.
///
/// A glob with a `/` matches the path below the argument, any other the name alone. An excluded
/// directory is not read.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Option<Rules>,
}

/// The compiled globs.
#[derive(Clone, Debug)]
struct Rules {
    set: GlobSet,
    /// One rule per glob.
    glob_rules: Vec<GlobRule>,
}

/// What one glob does, and what it is matched against.
#[derive(Clone, Copy, Debug)]
struct GlobRule {
    includes: bool,
    of_path: bool,
    directories_only: bool,
}

impl Filter {
    /// Builds a filter from `(include, glob)` pairs. The first matching glob decides. If all globs
    /// include, files that match none are excluded.
    ///
    /// # Errors
    /// If a glob is invalid.
    pub fn new<'a>(globs: impl IntoIterator<Item = (bool, &'a str)>) -> Result<Filter, String> {
        let mut builder = GlobSetBuilder::new();
        let mut glob_rules = Vec::new();
        for (includes, text) in globs {
            let glob = text.strip_suffix('/').unwrap_or(text);
            let of_path = glob.contains('/');
            let glob = glob.strip_prefix('/').unwrap_or(glob);
            let built = GlobBuilder::new(glob).literal_separator(true).build();
            builder.add(built.map_err(|error| format!("invalid glob '{text}': {}", error.kind()))?);
            glob_rules.push(GlobRule {
                includes,
                of_path,
                directories_only: text.ends_with('/'),
            });
        }
        if glob_rules.is_empty() {
            return Ok(Filter::default());
        }
        let set = builder.build().map_err(|error| error.to_string())?;
        Ok(Filter {
            rules: Some(Rules { set, glob_rules }),
        })
    }

    /// Whether the filter selects everything.
    pub fn is_empty(&self) -> bool {
        self.rules.is_none()
    }

    /// Whether a file is copied; `path` is relative to the argument.
    pub(crate) fn takes(&self, path: &Path, is_directory: bool) -> bool {
        let Some(rules) = &self.rules else {
            return true;
        };
        let Some(name) = path.file_name() else {
            return true;
        };
        let by_path = rules.set.matches(path);
        let by_name = rules.set.matches(name);
        let applies = |(index, rule): &(usize, &GlobRule)| {
            let matched = if rule.of_path { &by_path } else { &by_name };
            matched.contains(index) && (is_directory || !rule.directories_only)
        };
        let first = rules.glob_rules.iter().enumerate().find(applies);
        match first {
            Some((_, rule)) => rule.includes,
            // Included files may be below any directory.
            None => is_directory || rules.glob_rules.iter().any(|rule| !rule.includes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_glob_decides() {
        let filter = Filter::new([(true, "keep.o"), (false, "*.o"), (false, "/tmp/")]).unwrap();
        assert!(filter.takes(Path::new("a/keep.o"), false));
        assert!(!filter.takes(Path::new("a/b.o"), false));
        assert!(filter.takes(Path::new("a/b.c"), false));
        let anywhere = Filter::new([(false, "tmp/")]).unwrap();
        assert!(!anywhere.takes(Path::new("a/tmp"), true));
        assert!(anywhere.takes(Path::new("a/tmp"), false));
        assert!(Filter::new([(false, "[")]).is_err());
    }

    #[test]
    fn only_included_files_are_copied() {
        let filter = Filter::new([(true, "*.rs")]).unwrap();
        assert!(filter.takes(Path::new("src"), true));
        assert!(filter.takes(Path::new("src/lib.rs"), false));
        assert!(!filter.takes(Path::new("src/lib.c"), false));
    }

    #[test]
    fn a_glob_with_a_slash_matches_the_path() {
        let filter = Filter::new([(false, "/a/*.o"), (false, "b/**")]).unwrap();
        assert!(!filter.takes(Path::new("a/x.o"), false));
        assert!(filter.takes(Path::new("c/a/x.o"), false));
        assert!(!filter.takes(Path::new("b/c/d"), false));
    }
}
