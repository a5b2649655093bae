//! Backups: renames the destination before it is overwritten.

use crate::io::Io;
use crate::options::{Backup, Options};
use crate::session::Session;
use crate::tree::{Entry, identity};
use laio::Errno;
use laio::ops::{Name, Open, ReadDir, Rename, StatPath};
use laio_rt::fs::Metadata;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

/// The number of attempts to find a free numbered name while other processes take them.
const ATTEMPTS_MAX: u32 = 64;

/// Renames the destination to its backup name and returns that; `None` if the destination is gone.
pub(crate) async fn create(
    io: &Io,
    session: &Session,
    entry: &Entry,
) -> io::Result<Option<OsString>> {
    for _ in 0..ATTEMPTS_MAX {
        let name = backup_name(io, session, entry).await?;
        let numbered = session.options.backup == Backup::Numbered || is_numbered(&name);
        let mut rename = Rename::new(entry.target(), entry.sibling(&name));
        if numbered {
            rename = rename.flags(libc::RENAME_NOREPLACE);
        }
        match io.call_target(rename).await {
            Ok(()) => return Ok(Some(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if numbered && error.kind() == io::ErrorKind::AlreadyExists => {}
            // The file system does not support RENAME_NOREPLACE.
            Err(error) if numbered && error.raw_os_error() == Some(Errno::INVAL.raw()) => {
                let rename = Rename::new(entry.target(), entry.sibling(&name));
                io.call_target(rename).await?;
                return Ok(Some(name));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Whether the backup would overwrite the source.
pub(crate) async fn is_backup_of(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
) -> bool {
    let suffix = &session.options.suffix;
    let name = simple_name(entry.new_name(), suffix);
    let source_path = entry.source_path();
    if source_path.file_name() != Path::new(&name).file_name() {
        return false;
    }
    let backup = io.call_target(StatPath::new(entry.sibling(&name))).await;
    backup.is_ok_and(|backup| identity(&backup) == identity(source))
}

/// The name of the destination's backup.
pub(crate) async fn backup_name(io: &Io, session: &Session, entry: &Entry) -> io::Result<OsString> {
    let options = &session.options;
    let name = entry.new_name();
    let number = match options.backup {
        Backup::None | Backup::Simple => None,
        Backup::Existing | Backup::Numbered => Some(highest_number(io, entry).await?),
    };
    Ok(next_name(name, options, number))
}

/// The destination of a copy; its backup name if `--force` and `--backup` copy a file onto itself.
pub(crate) fn target_of_self_copy(options: &Options, source: &OsStr, target: OsString) -> OsString {
    let regular = |path: &OsString| std::fs::metadata(path).is_ok_and(|status| status.is_file());
    if options.force && options.backup != Backup::None && *source == *target && regular(&target) {
        self_copy_target(&target, options)
    } else {
        target
    }
}

fn self_copy_target(path: &OsStr, options: &Options) -> OsString {
    let whole = Path::new(path);
    let base = whole.file_name().unwrap_or(path);
    let above = whole.parent().filter(|above| !above.as_os_str().is_empty());
    let names = laio::directory::names(above.unwrap_or(Path::new(".")));
    let names = names.into_iter().flatten().flatten();
    let number = names.filter_map(|name| number_of(&name, base));
    next_name(path, options, Some(number.max().unwrap_or(0)))
}

/// The backup name that follows the highest existing number.
fn next_name(name: &OsStr, options: &Options, number: Option<u64>) -> OsString {
    match (number, options.backup) {
        (Some(number), Backup::Numbered) => numbered_name(name, number + 1),
        (Some(number), Backup::Existing) if number > 0 => numbered_name(name, number + 1),
        _ => simple_name(name, &options.suffix),
    }
}

/// The longest name, in bytes. A longer one is cut, and gets `~` in place of the suffix.
const NAME_MAX: usize = 254;

fn shortened(mut name: Vec<u8>, end: usize) -> OsString {
    let base = name
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1);
    if name.len() - base > NAME_MAX {
        name.truncate(end.min(base + NAME_MAX - 1));
        name.push(b'~');
    }
    OsString::from_vec(name)
}

/// The name of a simple backup.
pub(crate) fn simple_name(name: &OsStr, suffix: &OsStr) -> OsString {
    let name = without_trailing_slashes(name);
    let whole = [name.as_bytes(), suffix.as_bytes()].concat();
    shortened(whole, name.len())
}

fn numbered_name(name: &OsStr, number: u64) -> OsString {
    let name = without_trailing_slashes(name);
    let whole = [name.as_bytes(), format!(".~{number}~").as_bytes()].concat();
    shortened(whole, name.len())
}

fn without_trailing_slashes(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    OsStr::from_bytes(&bytes[..end])
}

fn is_numbered(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let Some(bytes) = bytes.strip_suffix(b"~") else {
        return false;
    };
    let digits = bytes
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    digits > 0 && bytes[..bytes.len() - digits].ends_with(b".~")
}

/// The highest number of an existing backup.
async fn highest_number(io: &Io, entry: &Entry) -> io::Result<u64> {
    let whole = Path::new(entry.new_name());
    let base = whole.file_name().unwrap_or(whole.as_os_str());
    let above = match whole.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let directory = Name::from_path_in(entry.handles().target.clone(), above)?;
    let open = Open::new(directory, libc::O_RDONLY | libc::O_DIRECTORY);
    let opened = io.call_target(open).await?;
    let opened = Arc::new(opened);
    let mut highest = 0;
    let mut buffer = Vec::with_capacity(ReadDir::<()>::ROOM);
    loop {
        let read = ReadDir::with_buffer(opened.clone(), buffer);
        let entries = io.call_target(read).await?;
        if entries.is_empty() {
            return Ok(highest);
        }
        let numbers = entries
            .iter()
            .filter_map(|entry| number_of(entry.name(), base));
        highest = numbers.fold(highest, u64::max);
        buffer = entries.into_buffer();
    }
}

/// The number in the name of a numbered backup of `base`.
fn number_of(name: &OsStr, base: &OsStr) -> Option<u64> {
    let rest = name.as_bytes().strip_prefix(base.as_bytes())?;
    let digits = rest.strip_prefix(b".~")?.strip_suffix(b"~")?;
    let digits = std::str::from_utf8(digits).ok()?;
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_backups_are_parsed_and_formatted() {
        let name = numbered_name(OsStr::new("a"), 12);
        assert_eq!(name, "a.~12~");
        assert!(is_numbered(&name));
        assert!(!is_numbered(OsStr::new("a~")));
        assert_eq!(number_of(&name, OsStr::new("a")), Some(12));
        assert_eq!(number_of(&name, OsStr::new("b")), None);
        assert_eq!(number_of(OsStr::new("a.~x~"), OsStr::new("a")), None);
    }
}
