//! Opening files with options.

use super::File;
use crate::{blocking, run};
use laio::ops::{Name, Open, OpenFile};
use libc::{O_ACCMODE, O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use std::fs::OpenOptions as StdOpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Options and flags which can be used to configure how a file is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: i32,
    /// Made of those of the standard library, which cannot be read.
    std: Option<StdOpenOptions>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

const REQUIRES_WRITE: &str = "creating or truncating a file requires write or append access";

impl OpenOptions {
    /// Creates a blank new set of options ready for configuration: all are false.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: 0,
            std: None,
        }
    }

    /// Sets the option for read access.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self.of_std(|std| std.read(read))
    }

    /// Sets the option for write access.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self.of_std(|std| std.write(write))
    }

    /// Sets the option for the append mode.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self.of_std(|std| std.append(append))
    }

    /// Sets the option for truncating a previous file.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self.of_std(|std| std.truncate(truncate))
    }

    /// Sets the option for creating a new file, or opening one that exists.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self.of_std(|std| std.create(create))
    }

    /// Sets the option to always create a new file: no file may exist at the target, not even a dangling
    /// symbolic link.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self.of_std(|std| std.create_new(create_new))
    }

    /// Sets the mode bits that a new file will be created with, reduced by the umask.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = mode;
        self.of_std(|std| std.mode(mode))
    }

    /// Passes custom flags to the `flags` argument of `open`. The bits of the access mode are masked out.
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        self.custom_flags = flags;
        self.of_std(|std| std.custom_flags(flags))
    }

    /// Opens a file at `path` with these options.
    ///
    /// # Errors
    /// Those of `std::fs::OpenOptions::open`.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        if let Some(std) = self.std.clone() {
            let path = path.as_ref().to_owned();
            return Ok(File::from_std(blocking(move |_| std.open(path)).await?));
        }
        let flags = self.flags()?;
        let open = Open::new(Name::from_path(&path)?, flags).mode(self.mode);
        Ok(File::from_open(OpenFile::from(run(open).await?)))
    }

    fn of_std(
        &mut self,
        set: impl FnOnce(&mut StdOpenOptions) -> &mut StdOpenOptions,
    ) -> &mut Self {
        if let Some(std) = &mut self.std {
            set(std);
        }
        self
    }

    /// The `O_*` flags; the same combinations are refused as by the standard library.
    fn flags(&self) -> io::Result<i32> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let makes = self.truncate || self.create || self.create_new;
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => O_RDONLY,
            (false, true, false) => O_WRONLY,
            (true, true, false) => O_RDWR,
            (false, _, true) => O_WRONLY | O_APPEND,
            (true, _, true) => O_RDWR | O_APPEND,
            (false, false, false) if makes => return invalid(REQUIRES_WRITE),
            (false, false, false) => {
                return invalid("must specify at least one of read, write, or append access");
            }
        };
        match (self.write, self.append) {
            (false, false) if makes => return invalid(REQUIRES_WRITE),
            (_, true) if self.truncate && !self.create_new => return invalid(REQUIRES_WRITE),
            _ => {}
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => O_CREAT,
            (false, true, false) => O_TRUNC,
            (true, true, false) => O_CREAT | O_TRUNC,
            (_, _, true) => O_CREAT | O_EXCL,
        };
        Ok(access | creation | (self.custom_flags & !O_ACCMODE))
    }
}

impl From<StdOpenOptions> for OpenOptions {
    /// These options cannot be read, so a helper opens files with them.
    fn from(options: StdOpenOptions) -> OpenOptions {
        OpenOptions {
            std: Some(options),
            ..OpenOptions::new()
        }
    }
}
