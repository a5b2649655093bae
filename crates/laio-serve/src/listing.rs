//! What is in a directory, for people and for programs.

mod html;
mod json;

use crate::lanes;
use crate::options::Step;
use crate::reply::{Asked, Reply};
use crate::worker::Worker;
use laio::ops::{FileType, Name, ReadDir, StatPath};
use laio_http::{ContentType, Status, prefers};
use laio_rt::Descriptor;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// An entry of a listing.
pub(crate) struct Entry {
    name: Vec<u8>,
    directory: bool,
    size: u64,
    /// Seconds since 1970.
    modified: i64,
}

/// The entries of a directory.
pub(crate) struct Listing {
    /// Directories first, by name.
    entries: Vec<Entry>,
    /// There are more than are shown.
    cut: bool,
}

impl Worker {
    /// The answer with the list of a directory: JSON if the client likes that better than HTML, or asks for
    /// it by `?json`.
    pub(crate) async fn listing(
        &self,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
        name: &[u8],
        directory: Descriptor,
    ) -> Reply {
        let asked = Asked {
            by_accept: true,
            ..asked
        };
        let Ok(listing) = self.list(asked, directory).await else {
            let detail = "The directory could not be read.";
            return self
                .error(asked, out, Status::INTERNAL_SERVER_ERROR, detail)
                .await;
        };
        let headers = &asked.request.headers;
        let json = asked.request.query == Some("json")
            || prefers(headers, "application/json", "text/html");
        let mut page = Vec::new();
        let content_type = if json {
            json::write(&listing, &mut page);
            ContentType::JSON
        } else {
            html::write(&listing, name, &mut page);
            ContentType::HTML
        };
        let head = asked.head(out, Status::OK);
        // A glob such as /docs/** is for the directory itself too.
        let head = asked.site.fields.add(head, &[name, b"/"].concat());
        let reply = asked.with_length(head, Status::OK, content_type, page.len() as u64);
        if reply.length > 0 {
            out.extend_from_slice(&page);
        }
        reply
    }

    async fn list(&self, asked: Asked<'_>, directory: Descriptor) -> io::Result<Listing> {
        let most = self.limits().listing_entries;
        let mut listing = Listing {
            entries: Vec::new(),
            cut: false,
        };
        let mut buffer = Vec::with_capacity(ReadDir::<Descriptor>::ROOM);
        loop {
            let read = ReadDir::with_buffer(directory.clone(), buffer);
            let entries = lanes::submit(Step::Open, read).await?;
            if entries.is_empty() || listing.cut {
                break;
            }
            for entry in entries.iter() {
                let name = entry.name().as_bytes();
                if name.starts_with(b".") && !asked.site.serves_dotfiles {
                    continue;
                }
                if listing.entries.len() == most {
                    listing.cut = true;
                    break;
                }
                let known = entry.file_type();
                listing.entries.extend(look(&directory, name, known).await);
            }
            buffer = entries.into_buffer();
        }
        listing.entries.sort_unstable_by(|one, other| {
            (!one.directory, &one.name).cmp(&(!other.directory, &other.name))
        });
        Ok(listing)
    }
}

/// An entry with its attributes. None for what is not served: devices and the like, and links, because where
/// they lead to is not known without following them.
async fn look(directory: &Descriptor, name: &[u8], known: FileType) -> Option<Entry> {
    if !matches!(
        known,
        FileType::Regular | FileType::Directory | FileType::Unknown | FileType::Symlink
    ) {
        return None;
    }
    let path = Name::at(directory.clone(), CString::new(name).ok()?);
    // Links are shown as what they are, and lead wherever the site lets them when they are asked for.
    let status = lanes::submit(Step::Stat, StatPath::new(path).no_follow())
        .await
        .ok()?;
    let shown = status.is_file() || status.is_dir() || status.is_symlink();
    shown.then(|| Entry {
        name: name.to_vec(),
        directory: status.is_dir(),
        size: if status.is_file() { status.size() } else { 0 },
        modified: status.modified().seconds,
    })
}
