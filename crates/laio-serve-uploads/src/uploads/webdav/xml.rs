//! XML of requests, read into a small tree, and text for responses.

use crate::uploads::problem::Problem;
use laio_http::Status;
use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;

/// The namespace of WebDAV.
pub(super) const DAV: &str = "DAV:";

/// The namespaces of the prefixes `xml` and `xmlns`.
const RESERVED: [&str; 2] = [
    "http://www.w3.org/XML/1998/namespace",
    "http://www.w3.org/2000/xmlns/",
];

/// Elements below each other in a request.
const DEPTH_MAX: usize = 16;
/// Elements of a request.
const ELEMENTS_MAX: usize = 512;

/// The name of an element or property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct XmlName {
    pub(super) namespace: String,
    pub(super) local: String,
}

impl XmlName {
    /// Whether this is a name of WebDAV.
    pub(super) fn is(&self, local: &str) -> bool {
        self.namespace == DAV && self.local == local
    }
}

/// An element, its text and the elements in it. Attributes are not kept: no request of WebDAV has any that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: XmlName,
    pub(super) text: String,
    pub(super) children: Vec<Element>,
}

impl Element {
    /// Returns the first child with a name of WebDAV.
    pub(super) fn child(&self, local: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name.is(local))
    }
}

/// Parses the body of a request. Returns `None` if it is empty.
///
/// No entity is expanded but the five predefined ones and characters by number; a document type is refused.
pub(super) fn parse(body: &[u8]) -> Result<Option<Element>, Problem> {
    let bad = || Problem::new(Status::BAD_REQUEST, "The XML of the request is malformed.");
    let long = || {
        Problem::new(
            Status::CONTENT_TOO_LARGE,
            "The XML of the request has too many elements.",
        )
    };
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut reader = NsReader::from_reader(body);
    let (mut open, mut root): (Vec<Element>, Option<Element>) = (Vec::new(), None);
    let mut count = 0;
    loop {
        let (resolved, event) = reader.read_resolved_event().map_err(|_| bad())?;
        let mut closed = None;
        match event {
            Event::Start(start) | Event::Empty(start) if root.is_some() && open.is_empty() => {
                let _ = start;
                return Err(bad());
            }
            Event::Start(start) => {
                open.push(element(&resolved, &start).ok_or_else(bad)?);
                count += 1;
            }
            Event::Empty(start) => {
                closed = Some(element(&resolved, &start).ok_or_else(bad)?);
                count += 1;
            }
            Event::End(_) => closed = Some(open.pop().ok_or_else(bad)?),
            Event::Text(text) => {
                let text = text.xml10_content();
                match open.last_mut() {
                    Some(element) => element.text.push_str(&text),
                    None if text.trim().is_empty() => {}
                    None => return Err(bad()),
                }
            }
            Event::CData(data) => {
                let text = data.xml10_content();
                open.last_mut().ok_or_else(bad)?.text.push_str(&text);
            }
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref().map_err(|_| bad())? {
                    Some(character) => character,
                    None => predefined(&reference).ok_or_else(bad)?,
                };
                open.last_mut().ok_or_else(bad)?.text.push(character);
            }
            Event::DocType(_) => return Err(bad()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => break,
        }
        if count > ELEMENTS_MAX || open.len() > DEPTH_MAX {
            return Err(long());
        }
        if let Some(closed) = closed {
            match open.last_mut() {
                Some(parent) => parent.children.push(closed),
                None => root = Some(closed),
            }
        }
    }
    match (root, open.is_empty()) {
        (Some(root), true) => Ok(Some(root)),
        _ => Err(bad()),
    }
}

fn element(resolved: &ResolveResult<'_>, start: &BytesStart<'_>) -> Option<Element> {
    let namespace = match resolved {
        // The parser leaves references in it, which `push_text` would escape again.
        ResolveResult::Bound(namespace) => unescape(namespace.as_ref()).ok()?.into_owned(),
        ResolveResult::Unbound => String::new(),
        ResolveResult::Unknown(_) => return None,
    };
    // A prefix cannot be bound to no namespace, and none but `xml` and `xmlns` to theirs, so no response can name them.
    let is_reserved = RESERVED.contains(&&*namespace);
    if is_reserved || start.name().prefix().is_some() && namespace.is_empty() {
        return None;
    }
    let local = start.local_name().as_ref().to_owned();
    // The parser allows more; responses repeat names.
    let good = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let begins = local.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !begins || !local.chars().all(good) {
        return None;
    }
    Some(Element {
        name: XmlName { namespace, local },
        text: String::new(),
        children: Vec::new(),
    })
}

fn predefined(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

/// Appends a text, with what XML does not allow in it escaped or replaced.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '\t' | '\n' => out.push(character as u8),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                out.extend_from_slice("\u{fffd}".as_bytes())
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Element> {
        parse(text.as_bytes()).ok().flatten()
    }

    #[test]
    fn a_tree_with_namespaces() {
        let text = "<?xml version=\"1.0\"?>\n<a xmlns=\"DAV:\"><x:b xmlns:x=\"urn:x\">1 &lt;&#x41;<![CDATA[&]]></x:b><c/></a>\n";
        let root = parsed(text).unwrap();
        assert!(root.name.is("a") && root.child("c").is_some());
        let b = &root.children[0];
        assert_eq!(
            (b.name.namespace.as_str(), b.text.as_str()),
            ("urn:x", "1 <A&")
        );
        let namespace = |text| parsed(text).map(|root| root.name.namespace);
        assert_eq!(
            namespace("<x:a xmlns:x=\"urn:a&amp;b\"/>").as_deref(),
            Some("urn:a&b")
        );
        assert_eq!(namespace("<x:a xmlns:x=\"&c;\"/>"), None);
        assert!(parse(b" \n").unwrap().is_none());
    }

    #[test]
    fn what_is_refused() {
        for bad in [
            "<a>",
            "</a>",
            "<a></b>",
            "<a/><b/>",
            "x",
            "<a/>x",
            "<x:a/>",
            "<a xmlns:x=\"\"><x:b/></a>",
            "<a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
            "<!DOCTYPE a><a/>",
            "<a",
            "<1/>",
            "<a\"b/>",
            "<a=b/>",
            "<xml:a/>",
            "<xmlns:a/>",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"<a>\xff</a>").is_err());
        let deep = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
        assert!(parsed(&deep(DEPTH_MAX)).is_some());
        assert!(parse(deep(DEPTH_MAX + 1).as_bytes()).is_err());
        let wide = |count: usize| format!("<a>{}</a>", "<b/>".repeat(count));
        assert!(parsed(&wide(ELEMENTS_MAX - 1)).is_some());
        assert!(parse(wide(ELEMENTS_MAX).as_bytes()).is_err());
    }

    #[test]
    fn text_is_escaped() {
        let mut out = Vec::new();
        push_text(&mut out, "a<&>\"\u{1}\u{e9}");
        assert_eq!(out, "a&lt;&amp;&gt;&quot;\u{fffd}\u{e9}".as_bytes());
    }
}
