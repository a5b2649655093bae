//! Listings as JSON.

use super::Listing;
use laio_http::{HttpDate, path};
use serde::Serialize;

#[derive(Serialize)]
struct Row<'a> {
    name: std::borrow::Cow<'a, str>,
    /// The percent-encoded name.
    encoded: String,
    r#type: &'static str,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    entries: Vec<Row<'a>>,
    complete: bool,
}

/// Appends the listing. `name` has U+FFFD in place of bytes that are not UTF-8; `encoded` is exact.
pub(super) fn write(listing: &Listing, out: &mut Vec<u8>) {
    let row = |entry: &'_ super::Entry| Row {
        name: String::from_utf8_lossy(&entry.name).into_owned().into(),
        encoded: encoded(&entry.name),
        r#type: if entry.directory { "directory" } else { "file" },
        size: entry.size,
        modified: HttpDate::from_unix(entry.modified).map(|date| date.as_str().to_owned()),
    };
    let document = Document {
        entries: listing.entries.iter().map(row).collect(),
        complete: !listing.truncated,
    };
    // Neither writing to memory nor these types can fail.
    let _ = serde_json::to_writer(&mut *out, &document);
    out.push(b'\n');
}

fn encoded(name: &[u8]) -> String {
    let mut address = Vec::new();
    path::encode(name, false, None, &mut address);
    // Without the leading slash. The rest is ASCII.
    String::from_utf8_lossy(&address[1..]).into_owned()
}
