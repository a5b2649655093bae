//! Directories as archives.

use super::declare::options;
use std::str::FromStr;

options! {
    /// How directories are packed into archives.
    pub struct Archives {
        /// Send a directory with all that is in it as one zip file for DIRECTORY/?zip.
        ///
        /// With `store`, files are sent as they are, and the client gets the length in advance; with `deflate`, what
        /// compresses like text is compressed. Without a value it is `store`.
        #[arg(long = "zip", value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "store",
            help_heading = "Files")]
        pub zip: Option<Zip> = None,
    }
}

/// How the files of a zip file are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zip {
    /// As they are.
    Store,
    /// Compressed, where that is worth it.
    Deflate,
}

impl FromStr for Zip {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Zip, Self::Err> {
        match text {
            "store" => Ok(Zip::Store),
            "deflate" => Ok(Zip::Deflate),
            _ => Err("it is store or deflate"),
        }
    }
}
