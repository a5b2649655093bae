//! Creates the files of a trace.

use super::{Trace, file};
use crate::content::Content;
use crate::error::{Error, While};
use crate::stop::Stop;
use crate::trees::make_file;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

/// The directory of the files to serve, next to the trace.
pub const FILES: &str = "files";

/// Creates a directory with the trace and, if requested, its files. It must be new or empty. If a step fails,
/// the created files are removed.
///
/// # Errors
/// If the directory is not empty, there is not enough space, a file cannot be created, or `stop` is
/// requested.
pub fn make(
    trace: &Trace,
    directory: &Path,
    with_files: bool,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let doing = format!("cannot make a trace in {}", directory.display());
    let new = !directory.exists();
    std::fs::create_dir_all(directory).doing(&doing)?;
    let mut entries = std::fs::read_dir(directory).doing(&doing)?;
    if entries.next().is_some() {
        let full = std::io::Error::new(ErrorKind::DirectoryNotEmpty, "there is something in it");
        return Err(full).doing(doing);
    }
    let made = fill(trace, directory, with_files, stop, progress);
    if made.is_err() {
        // The first error is reported.
        let _ = std::fs::remove_dir_all(directory.join(FILES));
        if new {
            let _ = std::fs::remove_dir(directory);
        }
    }
    made
}

fn fill(
    trace: &Trace,
    directory: &Path,
    with_files: bool,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    if with_files {
        check_room(trace, directory)?;
        make_files(trace, &directory.join(FILES), stop, progress)?;
    }
    // Last, so that a trace file implies a complete set.
    file::write(trace, &directory.join(file::NAME))
}

fn check_room(trace: &Trace, directory: &Path) -> Result<(), Error> {
    let status = rustix::fs::statvfs(directory).doing("cannot determine the free space")?;
    let free = status.f_bavail * status.f_frsize;
    let bytes = trace.set_bytes() + trace.set_files() as u64 * 4096;
    let needed = bytes + bytes / 20;
    if free < needed {
        let (needed, free) = (needed >> 20, free >> 20);
        let words = format!("it needs {needed} MiB, and {free} MiB are free; use --scale");
        return Err(std::io::Error::new(ErrorKind::StorageFull, words))
            .doing("not enough free space");
    }
    Ok(())
}

fn make_files(
    trace: &Trace,
    root: &Path,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut there: HashSet<&str> = HashSet::new();
    let mut buffer = Vec::new();
    let (mut bytes, all) = (0, trace.set_bytes() >> 20);
    std::fs::create_dir(root).doing(format_args!("cannot make {}", root.display()))?;
    for (number, file) in trace.files.iter().enumerate() {
        let Some(size) = file.size else { continue };
        stop.check()?;
        if let Some((parent, _)) = file.name.rsplit_once('/')
            && there.insert(parent)
        {
            let path = root.join(parent);
            std::fs::create_dir_all(&path).doing(format_args!("cannot make {}", path.display()))?;
        }
        make_file(
            &root.join(&file.name),
            Content::from_name(&file.name),
            size,
            &mut buffer,
        )?;
        bytes += size;
        if number % 100 == 0 {
            progress(&format!("files: {} of {all} MiB", bytes >> 20));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Preset;

    #[test]
    fn every_file_has_its_size_and_contents() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("set");
        let trace = Preset::Rice.trace(2, 0.002);
        make(&trace, &directory, true, &Stop::new(), &mut |_| {}).unwrap();
        for file in &trace.files {
            let bytes = std::fs::read(directory.join(FILES).join(&file.name)).unwrap();
            assert_eq!(Some(bytes.len() as u64), file.size);
            assert_eq!(Content::from_name(&file.name).differs(0, &bytes), None);
        }
        let again = file::read(&directory.join(file::NAME)).unwrap();
        assert_eq!(again.transferred(), trace.transferred());
        let error = make(&trace, &directory, true, &Stop::new(), &mut |_| {}).unwrap_err();
        assert!(
            error.to_string().contains("there is something in it"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_finished_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("set");
        let stop = Stop::new();
        stop.stop();
        let trace = Preset::Rice.trace(2, 0.002);
        assert!(make(&trace, &directory, true, &stop, &mut |_| {}).is_err());
        assert!(!directory.exists());
    }
}
