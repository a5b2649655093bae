//! Properties of what WebDAV clients send.

use super::if_field::{IfField, State};
use super::xml::{Element, parse, push_text};
use std::fmt::Write;

/// Bodies of requests: a tree that is written and parsed again is the same, and so is no more than its parts.
pub fn webdav_xml(body: &[u8]) {
    let Ok(Some(mut tree)) = parse(body) else {
        return;
    };
    let mut text = Vec::new();
    write(&tree, &mut text);
    // XML has no way to write these.
    replace(&mut tree);
    let again = parse(&text).expect("what was written is well-formed");
    assert_eq!(again, Some(tree));
}

fn write(element: &Element, out: &mut Vec<u8>) {
    let name = &element.name;
    let prefix = if name.namespace.is_empty() { "" } else { "x:" };
    for part in ["<", prefix, &name.local] {
        out.extend_from_slice(part.as_bytes());
    }
    if !prefix.is_empty() {
        out.extend_from_slice(b" xmlns:x=\"");
        push_text(out, &name.namespace);
        out.push(b'"');
    }
    out.push(b'>');
    push_text(out, &element.text);
    for child in &element.children {
        write(child, out);
    }
    for part in ["</", prefix, &name.local, ">"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn replace(element: &mut Element) {
    for text in [&mut element.text, &mut element.name.namespace] {
        let is_good = |c: char| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}');
        let good = |c: char| {
            if is_good(c) || matches!(c, '\t' | '\n') {
                c
            } else {
                '\u{fffd}'
            }
        };
        *text = text.chars().map(good).collect();
    }
    element.children.iter_mut().for_each(replace);
}

/// The `If` field: lists that are written and parsed again are the same.
pub fn if_field(value: &[u8]) {
    let Ok(field) = IfField::parse(value) else {
        return;
    };
    let mut text = String::new();
    for list in &field.lists {
        if let Some(resource) = &list.resource {
            let _ = write!(text, "<{resource}>");
        }
        text.push('(');
        for condition in &list.conditions {
            let not = if condition.not { "Not " } else { "" };
            let _ = match &condition.what {
                State::Token(token) => write!(text, "{not}<{token}>"),
                State::Tag(tag) => write!(text, "{not}[{tag}]"),
            };
        }
        text.push(')');
    }
    assert_eq!(IfField::parse(text.as_bytes()).ok(), Some(field));
}
