//! Trace files: a line for each request, tab-separated.
//!
//! ```text
//! # laio trace 1
//! # name: rice
//! # …
//! seconds    status    bytes    target
//! ```
//!
//! The seconds count from the first request, or are `-`.

use super::name::{file_of, target_of};
use super::{Entry, REQUESTS_MAX, Request, Trace};
use crate::error::{Error, While};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The name of a trace's file.
pub const NAME: &str = "trace.tsv";

const FIRST: &str = "# laio trace 1";
/// The maximum length of a line.
const LINE_MAX: u64 = 16 << 10;

/// Writes a trace atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write(trace: &Trace, path: &Path) -> Result<(), Error> {
    let doing = || format!("cannot write {}", path.display());
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory.unwrap_or(Path::new(".")))
        .doing(doing())?;
    let mut out = BufWriter::new(file);
    lines(trace, &mut out).doing(doing())?;
    let file = out
        .into_inner()
        .map_err(|error| error.into_error())
        .doing(doing())?;
    file.persist(path).doing(doing())?;
    Ok(())
}

fn lines(trace: &Trace, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{FIRST}\n# name: {}", trace.name)?;
    for line in &trace.about {
        writeln!(out, "# {line}")?;
    }
    let targets: Vec<_> = trace
        .files
        .iter()
        .map(|file| target_of(&file.name))
        .collect();
    for request in &trace.requests {
        match request.at {
            Some(at) => write!(out, "{:.6}", at.as_secs_f64())?,
            None => write!(out, "-")?,
        }
        let number = request.file as usize;
        let (status, bytes) = match trace.files[number].size {
            Some(size) => (200, size),
            None => (404, 0),
        };
        writeln!(out, "\t{status}\t{bytes}\t{}", targets[number])?;
    }
    Ok(())
}

/// Reads a trace.
///
/// # Errors
/// If the file cannot be read, or a line is invalid; the error contains its number.
pub fn read(path: &Path) -> Result<Trace, Error> {
    let doing = |line: usize| format!("{}, line {line}", path.display());
    let file = File::open(path).doing(format_args!("cannot read {}", path.display()))?;
    let mut reader = BufReader::new(file);
    let mut trace = Trace::default();
    let mut known = HashMap::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line);
        if count.doing(doing(number))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| wrong("it is not UTF-8"));
        let text = text.doing(doing(number))?.trim_end_matches(['\n', '\r']);
        if number == 1 && text != FIRST {
            return Err(wrong(&format!("a trace begins with `{FIRST}`"))).doing(doing(1));
        }
        match text.strip_prefix('#') {
            Some(about) => header(&mut trace, about.trim(), number),
            None => request(&mut trace, &mut known, text).doing(doing(number))?,
        }
    }
    Ok(trace)
}

fn header(trace: &mut Trace, about: &str, number: usize) {
    match about.strip_prefix("name: ") {
        Some(name) => name.clone_into(&mut trace.name),
        None if number > 1 => trace.about.push(about.to_owned()),
        None => {}
    }
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what)
}

fn request(
    trace: &mut Trace,
    known: &mut HashMap<String, u32>,
    line: &str,
) -> Result<(), std::io::Error> {
    let mut columns = line.split('\t');
    let mut column = || {
        columns
            .next()
            .ok_or_else(|| wrong("there are too few columns"))
    };
    let (at, status, bytes, target) = (column()?, column()?, column()?, column()?);
    let at = match at {
        "-" => None,
        seconds => {
            let seconds = seconds.parse().ok();
            let at = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            Some(at.ok_or_else(|| wrong("the time is not a number of seconds"))?)
        }
    };
    let size = match status {
        "200" => Some(
            bytes
                .parse()
                .map_err(|_| wrong("the bytes are not a number"))?,
        ),
        "404" => None,
        _ => return Err(wrong("the status is neither 200 nor 404")),
    };
    let file = match known.get(target) {
        Some(file) => *file,
        None => {
            let name = file_of(target).map_err(wrong)?;
            let file = trace.files.len() as u32;
            trace.files.push(Entry { name, size });
            known.insert(target.to_owned(), file);
            file
        }
    };
    if trace.files[file as usize].size != size {
        return Err(wrong("the same target has had another size before"));
    }
    if trace.requests.len() == REQUESTS_MAX {
        return Err(wrong("there are more requests than a trace may have"));
    }
    trace.requests.push(Request { file, at });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Preset;

    fn read_text(text: &str) -> Result<Trace, Error> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(NAME);
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn what_was_written_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(NAME);
        let mut trace = Preset::Rice.trace(1, 0.001);
        trace.requests[0].at = Some(Duration::from_millis(1500));
        write(&trace, &path).unwrap();
        let again = read(&path).unwrap();
        assert_eq!((&again.name, &again.about), (&trace.name, &trace.about));
        assert_eq!(again.transferred(), trace.transferred());
        let names = |trace: &Trace| {
            let of = |request: &Request| trace.files[request.file as usize].name.clone();
            trace.requests.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(names(&again), names(&trace));
        assert_eq!(again.requests[0].at, trace.requests[0].at);
    }

    #[test]
    fn bad_lines_are_told() {
        let good = "# laio trace 1\n0.5\t200\t5\t/a\n-\t404\t0\t/b\n";
        let trace = read_text(good).unwrap();
        assert_eq!((trace.requests.len(), trace.set_files()), (2, 1));
        for (line, words) in [
            ("x\t200\t5\t/a", "line 4: the time"),
            ("-1\t200\t5\t/a", "line 4: the time"),
            ("-\t200\tmany\t/a", "the bytes"),
            ("-\t500\t5\t/a", "the status"),
            ("-\t200\t5", "too few"),
            ("-\t200\t6\t/a", "another size"),
            ("-\t200\t5\t/../a", "a dot"),
        ] {
            let error = read_text(&format!("{good}{line}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(read_text("GET / HTTP/1.0\n").is_err());
        assert!(read_text(&format!("# laio trace 1\n{}", "a".repeat(1 << 20))).is_err());
    }
}
