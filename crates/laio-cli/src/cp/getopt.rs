//! Parses options as `getopt_long` does for GNU's `cp`: abbreviations have the same meaning,
//! although there are more options, and errors have the same messages.

use clap::{Arg, Command};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The long options of GNU's `cp`, in its order. An abbreviation is resolved among these first.
const GNU: [&str; 28] = [
    "archive",
    "attributes-only",
    "backup",
    "copy-contents",
    "dereference",
    "force",
    "interactive",
    "link",
    "no-clobber",
    "no-dereference",
    "no-preserve",
    "no-target-directory",
    "one-file-system",
    "parents",
    "preserve",
    "recursive",
    "remove-destination",
    "sparse",
    "reflink",
    "strip-trailing-slashes",
    "suffix",
    "symbolic-link",
    "target-directory",
    "update",
    "verbose",
    "context",
    "help",
    "version",
];

/// Rewrites the arguments for clap: completes long options, joins separate values to their option
/// (they may begin with a dash), and inserts `--` before the first operand if `POSIXLY_CORRECT` is
/// set. Otherwise returns the error message.
pub(super) fn resolve(
    command: &Command,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    resolve_as(command, arguments, posix)
}

fn resolve_as(
    command: &Command,
    mut arguments: impl Iterator<Item = OsString>,
    posix: bool,
) -> Result<Vec<OsString>, String> {
    let mut resolved: Vec<OsString> = arguments.next().into_iter().collect();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        let wanted = if bytes == b"--" || (posix && (bytes == b"-" || !bytes.starts_with(b"-"))) {
            if bytes != b"--" {
                resolved.push("--".into());
            }
            resolved.push(argument);
            resolved.extend(arguments);
            break;
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            let (full, wants_next) = long_option(command, long)?;
            resolved.push(full);
            wants_next.then(|| format!("option '{}' requires an argument", text(&argument)))
        } else if let Some(letters) = bytes.strip_prefix(b"-")
            && let Some((letter, long)) = letter_without_value(command, letters)?
        {
            let others = &bytes[..bytes.len() - 1];
            if others != b"-" {
                resolved.push(OsStr::from_bytes(others).to_owned());
            }
            resolved.push(format!("--{long}").into());
            Some(format!("option requires an argument -- '{letter}'"))
        } else {
            resolved.push(argument);
            None
        };
        if let Some(missing) = wanted {
            let value = arguments.next().ok_or(missing)?;
            let option = resolved.last_mut().expect("the option that wants it");
            option.push("=");
            option.push(value);
        }
    }
    Ok(resolved)
}

/// Completes a long option. Also returns whether its value is the next argument.
fn long_option(command: &Command, given: &[u8]) -> Result<(OsString, bool), String> {
    let end = given.iter().position(|byte| *byte == b'=');
    let (name, value) = given.split_at(end.unwrap_or(given.len()));
    let full = find(command, name, given)?;
    let takes = takes(long(command, full));
    match (takes, value.is_empty()) {
        (Takes::Nothing, false) => Err(format!("option '--{full}' doesn't allow an argument")),
        (takes, no_value) => {
            let whole = [b"--", full.as_bytes(), value].concat();
            Ok((OsString::from_vec(whole), no_value && takes == Takes::Value))
        }
    }
}

/// Resolves the name of a long option.
fn find<'a>(command: &'a Command, name: &[u8], given: &[u8]) -> Result<&'a str, String> {
    let ours = command.get_arguments().filter_map(Arg::get_long);
    let all = GNU.into_iter().chain(ours.filter(|own| !GNU.contains(own)));
    let all: Vec<&str> = all.collect();
    if let Some(exact) = all.iter().find(|long| long.as_bytes() == name) {
        return Ok(exact);
    }
    let starts = |long: &&&str| long.as_bytes().starts_with(name);
    for names in [&GNU[..], &all[GNU.len()..]] {
        let found: Vec<&&str> = names.iter().filter(starts).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(one),
            ref many => {
                let many: Vec<_> = many.iter().map(|long| format!(" '--{long}'")).collect();
                return Err(format!(
                    "option '--{}' is ambiguous; possibilities:{}",
                    text(OsStr::from_bytes(given)),
                    many.concat()
                ));
            }
        }
    }
    let given = text(OsStr::from_bytes(given));
    Err(format!("unrecognized option '--{given}'"))
}

/// Searches the letters for one that takes a value. Returns it with its long name if its value is
/// the next argument.
fn letter_without_value<'a>(
    command: &'a Command,
    letters: &[u8],
) -> Result<Option<(char, &'a str)>, String> {
    for (at, byte) in letters.iter().enumerate() {
        let letter = char::from(*byte);
        let has = |arg: &&Arg| {
            let aliases = arg.get_all_short_aliases().unwrap_or_default();
            arg.get_short() == Some(letter) || aliases.contains(&letter)
        };
        let Some(arg) = command.get_arguments().find(has) else {
            let shown = text(OsStr::from_bytes(&[*byte]));
            return Err(format!("invalid option -- '{shown}'"));
        };
        if takes(Some(arg)) == Takes::Value {
            let long = arg.get_long().expect("what takes a value has a long name");
            return Ok((at + 1 == letters.len()).then_some((letter, long)));
        }
    }
    Ok(None)
}

fn long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(name))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// Only after an equals sign.
    Optional,
}

fn takes(arg: Option<&Arg>) -> Takes {
    match arg {
        // `--help` and `--version`.
        None => Takes::Nothing,
        Some(arg) if !arg.get_action().takes_values() => Takes::Nothing,
        Some(arg)
            if arg
                .get_num_args()
                .is_some_and(|range| range.min_values() == 0) =>
        {
            Takes::Optional
        }
        Some(_) => Takes::Value,
    }
}

fn text(argument: &OsStr) -> String {
    argument.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cp::Arguments;
    use clap::Args;

    fn resolved(given: &[&str], posix: bool) -> Result<Vec<OsString>, String> {
        let command = Arguments::augment_args(Command::new("cp"));
        let given = ["cp"].iter().chain(given).map(OsString::from);
        resolve_as(&command, given, posix).map(|mut all| all.split_off(1))
    }

    #[test]
    fn abbreviations_are_those_of_gnu() {
        assert_eq!(
            resolved(&["--d", "--targ=x"], false).unwrap(),
            ["--dereference", "--target-directory=x"]
        );
        assert_eq!(resolved(&["--atom"], false).unwrap(), ["--atomic"]);
        assert!(
            resolved(&["--no"], false)
                .unwrap_err()
                .contains("ambiguous")
        );
        assert!(
            resolved(&["--recursive=x"], false)
                .unwrap_err()
                .contains("allow")
        );
    }

    #[test]
    fn values_are_not_options() {
        assert_eq!(
            resolved(&["-rS", "--no", "a"], false).unwrap(),
            ["-r", "--suffix=--no", "a"]
        );
        assert_eq!(
            resolved(&["-t", "-a", "--suffix", "--no"], true).unwrap(),
            ["--target-directory=-a", "--suffix=--no"]
        );
        assert_eq!(resolved(&["-tS", "a"], false).unwrap(), ["-tS", "a"]);
        assert!(resolved(&["-rS"], false).is_err());
        assert!(resolved(&["--", "--no"], false).is_ok());
    }

    #[test]
    fn posix_ends_options_at_operands() {
        assert_eq!(
            resolved(&["-r", "a", "-x"], true).unwrap(),
            ["-r", "--", "a", "-x"]
        );
        assert_eq!(resolved(&["a", "-x"], false).unwrap(), ["a", "-x"]);
    }
}
