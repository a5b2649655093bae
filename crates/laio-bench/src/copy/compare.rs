//! Compares a copy with its source: with our own comparison, and with rsync where it is installed.

use crate::child;
use crate::error::{Error, While};
use crate::stop::Stop;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a description of the first difference. With attributes, modes, owners and times are compared too.
///
/// # Errors
/// If a file cannot be read, or `stop` is requested.
pub(super) fn trees(
    source: &Path,
    copy: &Path,
    attributes: bool,
    stop: &Stop,
) -> Result<Option<String>, Error> {
    let mut buffers = Buffers::new();
    let mut below = vec![PathBuf::new()];
    while let Some(name) = below.pop() {
        stop.check()?;
        let (from, to) = (source.join(&name), copy.join(&name));
        let doing = || format!("cannot compare {}", from.display());
        let ours = from.symlink_metadata().doing(doing())?;
        let theirs = match to.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(format!("{} is missing", shown(&name))));
            }
            found => found.doing(format_args!("cannot compare {}", to.display()))?,
        };
        if let Some(what) = entry(&from, &ours, &to, &theirs, attributes).doing(doing())? {
            return Ok(Some(format!("{}: {what}", shown(&name))));
        }
        if ours.is_file()
            && let Some(at) = buffers.compare(&from, &to).doing(doing())?
        {
            return Ok(Some(format!("{}: byte {at} differs", shown(&name))));
        }
        if ours.is_dir() {
            let mut expected = names(&from).doing(doing())?;
            let mut found = names(&to).doing(doing())?;
            expected.sort_unstable();
            found.sort_unstable();
            if let Some(more) = found
                .iter()
                .find(|name| expected.binary_search(name).is_err())
            {
                return Ok(Some(format!(
                    "{} should not exist",
                    shown(&name.join(more))
                )));
            }
            below.extend(expected.iter().map(|more| name.join(more)));
        }
    }
    Ok(None)
}

fn shown(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        "the topmost directory".to_owned()
    } else {
        name.display().to_string()
    }
}

fn names(directory: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
    let entries = std::fs::read_dir(directory)?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

fn entry(
    from: &Path,
    ours: &Metadata,
    to: &Path,
    theirs: &Metadata,
    attributes: bool,
) -> std::io::Result<Option<String>> {
    let kind = ours.file_type();
    let differs = |what: &str| Ok(Some(format!("{what} differ")));
    if kind != theirs.file_type() {
        return differs("the kinds of file");
    }
    if kind.is_symlink() && std::fs::read_link(from)? != std::fs::read_link(to)? {
        return differs("the targets of the symbolic links");
    }
    if (kind.is_block_device() || kind.is_char_device()) && ours.rdev() != theirs.rdev() {
        return differs("the devices");
    }
    if kind.is_file() && ours.len() != theirs.len() {
        return Ok(Some(format!("{} bytes, of {}", theirs.len(), ours.len())));
    }
    if attributes {
        let owner = |status: &Metadata| (status.uid(), status.gid());
        let time = |status: &Metadata| (status.mtime(), status.mtime_nsec());
        if ours.mode() != theirs.mode() {
            return differs("the modes");
        }
        if owner(ours) != owner(theirs) {
            return differs("the owners");
        }
        if time(ours) != time(theirs) {
            return differs("the times");
        }
    }
    Ok(None)
}

const BUFFER: usize = 256 << 10;

/// Two buffers, reused for each pair of files: allocating new ones would cost more than the comparison.
struct Buffers(Vec<u8>, Vec<u8>);

impl Buffers {
    fn new() -> Buffers {
        Buffers(vec![0; BUFFER], vec![0; BUFFER])
    }

    /// Returns the offset of the first difference between two files of the same length.
    fn compare(&mut self, from: &Path, to: &Path) -> std::io::Result<Option<u64>> {
        let (mut one, mut other) = (File::open(from)?, File::open(to)?);
        let mut offset = 0;
        loop {
            let count = one.read(&mut self.0)?;
            let (expected, found) = (&self.0[..count], &mut self.1[..count]);
            match other.read_exact(found) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(offset)),
                result => result?,
            }
            if expected != found {
                let same = expected.iter().zip(found).take_while(|(a, b)| a == b);
                return Ok(Some(offset + same.count() as u64));
            }
            if count == 0 {
                return Ok(None);
            }
            offset += count as u64;
        }
    }
}

/// Returns what rsync would still copy, which is nothing after a correct copy. `None` if rsync would copy
/// nothing, or is not installed.
pub(super) fn by_rsync(
    source: &Path,
    copy: &Path,
    attributes: bool,
    stop: &Stop,
) -> Result<Option<String>, Error> {
    let options = if attributes { "-naHAXS" } else { "-nrl" };
    let listed = Command::new("rsync")
        .args([options, "--checksum", "--delete", "--itemize-changes"])
        .args([source.join(""), copy.join("")])
        .stdin(std::process::Stdio::null())
        .output();
    stop.check()?;
    let output = match listed {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        output => output.doing("cannot run rsync")?,
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(match (text.lines().next(), output.status.success()) {
        (Some(line), _) => Some(format!("rsync would still change: {line}")),
        (None, true) => None,
        (None, false) => Some(format!("rsync cannot compare: {}", output.status)),
    })
}

/// Whether rsync is installed.
pub(super) fn rsync_is_there(stop: &Stop) -> bool {
    child::run(Command::new("rsync").arg("--version"), stop).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn pair() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        for tree in [&from, &to] {
            std::fs::create_dir_all(tree.join("below")).unwrap();
            std::fs::write(tree.join("below/file"), vec![7; 300_000]).unwrap();
            symlink("file", tree.join("below/link")).unwrap();
        }
        (scratch, from, to)
    }

    fn difference(from: &Path, to: &Path) -> String {
        trees(from, to, false, &Stop::new())
            .unwrap()
            .expect("they differ")
    }

    #[test]
    fn equal_trees_are_equal() {
        let (_scratch, from, to) = pair();
        assert_eq!(trees(&from, &to, false, &Stop::new()).unwrap(), None);
        assert_eq!(by_rsync(&from, &to, false, &Stop::new()).unwrap(), None);
        // Files created one after the other may have the same times; now the times differ.
        let file = File::options().write(true).open(to.join("below/file"));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(trees(&from, &to, false, &Stop::new()).unwrap(), None);
        let found = trees(&from, &to, true, &Stop::new()).unwrap();
        assert!(found.is_some_and(|what| what.ends_with("the times differ")));
    }

    #[test]
    fn every_difference_is_found() {
        let (_scratch, from, to) = pair();
        let file = to.join("below/file");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[299_999] = 8;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(difference(&from, &to), "below/file: byte 299999 differs");
        std::fs::write(&file, &bytes[..9]).unwrap();
        assert_eq!(difference(&from, &to), "below/file: 9 bytes, of 300000");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(difference(&from, &to), "below/file is missing");
        std::fs::create_dir(&file).unwrap();
        assert_eq!(
            difference(&from, &to),
            "below/file: the kinds of file differ"
        );
        std::fs::remove_dir(&file).unwrap();
        std::fs::copy(from.join("below/file"), &file).unwrap();
        std::fs::write(to.join("more"), "").unwrap();
        assert_eq!(difference(&from, &to), "more should not exist");
        std::fs::remove_file(to.join("more")).unwrap();
        std::fs::remove_file(to.join("below/link")).unwrap();
        symlink("elsewhere", to.join("below/link")).unwrap();
        assert!(difference(&from, &to).contains("targets"));
    }
}
