//! What is told: messages, statistics, errors in the words that people know.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use laio_cp::Summary;
use std::io::Write;

/// A message on standard error.
pub(super) fn say(program: &str, text: &str) {
    // Nothing can be done if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{program}: {text}");
}

/// A result, on standard output.
pub(super) fn tell(text: &str) {
    // A reader who has gone does not want it.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Where more is to be learnt.
pub(super) fn point_to_help(program: &str) {
    let help = format!("Try '{program} --help' for more information.");
    let _ = writeln!(std::io::stderr(), "{help}");
}

pub(super) fn print_stats(summary: &Summary) {
    let text = format!(
        "files         {}\n  by memory     {}\n  in the kernel {}\n  shared        {}\ndirectories   {}\nothers        {}\n\
         links         {}\nskipped       {}\nbytes         {}\nfailures      {}\nbackground    {}\ntaken over    {}",
        summary.files,
        summary.by_memory,
        summary.by_range,
        summary.by_reflink,
        summary.directories,
        summary.others,
        summary.linked,
        summary.skipped,
        summary.bytes,
        summary.failures,
        summary.background,
        summary.stolen,
    );
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What scripts and people know.
pub(super) fn in_gnu_words(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg)?;
    // `-t <DIR>` or `--sparse <WHEN>`.
    let option = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let letter = option
        .strip_prefix('-')
        .filter(|letter| letter.chars().count() == 1);
    match (error.kind(), letter) {
        (ErrorKind::UnknownArgument, Some(letter)) => Some(format!("invalid option -- '{letter}'")),
        (ErrorKind::UnknownArgument, None) => Some(format!("unrecognized option '{argument}'")),
        (ErrorKind::TooManyValues, _) => {
            Some(format!("option '{option}' doesn't allow an argument"))
        }
        (ErrorKind::InvalidValue, _)
            if context(ContextKind::InvalidValue).is_none_or(|value| value.is_empty()) =>
        {
            Some(match letter {
                Some(letter) => format!("option requires an argument -- '{letter}'"),
                None => format!("option '{option}' requires an argument"),
            })
        }
        _ => None,
    }
}
