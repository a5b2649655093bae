//! Listings as HTML.

use super::{Entry, Listing};
use laio_http::{HttpDate, path, push_html_escaped};
use std::io::Write;

/// Appends a page with the entries of the directory `relative`; `links`: what else there is
/// of the directory.
pub(super) fn write(listing: &Listing, relative: &[u8], links: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(START);
    out.extend_from_slice(b"<title>/");
    push_html_escaped(out, relative);
    out.extend_from_slice(b"</title>\n");
    out.extend_from_slice(STYLE);
    out.extend_from_slice(b"<main>\n<h1>");
    push_trail(relative, out);
    out.extend_from_slice(b"</h1>\n<table>\n<thead><tr><th scope=\"col\">Name<th scope=\"col\">Size<th scope=\"col\">Modified</thead>\n<tbody>\n");
    if !relative.is_empty() {
        out.extend_from_slice(b"<tr class=\"d\"><td><a href=\"../\">..</a><td><td>\n");
    }
    for entry in &listing.entries {
        push_row(entry, out);
    }
    out.extend_from_slice(b"</tbody>\n</table>\n<p>");
    let files = listing.entries.iter().filter(|entry| !entry.directory);
    let (files, all) = (files.count(), listing.entries.len());
    push_count(all - files, "directory", "directories", out);
    out.extend_from_slice(b", ");
    push_count(files, "file", "files", out);
    if listing.truncated {
        out.extend_from_slice(b"; more entries are not shown");
    }
    for link in links {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(link.as_bytes());
    }
    out.extend_from_slice(b"</p>\n</main>\n</html>\n");
}

fn push_count(count: usize, one: &str, many: &str, out: &mut Vec<u8>) {
    let what = if count == 1 { one } else { many };
    // Writing to memory cannot fail, here and below.
    let _ = write!(out, "{count} {what}");
}

/// Appends the path, each component linked to its directory.
fn push_trail(relative: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<a href=\"/\" aria-label=\"Root directory\">/</a>");
    let mut end = 0;
    for part in relative
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
    {
        end += part.len() + usize::from(end > 0);
        out.extend_from_slice(b"<a href=\"");
        push_address(&relative[..end], true, out);
        out.extend_from_slice(b"\">");
        push_html_escaped(out, part);
        out.extend_from_slice(b"</a>/");
    }
}

fn push_row(entry: &Entry, out: &mut Vec<u8>) {
    let class: &[u8] = if entry.directory { b"d" } else { b"f" };
    out.extend_from_slice(b"<tr class=\"");
    out.extend_from_slice(class);
    // Relative to the directory. The dot prevents a name with a colon from being read as a scheme.
    out.extend_from_slice(b"\"><td><a href=\".");
    push_address(&entry.name, entry.directory, out);
    out.extend_from_slice(b"\">");
    push_html_escaped(out, &entry.name);
    out.extend_from_slice(if entry.directory {
        b"/</a><td>"
    } else {
        b"</a><td>"
    });
    if !entry.directory {
        push_size(entry.size, out);
    }
    out.extend_from_slice(b"<td>");
    if let Some(date) = HttpDate::from_unix(entry.modified) {
        push_time(date.as_str(), out);
    }
    out.push(b'\n');
}

fn push_address(path: &[u8], directory: bool, out: &mut Vec<u8>) {
    let mut address = Vec::new();
    path::encode(path, directory, None, &mut address);
    push_html_escaped(out, &address);
}

/// Appends `06 Nov 1994 08:49` for `Sun, 06 Nov 1994 08:49:37 GMT`.
fn push_time(date: &str, out: &mut Vec<u8>) {
    let _ = write!(out, "<time title=\"{date}\">{}</time>", &date[5..22]);
}

fn push_size(size: u64, out: &mut Vec<u8>) {
    let _ = if size < 1024 {
        write!(out, "{size} B")
    } else {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let power = (size.ilog2() / 10) as usize; // 1 to 6
        let value = size as f64 / (1u64 << (10 * power)) as f64;
        write!(
            out,
            "<span title=\"{size} bytes\">{value:.1} {}</span>",
            units[power - 1]
        )
    };
}

const START: &[u8] = b"<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta name=\"robots\" content=\"noindex\">
";

const STYLE: &[u8] = b"<style>
:root { color-scheme: light dark; --line: #8884; --dim: #888; --link: light-dark(#0b57a4, #8ab8f5);
  font: 1rem/1.5 system-ui, sans-serif }
body { margin: 0; background: light-dark(#fff, #15181c); color: light-dark(#1b1f24, #e3e6ea) }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem }
h1 { margin: 0 0 1.25rem; font-size: 1.25rem; font-weight: 600; overflow-wrap: anywhere }
a { color: var(--link); text-decoration: none }
a:hover { text-decoration: underline }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums }
th { font-size: .8rem; font-weight: 600; color: var(--dim); text-align: left }
th, td { padding: .4rem .75rem; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child { padding-left: .25rem; overflow-wrap: anywhere }
th:nth-child(2), td:nth-child(2) { text-align: right; white-space: nowrap }
th:nth-child(3), td:nth-child(3) { width: 11rem; white-space: nowrap }
td:nth-child(n+2) { color: var(--dim) }
tbody tr:hover { background: #8881 }
.d a { font-weight: 600 }
p { color: var(--dim); font-size: .875rem }
@media (max-width: 40rem) { th:nth-child(3), td:nth-child(3) { display: none } }
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, directory: bool, size: u64) -> Entry {
        Entry {
            name: name.as_bytes().to_vec(),
            directory,
            size,
            modified: 784_111_777,
        }
    }

    #[test]
    fn names_are_escaped_and_lead_to_their_files() {
        let listing = Listing {
            entries: vec![
                entry("a b", true, 0),
                entry("<i>&.txt", false, 12),
                entry("x:y", false, 3 << 20),
            ],
            truncated: true,
        };
        let mut page = Vec::new();
        write(&listing, b"d/e?", &[], &mut page);
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("<a href=\"./a%20b/\">a b/</a>"), "{page}");
        assert!(page.contains("<a href=\"./%3Ci%3E&amp;.txt\">&lt;i&gt;&amp;.txt</a><td>12 B"));
        assert!(
            page.contains("<a href=\"./x:y\">x:y</a><td><span title=\"3145728 bytes\">3.0 MiB")
        );
        assert!(page.contains("<a href=\"/d/\">d</a>/<a href=\"/d/e%3F/\">e?</a>/"));
        assert!(page.contains("06 Nov 1994 08:49</time>"));
        assert!(page.contains("1 directory, 2 files; more entries are not shown"));
    }

    #[test]
    fn sizes() {
        let size = |size| {
            let mut out = Vec::new();
            push_size(size, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert!(size(1024).contains(">1.0 KiB<") && size(1536).contains(">1.5 KiB<"));
        assert!(size(u64::MAX).contains(">16.0 EiB<"));
    }
}
