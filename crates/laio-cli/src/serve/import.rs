//! `laio serve --import`: a configuration file from one of nginx.

mod access;
mod aliases;
mod auth_request;
mod fields;
mod files_changed;
mod known;
mod lexer;
mod location;
mod parser;
mod patterns;
mod ranking;
mod redirects;
mod remarks;
mod rewrites;
mod site;
mod table;
mod translate;
mod upstreams;
mod values;
mod variables;

use super::config::ConfigurationReader;
use crate::Failure;
use parser::Directive;
use std::io::Write;
use std::path::Path;

/// Prints the configuration file on standard output, and the messages about directives on standard error.
///
/// # Errors
/// When the file cannot be read, and when something was left out.
pub(super) fn run(file: &Path) -> Result<(), Failure> {
    let tree = parser::read(file)?;
    let reader = ConfigurationReader::new();
    let (text, remarks) = translate::translate(&tree, &reader);
    // A mistake of this program; the text is of use nevertheless.
    let wrong = reader.check(&text).err();
    crate::print(&text)?;
    let lost = remarks.is_lost();
    let _ = std::io::stderr().write_all(remarks.text().as_bytes());
    if let Some(mistakes) = wrong {
        return Err(format!(
            "the imported configuration is malformed, which is a mistake of laio: {mistakes}"
        )
        .into());
    }
    match lost {
        true => {
            Err("something was left out: see above, and change the configuration by hand".into())
        }
        false => Ok(()),
    }
}

/// Returns the configuration file for the text of one of nginx.
///
/// # Errors
/// What is malformed, with the line.
pub fn imported(text: &str, reader: &ConfigurationReader) -> Result<String, String> {
    let tree = parser::parse(text)?;
    let (text, remarks) = translate::translate(&tree, reader);
    remarks.text();
    Ok(text)
}

/// Returns the text of a configuration of nginx with every word in quotes, and without comments. A parser reads the same
/// directives from it.
///
/// # Errors
/// What is malformed, with the line.
pub fn requoted(text: &str) -> Result<String, String> {
    let mut out = String::new();
    requote(&parser::parse(text)?, &mut out);
    Ok(out)
}

fn requote(directives: &[Directive], out: &mut String) {
    for directive in directives {
        for word in std::iter::once(&directive.name).chain(&directive.words) {
            let escaped = word.replace('\\', r"\\").replace('"', "\\\"");
            *out += &format!("\"{escaped}\" ");
        }
        match &directive.block {
            None => *out += ";\n",
            Some(block) => {
                *out += "{\n";
                requote(block, out);
                *out += "}\n";
            }
        }
    }
}

#[cfg(test)]
mod tests;
