//! The options of a plan, stored for the processes that work on it and finish it.

use crate::options::{
    Backup, Existing, Follow, Make, Method, Options, Preserve, Reflink, Sparse, Writes,
};
use laio::BackendKind;
use laio::ops::Advice;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// The stored options.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    recursive: bool,
    follow: Follow,
    contents_of_special: bool,
    preserve: Preserve,
    existing: Existing,
    update: bool,
    force: bool,
    remove_destination: bool,
    keep_directory_symlink: bool,
    sparse: Sparse,
    reflink: Reflink,
    verbose: bool,
    debug: bool,
    fsync: bool,
    rate: Option<u64>,
    backend: Option<String>,
    backend_writes: bool,
    method: Method,
    jobs: Option<NonZeroUsize>,
    depth: Option<NonZeroUsize>,
    buffer: usize,
    preallocate: bool,
    advise: Option<String>,
    queue: Option<NonZeroUsize>,
    direct: bool,
}

impl Settings {
    /// Stores the options. Each option is stored, used by the planner alone, or rejected by
    /// `refuse`.
    pub(crate) fn from_options(options: &Options) -> Settings {
        Settings {
            recursive: options.recursive,
            follow: options.follow,
            contents_of_special: options.contents_of_special,
            preserve: options.preserve,
            existing: options.existing,
            update: options.update,
            force: options.force,
            remove_destination: options.remove_destination,
            keep_directory_symlink: options.keep_directory_symlink,
            sparse: options.sparse,
            reflink: options.reflink,
            verbose: options.verbose,
            debug: options.debug,
            fsync: options.fsync,
            rate: options.rate,
            backend: options.backend.map(|backend| backend.to_string()),
            backend_writes: options.writes == Writes::Backend,
            method: options.method,
            jobs: options.jobs,
            depth: options.depth,
            buffer: options.buffer,
            preallocate: options.preallocate,
            advise: options.advise.map(word_of),
            queue: options.queue,
            direct: options.direct,
        }
    }

    /// Returns the stored options, with those of the process (messages, workers) taken from
    /// `given`.
    pub(crate) fn options(&self, given: Options) -> Result<Options, String> {
        let kept: Option<BackendKind> = match &self.backend {
            Some(name) => Some(name.parse()?),
            None => None,
        };
        let advise = match &self.advise {
            Some(word) => Some(advice_of(word)?),
            None => None,
        };
        Ok(Options {
            recursive: self.recursive,
            follow: self.follow,
            contents_of_special: self.contents_of_special,
            preserve: self.preserve,
            existing: self.existing,
            update: self.update,
            force: self.force,
            remove_destination: self.remove_destination,
            keep_directory_symlink: self.keep_directory_symlink,
            sparse: self.sparse,
            reflink: self.reflink,
            verbose: self.verbose || given.verbose,
            debug: self.debug || given.debug,
            // A file that a killed process leaves must not look complete.
            atomic: true,
            fsync: self.fsync || given.fsync,
            rate: given.rate.or(self.rate),
            backend: given.backend.or(kept),
            writes: if self.backend_writes {
                Writes::Backend
            } else {
                given.writes
            },
            method: self.method,
            jobs: given.jobs.or(self.jobs),
            depth: given.depth.or(self.depth),
            buffer: self.buffer.min(Options::BUFFER_MAX),
            preallocate: self.preallocate,
            advise,
            queue: self.queue,
            direct: self.direct,
            progress: given.progress,
            program: given.program,
            observer: given.observer,
            ..Options::default()
        })
    }
}

fn word_of(advice: Advice) -> String {
    let mut words = Options::ADVICE.into_iter();
    let found = words.find(|(_, known)| *known == advice);
    found.map_or("", |(word, _)| word).to_owned()
}

fn advice_of(word: &str) -> Result<Advice, String> {
    let mut words = Options::ADVICE.into_iter();
    let found = words.find(|(known, _)| *known == word);
    found
        .map(|(_, advice)| advice)
        .ok_or_else(|| format!("it has an unknown advice '{word}'"))
}

/// Rejects options whose result differs if a part is repeated, or that leave no data to share.
pub(crate) fn refuse(options: &Options) -> Result<(), &'static str> {
    let refused = [
        (options.make != Make::Copies, "--link and --symbolic-link"),
        (options.backup != Backup::None, "--backup"),
        (options.existing == Existing::Ask, "--interactive"),
        (options.existing == Existing::Fail, "--update=none-fail"),
        (options.attributes_only, "--attributes-only"),
        (options.dry_run, "--dry-run"),
        (options.verify, "--verify"),
        (options.manifest.is_some(), "--manifest"),
        (options.resume, "--resume"),
    ];
    let found = refused.iter().find(|(set, _)| *set);
    found.map_or(Ok(()), |(_, name)| Err(*name))
}
