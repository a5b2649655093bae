//! Removes the temporary files that killed processes of a plan have left.

use super::opener::Opener;
use super::records::{FileRecord, LinkRecord, Record};
use crate::schedule::worker::Worker;
use crate::tree::{Entry, TemporaryNames};
use laio::ops::{Open, ReadDir, Unlink};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Removes files with these names from all directories in which the records create files.
pub(crate) async fn remove(worker: &Worker, opener: &Opener, names: &[TemporaryNames]) {
    for file in one_file_of_each_directory(opener) {
        match opener.find(worker, &file).await {
            Ok(entry) => remove_beside(worker, &entry, names),
            Err(failure) => worker.session.report_failure(&failure),
        }
    }
}

/// The name of a file in the target directory may contain directories, which have no record.
pub(super) fn one_file_of_each_directory(opener: &Opener) -> Vec<FileRecord<'_>> {
    let mut files = HashMap::new();
    for (_, record) in opener.records.iter() {
        if let Record::File(file)
        | Record::LargeFile(file, _)
        | Record::Link(LinkRecord { link: file, .. }) = record
        {
            let above = Path::new(file.target).parent().map(Path::as_os_str);
            files.entry((file.directory, above)).or_insert(file);
        }
    }
    files.into_values().collect()
}

/// Removes files with these names from the directory that contains the destination of an entry.
fn remove_beside(worker: &Worker, entry: &Entry, names: &[TemporaryNames]) {
    let io = &worker.io;
    // A new descriptor: the position of the existing one may have moved.
    let open = Open::new(
        entry.sibling(OsStr::new(".")),
        libc::O_RDONLY | libc::O_DIRECTORY,
    );
    let Ok(directory) = io.call_blocking(open).map(Arc::new) else {
        return;
    };
    while let Ok(found) = io.call_blocking(ReadDir::new(directory.clone())) {
        if found.is_empty() {
            return;
        }
        let found = found.iter().map(|found| found.name());
        for name in found.filter(|name| names.iter().any(|names| names.contains(name))) {
            // On failure the file stays; its name shows that it is incomplete.
            let _ = io.call_blocking(Unlink::new(entry.sibling(name)));
        }
    }
}
