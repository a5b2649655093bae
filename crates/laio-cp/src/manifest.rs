//! The manifest: the list of copies with their hashes, which `sha256sum -c` reads.

use crate::digest::Digest;
use crate::lock::lock;
use crate::outcome::Failure;
use crate::quote::quote;
use crate::tree::TemporaryNames;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// One line per file, written when the file is finished. The manifest is renamed to its final name
/// when it is complete.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    /// The temporary name; `None` for standard output, a pipe or a terminal.
    temporary: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    output: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Manifest {
    /// Creates a manifest; `-` is standard output.
    pub(crate) fn create(path: &Path) -> Result<Manifest, Failure> {
        let failed = |error| {
            Failure::from_error(error, format!("cannot write the manifest {}", quote(path)))
        };
        let (file, temporary) = open(path).map_err(failed)?;
        Ok(Manifest {
            path: path.to_owned(),
            temporary,
            state: Mutex::new(State {
                output: BufWriter::new(file),
                failed: None,
            }),
        })
    }

    /// Adds the line of a copy.
    pub(crate) fn add(&self, digest: &Digest, copy: &Path) {
        let mut line = Vec::new();
        write_line(&mut line, digest, copy.as_os_str().as_bytes());
        let mut state = lock(&self.state);
        if state.failed.is_none()
            && let Err(error) = state.output.write_all(&line)
        {
            state.failed = Some(error);
        }
    }

    /// Completes the manifest and renames it; `durable` syncs it first.
    pub(crate) fn finish(&self, durable: bool) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        let result = match state.failed.take() {
            Some(error) => Err(error),
            None => state
                .output
                .flush()
                .and_then(|()| self.put(&state, durable)),
        };
        result.map_err(|error| {
            self.discard();
            let path = quote(&self.path);
            Failure::from_error(error, format!("cannot write the manifest {path}"))
        })
    }

    fn put(&self, state: &State, durable: bool) -> io::Result<()> {
        match &self.temporary {
            None => Ok(()),
            Some(temporary) => {
                if durable {
                    state.output.get_ref().sync_all()?;
                }
                std::fs::rename(temporary, &self.path)?;
                if durable {
                    self.sync_directory()
                } else {
                    Ok(())
                }
            }
        }
    }
}

impl Manifest {
    /// Makes the name durable.
    fn sync_directory(&self) -> io::Result<()> {
        let above = self
            .path
            .parent()
            .filter(|above| !above.as_os_str().is_empty());
        match File::open(above.unwrap_or(Path::new(".")))?.sync_all() {
            // This file system does not sync directories.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    /// Removes an incomplete manifest.
    pub(crate) fn discard(&self) {
        if let Some(temporary) = &self.temporary {
            // On failure the file stays; its name shows that it is incomplete.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn open(path: &Path) -> io::Result<(File, Option<PathBuf>)> {
    if path.as_os_str() == "-" {
        let output = io::stdout();
        return Ok((File::from(rustix::io::dup(&output)?), None));
    }
    match std::fs::metadata(path) {
        Ok(existing) if !existing.is_file() => {
            let file = File::options().write(true).open(path)?;
            return Ok((file, None));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let sibling = TemporaryNames::of_process().next();
    let temporary = path.with_file_name(sibling);
    let file = File::create_new(&temporary)?;
    Ok((file, Some(temporary)))
}

/// Writes a line as GNU's tools do: it begins with a backslash if the name contains escapes.
fn write_line(line: &mut Vec<u8>, digest: &Digest, name: &[u8]) {
    // Escape a carriage return only at the end of a name: older tools do not know this escape,
    // newer ones strip an unescaped one there.
    let ends_in_return = name.last() == Some(&b'\r');
    let escapes = |byte: &u8| matches!(byte, b'\\' | b'\n');
    if ends_in_return || name.iter().any(escapes) {
        line.push(b'\\');
    }
    line.extend_from_slice(digest.to_string().as_bytes());
    line.extend_from_slice(b"  ");
    for (index, byte) in name.iter().enumerate() {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' if index + 1 == name.len() => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_the_digest(name: &[u8]) -> (bool, Vec<u8>) {
        let mut line = Vec::new();
        let digest = Digest::of([]);
        write_line(&mut line, &digest, name);
        let escaped = line[0] == b'\\';
        (escaped, line.split_off(usize::from(escaped) + 64))
    }

    #[test]
    fn names_that_would_break_a_line_are_escaped() {
        assert_eq!(after_the_digest(b"a b"), (false, b"  a b\n".to_vec()));
        assert_eq!(after_the_digest(b"a\\b"), (true, b"  a\\\\b\n".to_vec()));
        assert_eq!(after_the_digest(b"a\nb"), (true, b"  a\\nb\n".to_vec()));
        assert_eq!(after_the_digest(b"a\rb"), (false, b"  a\rb\n".to_vec()));
        assert_eq!(after_the_digest(b"a\r"), (true, b"  a\\r\n".to_vec()));
    }
}
