//! When a rule applies.

use super::{Answered, Rule};
use crate::site::fields::globs;
use globset::{Candidate, GlobSet};
use laio_http::{Request, Status};
use laio_serve_base::options::{FieldConditions, StatusPattern};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The compiled conditions of a rule.
pub(super) struct Conditions {
    /// None fits every path.
    paths: Option<GlobSet>,
    extensions: Vec<String>,
    statuses: Vec<StatusPattern>,
    media_types: Vec<String>,
    methods: Vec<String>,
}

impl Conditions {
    /// # Errors
    /// When a glob is malformed.
    pub(super) fn new(conditions: &FieldConditions) -> io::Result<Conditions> {
        let FieldConditions {
            paths,
            extensions,
            statuses,
            media_types,
            methods,
        } = conditions.clone();
        // A directory is below itself: /docs/** fits /docs/ too.
        let itself = paths.iter().filter_map(|path| path.strip_suffix("**"));
        let itself = itself.filter(|path| path.len() > 1 && path.ends_with('/'));
        let all = paths.iter().map(String::as_str).chain(itself);
        let set = (!paths.is_empty()).then(|| globs(all));
        Ok(Conditions {
            paths: set.transpose()?,
            extensions,
            statuses,
            media_types,
            methods,
        })
    }

    pub(super) fn has_paths(&self) -> bool {
        self.paths.is_some() || !self.extensions.is_empty()
    }

    pub(super) fn has_methods(&self) -> bool {
        !self.methods.is_empty()
    }

    /// Whether the conditions fit a request and the status and media type of its response.
    pub(super) fn fit(
        &self,
        asked: &Asked<'_>,
        status: Option<Status>,
        media_type: Option<&[u8]>,
    ) -> bool {
        let method = asked.method;
        self.fit_status(status)
            && fits_one(&self.methods, |own| method == Some(own))
            && fits_one(&self.media_types, |own| {
                media_type.is_some_and(|it| is_media_type(own, it))
            })
            && self.fit_path(asked)
    }

    fn fit_status(&self, status: Option<Status>) -> bool {
        let Some(status) = status else { return true };
        // A 304 has the fields that the 200 would have (RFC 9110, section 15.4.5).
        let as_ok = status == Status::NOT_MODIFIED;
        fits_one(&self.statuses, |own| {
            own.fits(status.code()) || (as_ok && own.fits(200))
        })
    }

    fn fit_path(&self, asked: &Asked<'_>) -> bool {
        let paths = self.paths.as_ref();
        (!self.has_paths())
            || asked.paths.iter().any(|path| {
                let path = Path::new(OsStr::from_bytes(path));
                paths.is_none_or(|globs| globs.is_match_candidate(&Candidate::new(path)))
                    && fits_one(&self.extensions, |own| {
                        path.extension()
                            .is_some_and(|it| it.eq_ignore_ascii_case(own))
                    })
            })
    }
}

/// Whether there are no values, or one fits.
fn fits_one<T>(values: &[T], fits: impl Fn(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(fits)
}

/// Whether the value of `Content-Type` is of a type `text/html` or `text/*`.
fn is_media_type(own: &str, value: &[u8]) -> bool {
    let end = value
        .iter()
        .position(|&byte| byte == b';')
        .unwrap_or(value.len());
    let essence = value[..end].trim_ascii();
    match own.strip_suffix('*') {
        Some(start) => essence
            .get(..start.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(start.as_bytes())),
        None => essence.eq_ignore_ascii_case(own.as_bytes()),
    }
}

/// What conditions compare.
pub(super) struct Asked<'a> {
    method: Option<&'a str>,
    /// The path of the file that answers or else of the request, and the path that the client sent if it was
    /// rewritten. Without a leading slash. None if no rule needs paths.
    paths: Vec<Vec<u8>>,
}

impl<'a> Asked<'a> {
    pub(super) fn new<'r>(
        mut rules: impl Iterator<Item = &'r Rule>,
        answered: Answered<'a>,
    ) -> Asked<'a> {
        let mut paths = Vec::new();
        if rules.any(|rule| rule.conditions.has_paths()) {
            let name = match answered.file {
                Some(name) => Some(name.to_vec()),
                None => answered.request.and_then(name_of),
            };
            paths.extend(name);
            paths.extend(answered.before_rewrite.and_then(name_of));
        }
        Asked {
            method: answered.request.map(|request| request.method.as_str()),
            paths,
        }
    }
}

/// Returns the decoded path of a request, without its leading slash, and with the one at its end. None if it has no single reading.
fn name_of(request: &Request<'_>) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let path = request.path.as_ref().ok()?;
    let normal = path.file_name(&mut name).ok()?;
    if normal.trailing_slash && !name.is_empty() && !name.ends_with(b"/") {
        name.push(b'/');
    }
    Some(name)
}
