//! Converts access logs to traces, and the file sets that they imply.

use super::line::{Logged, parse};
use super::{Entry, FILES_MAX, REQUESTS_MAX, Request, Trace, file_of};
use crate::error::{Error, While};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

/// The maximum length of a line; longer lines are not those of an access log.
const LINE_MAX: u64 = 64 << 10;

/// The result of an import.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The requests, and the files that they imply.
    pub trace: Trace,
    /// The number of lines read.
    pub lines: u64,
    /// The number of lines without a request that can be replayed, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// The facts in the log about one name.
#[derive(Default)]
struct Named {
    /// The size of the largest complete response.
    whole: Option<u64>,
    /// The size of the largest partial response.
    part: Option<u64>,
    /// Whether the file existed.
    there: bool,
}

/// Reads logs, one after the other.
///
/// # Errors
/// If a file cannot be read. Invalid lines are counted.
pub fn import(logs: &[impl AsRef<Path>]) -> Result<Import, Error> {
    let mut reader = LogReader::default();
    for log in logs {
        let path = log.as_ref();
        let doing = || format!("cannot read {}", path.display());
        let file = File::open(path).doing(doing())?;
        reader.read(BufReader::new(file)).doing(doing())?;
    }
    Ok(reader.finish())
}

/// Reads a log in memory.
pub fn import_bytes(log: &[u8]) -> Import {
    let mut reader = LogReader::default();
    // Reading from memory does not fail.
    let _ = reader.read(log);
    reader.finish()
}

#[derive(Default)]
struct LogReader {
    lines: u64,
    left_out: BTreeMap<String, u64>,
    names: Vec<(String, Named)>,
    known: HashMap<String, u32>,
    requests: Vec<(u32, Option<f64>)>,
}

impl LogReader {
    fn read(&mut self, mut reader: impl BufRead) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line)?;
            if count == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') && line.len() as u64 == LINE_MAX {
                reader.skip_until(b'\n')?;
                self.lines += 1;
                self.leave_out("the line is too long");
                continue;
            }
            self.add(&String::from_utf8_lossy(&line));
        }
    }

    fn leave_out(&mut self, reason: impl Into<String>) {
        *self.left_out.entry(reason.into()).or_default() += 1;
    }

    fn add(&mut self, line: &str) {
        self.lines += 1;
        match parse(line) {
            Ok(logged) => self.add_request(&logged),
            Err(reason) => self.leave_out(reason),
        }
    }

    fn add_request(&mut self, logged: &Logged) {
        if logged.method != "GET" {
            // An arbitrary method must not become a reason of its own.
            let known =
                ["HEAD", "POST", "PUT", "OPTIONS", "DELETE"].contains(&logged.method.as_str());
            let method = if known { &logged.method } else { "unknown" };
            return self.leave_out(format!("method {method}"));
        }
        if !matches!(logged.status, 200 | 206 | 304 | 404) {
            return self.leave_out(format!("status {}", logged.status));
        }
        let name = match file_of(&logged.target) {
            Ok(name) => name,
            Err(reason) => return self.leave_out(reason),
        };
        if self.requests.len() == REQUESTS_MAX || self.names.len() == FILES_MAX {
            return self.leave_out("the trace is full");
        }
        let number = match self.known.get(&name) {
            Some(number) => *number,
            None => {
                let number = self.names.len() as u32;
                self.known.insert(name.clone(), number);
                self.names.push((name, Named::default()));
                number
            }
        };
        let named = &mut self.names[number as usize].1;
        match logged.status {
            200 => named.whole = named.whole.max(Some(logged.bytes)),
            206 => named.part = named.part.max(Some(logged.bytes)),
            _ => {}
        }
        named.there |= logged.status != 404;
        self.requests.push((number, logged.time));
    }

    fn finish(mut self) -> Import {
        let directories = directories(&self.names);
        let mut sizes: Vec<u64> = self
            .names
            .iter()
            .filter_map(|(_, named)| named.whole)
            .collect();
        sizes.sort_unstable();
        let median = sizes.get(sizes.len() / 2).copied().unwrap_or(1024);
        let (mut guessed, mut clashes) = (0, HashSet::new());
        let mut files = Vec::with_capacity(self.names.len());
        for (number, (name, named)) in std::mem::take(&mut self.names).into_iter().enumerate() {
            let known = named.whole.or(named.part);
            if named.there && directories.contains(&name) {
                clashes.insert(number as u32);
            }
            guessed += u64::from(named.there && known.is_none());
            let size = named.there.then(|| known.unwrap_or(median));
            files.push(Entry { name, size });
        }
        for (file, _) in &self.requests {
            if clashes.contains(file) {
                *self
                    .left_out
                    .entry("a file and a directory have one name".to_owned())
                    .or_default() += 1;
            }
        }
        self.requests.retain(|(file, _)| !clashes.contains(file));
        for file in &clashes {
            files[*file as usize].size = None;
        }
        let mut about = vec![
            "sizes: the largest whole answer to each name, else the largest part of one".to_owned(),
        ];
        if guessed > 0 {
            about.push(format!(
                "sizes of {guessed} files that were only revalidated: the median, {median} bytes"
            ));
        }
        let requests = times(&self.requests, &mut about);
        Import {
            trace: Trace {
                name: "access log".to_owned(),
                about,
                files,
                requests,
            },
            lines: self.lines,
            left_out: self.left_out,
        }
    }
}

/// Returns names that must be directories, because other names are below them.
fn directories(names: &[(String, Named)]) -> HashSet<String> {
    let mut directories = HashSet::new();
    for (name, _) in names.iter().filter(|(_, named)| named.there) {
        let mut rest = name.as_str();
        while let Some(at) = rest.rfind('/') {
            rest = &rest[..at];
            if !directories.insert(rest.to_owned()) {
                break;
            }
        }
    }
    directories
}

/// Converts times to seconds from the first request. Servers write log lines when responses end, so times may
/// go back: then the previous time is used. Most logs have full seconds: the requests of one second are
/// spread over it.
fn times(requests: &[(u32, Option<f64>)], about: &mut Vec<String>) -> Vec<Request> {
    let without = |file| Request { file, at: None };
    if requests.iter().any(|(_, time)| time.is_none()) {
        about.push("times: some lines have no time, so no times are kept".to_owned());
        return requests.iter().map(|(file, _)| without(*file)).collect();
    }
    let first = requests.first().and_then(|(_, time)| *time).unwrap_or(0.0);
    let (mut latest, mut back) = (first, 0u64);
    let mut seconds = Vec::with_capacity(requests.len());
    for (_, time) in requests {
        let time = time.unwrap_or(latest);
        back += u64::from(time < latest);
        latest = latest.max(time);
        seconds.push(latest - first);
    }
    // Such times cannot be those of the requests.
    if back > requests.len() as u64 / 10 {
        about.push(format!(
            "times: {back} of {} go back, so no times are kept",
            requests.len()
        ));
        return requests.iter().map(|(file, _)| without(*file)).collect();
    }
    if back > 0 {
        about.push(format!("times: {back} went back and were held"));
    }
    let mut done = Vec::with_capacity(requests.len());
    for group in seconds.chunk_by(|one, other| one == other) {
        for number in 0..group.len() {
            let at = group[0] + number as f64 / group.len() as f64;
            let (file, _) = requests[done.len()];
            let at = Duration::try_from_secs_f64(at).ok();
            done.push(Request { file, at });
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_text(text: &str) -> Import {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("access.log");
        std::fs::write(&path, text).unwrap();
        let found = import(&[path]).unwrap();
        assert_eq!(found.trace, import_bytes(text.as_bytes()).trace);
        found
    }

    fn line(second: u32, target: &str, status: u16, bytes: u64) -> String {
        format!(
            "::1 - - [17/May/2015:10:05:{second:02} +0000] \"GET {target} HTTP/1.1\" {status} {bytes}\n"
        )
    }

    #[test]
    fn a_log_implies_a_set() {
        let log = [
            line(3, "/", 200, 10),
            line(3, "/a?x=1", 200, 20),
            line(4, "/a", 200, 30),
            line(4, "/b", 206, 7),
            line(4, "/c", 304, 0),
            line(5, "/gone", 404, 99),
            line(5, "/d", 301, 0),
            line(5, "/.env", 404, 0),
            "nonsense\n".to_owned(),
            "a".repeat(200_000) + "\n",
            line(6, "/dir", 200, 5),
            line(6, "/dir/file", 200, 6),
        ];
        let found = import_text(&log.concat());
        assert_eq!(found.lines, 12);
        let size = |name: &str| {
            let mut files = found.trace.files.iter();
            files.find(|file| file.name == name).unwrap().size
        };
        assert_eq!(
            (size("index.html"), size("a"), size("b")),
            (Some(10), Some(30), Some(7))
        );
        assert_eq!(
            (size("c"), size("gone"), size("dir/file")),
            (Some(10), None, Some(6))
        );
        assert_eq!(found.trace.requests.len(), 7);
        assert_eq!(
            found.left_out.values().sum::<u64>(),
            5,
            "{:?}",
            found.left_out
        );
        assert_eq!(found.left_out["status 301"], 1);
        let times = found
            .trace
            .requests
            .iter()
            .map(|request| request.at.unwrap().as_millis());
        assert_eq!(
            times.collect::<Vec<_>>(),
            [0, 500, 1000, 1333, 1666, 2000, 3000]
        );
    }

    #[test]
    fn times_that_go_back_now_and_then_are_held() {
        let mut log: Vec<_> = (3..30).map(|second| line(second, "/a", 200, 1)).collect();
        log[20] = line(10, "/a", 200, 1);
        let found = import_text(&log.concat()).trace;
        assert_eq!(found.requests[20].at, Some(Duration::from_millis(19_500)));
        log.reverse();
        let found = import_text(&log.concat()).trace;
        assert!(found.requests.iter().all(|request| request.at.is_none()));
        assert!(
            found.about.iter().any(|line| line.contains("go back")),
            "{:?}",
            found.about
        );
    }

    #[test]
    fn an_empty_log_implies_nothing() {
        let found = import_text("");
        assert_eq!(
            (
                found.lines,
                found.trace.requests.len(),
                found.trace.files.len()
            ),
            (0, 0, 0)
        );
        assert!(import(&["/nowhere/access.log"]).is_err());
    }
}
