//! `alias` and `root` of a location, as `--alias`.

use super::location::Site;
use super::parser::Directive;
use super::ranking::Pattern;
use super::site::needs_empty_root;
use super::translate::EMPTY_ROOT;

/// Returns the value of `--alias` for a `root` or an `alias` of a location with a prefix or a path.
pub(super) fn alias(directive: &Directive, pattern: &Pattern) -> Option<String> {
    let (Pattern::Prefix(path) | Pattern::Exact(path)) = pattern else {
        return None;
    };
    let (directory, name) = (directive.word(), path.trim_end_matches('/'));
    if name.is_empty() || !directory.starts_with('/') || directory.contains('$') {
        return None;
    }
    let plain = directory.trim_end_matches('/');
    match &*directive.name {
        "root" => Some(format!("{name}={plain}{name}")),
        // Otherwise nginx makes another name of the rest of the path and the directory.
        "alias" if path.ends_with('/') == directory.ends_with('/') => Some(format!(
            "{name}={}",
            if plain.is_empty() { "/" } else { plain }
        )),
        _ => None,
    }
}

impl Site<'_, '_> {
    /// Lets files come before an upstream of all paths, if the location has a directory of its own for them. Returns
    /// whether it has.
    pub(super) fn serves_directory_beside_upstream(
        &mut self,
        location: &Directive,
        pattern: &Pattern,
    ) -> bool {
        let mut inner = location.inner().iter();
        let Some(directive) = inner.find(|it| alias(it, pattern).is_some()) else {
            return false;
        };
        // The files of the root are not those of any path.
        if self.root != EMPTY_ROOT {
            self.root = EMPTY_ROOT.to_owned();
            self.table.set("root", EMPTY_ROOT);
            needs_empty_root(self.shared, self.server.directive);
        }
        self.table
            .set("try", vec!["{path}".to_owned(), "@upstream".to_owned()]);
        let how = "the upstream answers for a file that does not exist";
        self.shared.remarks.differs(directive, how);
        true
    }
}
