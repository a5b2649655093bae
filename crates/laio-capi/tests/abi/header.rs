//! Reads the declarations of `laio.h` and of the Rust sources from their text.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};

/// A function: its return type, its name, and the types of its parameters, all as C writes them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) returns: String,
    pub(crate) parameters: Vec<String>,
}

/// The functions by name.
pub(crate) type Functions = BTreeMap<String, Function>;

/// `laio.h` without its comments, and with each macro on one line.
pub(crate) fn header() -> String {
    let text = read_to_string(xtask::capi().join("include/laio.h")).expect("the header");
    let text = text.replace("\\\n", " ");
    let mut parts = text.split("/*");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        bare += part.split_once("*/").expect("the end of a comment").1;
    }
    bare
}

/// The Rust sources, concatenated.
pub(crate) fn sources() -> String {
    let files = read_dir(xtask::capi().join("src")).expect("the sources");
    let texts = files.map(|file| read_to_string(file.expect("a file").path()).expect("a source"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The functions that the header declares.
pub(crate) fn declared(header: &str) -> Functions {
    let lines = header.lines().filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let statements = text.split(['{', '}', ';']);
    let functions = statements.filter_map(|statement| {
        let (head, rest) = statement.split_once('(')?;
        let (returns, name) = typed_name(head);
        let parameters = rest.split_once(')')?.0;
        let parameters = parameters.split(',').map(|it| typed_name(it).0);
        let parameters = parameters.filter(|it| it != "void").collect();
        Some((
            name,
            Function {
                returns,
                parameters,
            },
        ))
    });
    functions.collect()
}

/// The functions that the sources export.
pub(crate) fn exported(sources: &str) -> Functions {
    let texts = sources.split("#[unsafe(no_mangle)]").skip(1);
    let functions = texts.map(|text| {
        let text = text.split('{').next().unwrap_or_default();
        let (_, text) = text.split_once("extern \"C\" fn ").expect("a C function");
        let (name, text) = text.split_once('(').expect("parameters");
        let (parameters, returns) = text.split_once(')').expect("parameters");
        let parameters = parameters.split(',').filter_map(|it| it.split_once(':'));
        let parameters = parameters.map(|(_, rust)| c_type(rust)).collect();
        let returns = c_type(returns.trim().trim_start_matches("->"));
        (
            name.to_owned(),
            Function {
                returns,
                parameters,
            },
        )
    });
    functions.collect()
}

/// The type and the name in a declaration such as `const struct laio_call *call`; `...` has no name.
fn typed_name(text: &str) -> (String, String) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let kind = text.trim_end_matches(is_name);
    if kind.is_empty() {
        // Only a type.
        return (text, String::new());
    }
    let name = text[kind.len()..].to_owned();
    (kind.trim_end().to_owned(), name)
}

/// The C name of a Rust type.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    let pointer = |constant: &str, to: &str| {
        let to = c_type(to);
        let space = if to.ends_with('*') { "" } else { " " };
        format!("{constant}{to}{space}*")
    };
    if let Some(to) = rust.strip_prefix("*const ") {
        return pointer("const ", to);
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return pointer("", to);
    }
    match rust {
        "c_int" => "int".to_owned(),
        "c_long" => "long".to_owned(),
        "c_char" => "char".to_owned(),
        "c_void" => "void".to_owned(),
        "usize" => "uintptr_t".to_owned(),
        "sigaction" => "struct sigaction".to_owned(),
        "timespec" => "struct timespec".to_owned(),
        "StatusWord" => "struct laio_status".to_owned(),
        name if name.starts_with("laio_") => format!("struct {name}"),
        other => panic!("an unknown type in a function's signature: {other}"),
    }
}

/// The names of the fields of a struct in the header.
pub(crate) fn fields(header: &str, name: &str) -> Vec<String> {
    let start = format!("struct {name} {{");
    let (_, rest) = header.split_once(&start).expect("the struct");
    let body = rest.split('}').next().unwrap_or_default();
    let fields = body
        .split(';')
        .map(|field| field.split('[').next().unwrap_or_default());
    let fields = fields.map(|field| typed_name(field).1);
    fields.filter(|field| !field.is_empty()).collect()
}

/// The structs whose fields the header declares.
pub(crate) fn structs(header: &str) -> Vec<String> {
    let lines = header.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {"));
    names.map(str::to_owned).collect()
}

/// Flags: the `LAIO_NAME`s that the header defines as hexadecimal numbers, as `NAME`.
pub(crate) fn defined_flags(header: &str) -> BTreeMap<String, u32> {
    let lines = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define LAIO_"));
    let flags = lines.filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((
            name.to_owned(),
            hexadecimal(value.trim().strip_suffix('u')?)?,
        ))
    });
    flags.collect()
}

/// The private constants of the sources that are hexadecimal numbers.
pub(crate) fn constant_flags(sources: &str) -> BTreeMap<String, u32> {
    let lines = sources
        .lines()
        .filter_map(|line| line.strip_prefix("const "));
    let flags = lines.filter_map(|line| {
        let (name, value) = line.split_once(": u32 = ")?;
        Some((name.to_owned(), hexadecimal(value.strip_suffix(';')?)?))
    });
    flags.collect()
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The value of a macro of the header.
pub(crate) fn macro_value<'a>(header: &'a str, name: &str) -> &'a str {
    let start = format!("#define {name} ");
    let value = header.lines().find_map(|line| line.strip_prefix(&start));
    value.expect("the macro").trim()
}
