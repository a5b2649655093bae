//! Prints messages, statistics and help.

use laio_cp::Summary;
use std::io::Write;
use std::process::ExitCode;

/// Prints a message on standard error.
pub(super) fn warn(program: &str, text: &str) {
    // No stream is left to report a failure of standard error.
    let _ = writeln!(std::io::stderr(), "{program}: {text}");
}

/// The message for exhausted memory, in the words of GNU's cp.
pub(super) fn memory_exhausted(program: &str) -> &'static str {
    match program {
        "cp" => "cp: memory exhausted\n",
        "laio-cp" => "laio-cp: memory exhausted\n",
        _ => "laio cp: memory exhausted\n",
    }
}

/// Prints a result on standard output.
pub(super) fn print_line(text: &str) {
    // A closed pipe is no error here.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints how to get help.
pub(super) fn point_to_help(program: &str) {
    let help = format!("Try '{program} --help' for more information.");
    let _ = writeln!(std::io::stderr(), "{help}");
}

pub(super) fn print_stats(summary: &Summary) {
    let text = format!(
        "files         {}\n  by memory     {}\n  in the kernel {}\n  shared        {}\ndirectories   {}\nothers        {}\n\
         links         {}\nskipped       {}\n  whole       {}\ncontinued     {}\nverified      {}\nunverified    {}\nbytes         {}\nfailures      {}\nbackground    {}\ntaken over    {}",
        summary.files,
        summary.by_memory,
        summary.by_range,
        summary.by_reflink,
        summary.directories,
        summary.others,
        summary.linked,
        summary.skipped,
        summary.whole,
        summary.continued,
        summary.verified,
        summary.unverified,
        summary.bytes,
        summary.failures,
        summary.background,
        summary.stolen,
    );
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints requested text on standard output. Unlike a message, it must not get lost.
pub(super) fn print(program: &str, text: &str) -> ExitCode {
    let mut output = std::io::stdout();
    let written = if laio::process::was_closed(&output) {
        Err(laio::Errno::BADF.into())
    } else {
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush())
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(
                program,
                &laio_cp::Failure::from_error(error, "write error").to_string(),
            );
            ExitCode::FAILURE
        }
    }
}
