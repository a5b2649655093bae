//! Changing the files of a site.

use super::declare::options;
use std::str::FromStr;

options! {
    /// Who may change the files of a site, and how.
    pub struct Uploads {
        /// Let users with a password store, replace and delete files and make directories (PUT, DELETE,
        /// MKCOL).
        ///
        /// Needs `--auth`. Every change needs a password, also where reading does not (`--auth-path`).
        /// `--upload=anyone` needs no password: all clients that can connect can then change every file of
        /// DIR; it cannot be combined with `--auth`.
        #[arg(long = "upload", value_name = "WHO", num_args = 0..=1, require_equals = true, default_missing_value = "users",
            help_heading = "Uploads")]
        pub who: Option<Uploaders> = None,
        /// Bytes of one uploaded file; more is 413.
        #[arg(long = "upload-bytes", value_name = "BYTES", help_heading = "Uploads")]
        pub bytes: u64 = 1 << 30,
        /// Bytes of the file system that uploads leave free; an upload that would not is 507.
        #[arg(long = "upload-keep-free", value_name = "BYTES", help_heading = "Uploads")]
        pub keep_free: u64 = 256 << 20,
        /// Bytes of all files below DIR; an upload or a copy beyond that is 507.
        ///
        /// The files are counted when the server starts, and each change is counted from then on. A file that replaces
        /// another one needs room for both until it is complete.
        #[arg(long = "upload-quota", value_name = "BYTES", help_heading = "Uploads")]
        pub quota: Option<u64> = None,
        /// Number of files and directories below DIR; one more is 507.
        #[arg(long = "upload-files", value_name = "NUMBER", help_heading = "Uploads")]
        pub files: Option<u64> = None,
        /// What has reached the disk when the response is sent: none, the file, or the file and its name
        /// (directory).
        ///
        /// With `none`, a power failure shortly after an upload can leave an empty file in place of the old one
        /// on some file systems; with `file`, the old file or the new one.
        #[arg(long = "upload-sync", value_name = "WHAT", default_value = "file", help_heading = "Uploads")]
        pub sync: UploadSync = UploadSync::File,
        /// Let clients mount DIR (WebDAV): list it, and with --upload copy, move and lock files.
        #[arg(long = "webdav", help_heading = "Uploads")]
        pub webdav: bool = false,
    }
}

impl Uploads {
    /// Returns the methods that the files of a site allow.
    #[doc(hidden)]
    pub fn methods(&self) -> &'static str {
        match (self.who.is_some(), self.webdav) {
            (false, false) => "GET, HEAD, OPTIONS",
            (false, true) => "GET, HEAD, OPTIONS, PROPFIND",
            (true, false) => "GET, HEAD, OPTIONS, PUT, DELETE, MKCOL",
            (true, true) => {
                "GET, HEAD, OPTIONS, PUT, DELETE, MKCOL, COPY, MOVE, LOCK, UNLOCK, PROPFIND, PROPPATCH"
            }
        }
    }

    /// Returns the classes of WebDAV that the files of a site have. Class 2 means locks, which some
    /// clients need in order to write.
    #[doc(hidden)]
    pub fn classes(&self) -> Option<&'static [u8]> {
        match (self.who.is_some(), self.webdav) {
            (_, false) => None,
            (false, true) => Some(b"1"),
            (true, true) => Some(b"1, 2"),
        }
    }
}

/// Who may change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploaders {
    /// Users with a password.
    Users,
    /// Everyone who can connect.
    Anyone,
}

impl FromStr for Uploaders {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Uploaders, Self::Err> {
        match text {
            "users" => Ok(Uploaders::Users),
            "anyone" => Ok(Uploaders::Anyone),
            _ => Err("it is users or anyone"),
        }
    }
}

/// What has reached the disk when an upload is confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadSync {
    /// Nothing; the kernel writes within seconds.
    None,
    /// The contents of the file.
    #[default]
    File,
    /// The contents, and the name in its directory.
    Directory,
}

impl FromStr for UploadSync {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<UploadSync, Self::Err> {
        match text {
            "none" => Ok(UploadSync::None),
            "file" => Ok(UploadSync::File),
            "directory" => Ok(UploadSync::Directory),
            _ => Err("it is none, file or directory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!("anyone".parse(), Ok(Uploaders::Anyone));
        assert!("".parse::<Uploaders>().is_err() && "yes".parse::<Uploaders>().is_err());
        assert_eq!("directory".parse(), Ok(UploadSync::Directory));
        assert!("all".parse::<UploadSync>().is_err());
    }
}
