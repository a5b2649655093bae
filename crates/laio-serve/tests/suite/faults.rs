//! Each call of a job fails once, for every call: the response is an error that means the fault, or what was asked for is
//! complete.

use crate::common::{Running, has, until};
use laio::BackendKind;
use laio_serve::{Options, UploadSync, Uploaders, Zip};
use laio_testing::fault_fs::{Fault, FaultFs, Kind};
use laio_testing::nth_call::NthCall;
use laio_testing::{child, extent, or_skip, test_name};
use libc::{EEXIST, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, EXDEV};
use std::ffi::{c_int, c_long};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A time limit far above what a test here takes.
const LIMIT: Duration = Duration::from_secs(600);

/// The files of a directory. A file contains its name, several times.
const FILES: [&str; 4] = ["a", "b", "sub/e", "sub/g"];

/// A request, and what its response must mean.
struct Job {
    method: &'static str,
    target: &'static str,
    /// A field, or the name in `Destination`.
    field: Field,
    /// Says what is wrong if a response, of which there is no status if it ended early, claims success and something is
    /// missing, or if something is lost.
    judge: fn(&Place<'_>, Option<u16>, &str) -> Result<(), String>,
}

/// A field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Is(&'static str),
    To(&'static str),
}

use Field::{Is, To};

const JOBS: [Job; 14] = [
    job("GET", "/d/a", Is(""), got),
    job("GET", "/d/?zip", Is(""), packed),
    job("GET", "/d/", Is("Accept: text/html\r\n"), listed),
    job("GET", "/d/?json", Is(""), listed_as_json),
    job("PROPFIND", "/d/", Is("Depth: 1\r\n"), found),
    job("COPY", "/d/", To("new"), copied),
    job("COPY", "/d/", To("old"), copied),
    job("COPY", "/d/a", To("f"), replaced),
    job("MOVE", "/d/", To("new"), moved),
    job("MOVE", "/d/", To("old"), moved),
    job("DELETE", "/d/", Is(""), deleted),
    job("PUT", "/g", Is(""), replaced),
    job("PUT", "/f", Is("X-OC-Mtime: 1000000000\r\n"), replaced),
    job("MKCOL", "/m", Is(""), made),
];

const fn job(
    method: &'static str,
    target: &'static str,
    field: Field,
    judge: fn(&Place<'_>, Option<u16>, &str) -> Result<(), String>,
) -> Job {
    Job {
        method,
        target,
        field,
        judge,
    }
}

impl Job {
    /// The name that the request changes.
    fn changes(&self) -> &'static str {
        match self.field {
            To(name) => name,
            Is(_) => &self.target[1..],
        }
    }
}

/// A directory of the site with a tree `d`, a directory `old`, and a file `f`.
struct Place<'a> {
    server: &'a Running,
    /// The path of requests.
    path: String,
    directory: PathBuf,
    /// The name that the request changes.
    changed: &'static str,
}

impl<'a> Place<'a> {
    fn new(server: &'a Running, root: &Path, name: &str, job: &Job) -> Place<'a> {
        let directory = root.join(name);
        fs::create_dir_all(directory.join("d/sub")).unwrap();
        for name in FILES {
            fs::write(directory.join("d").join(name), content(name)).unwrap();
        }
        fs::create_dir(directory.join("old")).unwrap();
        fs::write(directory.join("old/other"), "other").unwrap();
        fs::write(directory.join("f"), "old").unwrap();
        Place {
            server,
            path: format!("/{name}"),
            directory,
            changed: job.changes(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Whether a directory has all files.
    fn is_whole(&self, name: &str) -> bool {
        let is_there = |file: &&str| {
            let read = fs::read_to_string(self.at(name).join(file));
            read.is_ok_and(|read| read == content(file))
        };
        FILES.iter().all(is_there)
    }

    /// Whether nothing was done to the directory `old`, and nothing has the name `new`.
    fn is_unchanged(&self, name: &str) -> bool {
        match name {
            "old" => {
                fs::read(self.at("old/other")).is_ok_and(|read| read == b"other")
                    && !self.at("old/a").exists()
            }
            _ => !self.at(name).exists(),
        }
    }

    /// Whether no name of something incomplete is there.
    fn is_clean(&self) -> bool {
        let mut left = vec![self.directory.clone()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().starts_with(".laio-") {
                    return false;
                }
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                }
            }
        }
        true
    }

    /// Makes a request on a new connection. Returns the status, if the response is complete, and the body.
    fn ask(&self, job: &Job) -> (Option<u16>, String) {
        let path = &self.path;
        let field = match job.field {
            Is(field) => field.to_owned(),
            To(name) => format!("Destination: {path}/{name}\r\n"),
        };
        let body = match job.method {
            "PUT" => content("a"),
            _ => String::new(),
        };
        let mut client = self.server.connect();
        client.send(format!(
            "{} {path}{} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n{field}\r\n{body}",
            job.method,
            job.target,
            body.len()
        ));
        let mut all = Vec::new();
        client.0.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let Some(end) = end else {
            return (None, String::new());
        };
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        // All that is compared is ASCII.
        let body = String::from_utf8_lossy(&all[end + 4..]).into_owned();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("Content-Length: "));
        let is_complete = match length {
            Some(length) => length.parse() == Ok(all.len() - end - 4),
            None => status == Some(204),
        };
        (status.filter(|_| is_complete), body)
    }
}

fn content(name: &str) -> String {
    name.repeat(50)
}

fn missing(text: &str, names: &[&str]) -> Result<(), String> {
    match names.iter().find(|name| !text.contains(**name)) {
        Some(name) => Err(format!("{name} is missing")),
        None => Ok(()),
    }
}

fn got(_: &Place<'_>, status: Option<u16>, body: &str) -> Result<(), String> {
    match status {
        Some(200) if body != content("a") => Err("another body".to_owned()),
        _ => Ok(()),
    }
}

fn packed(_: &Place<'_>, status: Option<u16>, body: &str) -> Result<(), String> {
    if status != Some(200) {
        return Ok(());
    }
    for name in FILES {
        missing(body, &[&content(name)])?;
    }
    // The end of the table of contents, with the number of files and directories.
    missing(body, &["PK\x05\x06\0\0\0\0\x05\0\x05\0"])
}

fn listed(_: &Place<'_>, status: Option<u16>, body: &str) -> Result<(), String> {
    match status {
        Some(200) => missing(body, &[">a<", ">b<", ">sub"]),
        _ => Ok(()),
    }
}

fn listed_as_json(_: &Place<'_>, status: Option<u16>, body: &str) -> Result<(), String> {
    match status {
        Some(200) => missing(body, &["\"a\"", "\"b\"", "\"sub\""]),
        _ => Ok(()),
    }
}

fn found(_: &Place<'_>, status: Option<u16>, body: &str) -> Result<(), String> {
    match status {
        Some(207) => missing(body, &["/d/a</", "/d/b</", "/d/sub/</"]),
        _ => Ok(()),
    }
}

fn copied(place: &Place<'_>, status: Option<u16>, _: &str) -> Result<(), String> {
    let name = place.changed;
    match status {
        _ if !place.is_whole("d") => Err("the source is not whole".to_owned()),
        Some(201 | 204) if !place.is_whole(name) => Err("the copy is not whole".to_owned()),
        _ if place.is_whole(name) || place.is_unchanged(name) => Ok(()),
        _ => Err("the destination is neither the old nor the new one".to_owned()),
    }
}

fn moved(place: &Place<'_>, status: Option<u16>, _: &str) -> Result<(), String> {
    let name = place.changed;
    match status {
        Some(201 | 204) if !place.is_whole(name) => Err("it has not arrived".to_owned()),
        Some(201 | 204) if place.at("d").exists() => Err("it is still there".to_owned()),
        _ if !place.is_whole(name) && !place.is_whole("d") => Err("it is lost".to_owned()),
        _ if place.is_whole(name) || place.is_unchanged(name) => Ok(()),
        _ => Err("the destination is neither the old nor the new one".to_owned()),
    }
}

fn deleted(place: &Place<'_>, status: Option<u16>, _: &str) -> Result<(), String> {
    match status {
        Some(204) if place.at("d").exists() => Err("it is still there".to_owned()),
        _ => Ok(()),
    }
}

fn replaced(place: &Place<'_>, status: Option<u16>, _: &str) -> Result<(), String> {
    let new = content("a");
    let read = fs::read_to_string(place.at(place.changed)).ok();
    let before = (place.changed == "f").then(|| "old".to_owned());
    match status {
        Some(201 | 204) if read.as_ref() != Some(&new) => Err("another file is there".to_owned()),
        _ if read == before || read == Some(new) => Ok(()),
        _ => Err("the file is neither the old nor the new one".to_owned()),
    }
}

fn made(place: &Place<'_>, status: Option<u16>, _: &str) -> Result<(), String> {
    match status {
        Some(201) if !place.at(place.changed).is_dir() => Err("it is not there".to_owned()),
        _ => Ok(()),
    }
}

/// Whether a status is an error that means the fault.
fn means(status: Option<u16>, what: &str, errno: c_int) -> bool {
    match (status, errno) {
        // A body that ends early, and what could not be deleted.
        (None | Some(207), _) => true,
        // The file system may mean the new name.
        (Some(400), EINVAL) if what == "renameat2" => true,
        (Some(status), ENOMEM) => status == 503,
        (Some(status), ENOSPC) => status == 507,
        (Some(status), _) => status == 500,
    }
}

fn open(options: &mut Options) {
    options.workers = Some(1);
    options.site.listing = true;
    options.site.archives.zip = Some(Zip::Store);
    options.site.uploads.who = Some(Uploaders::Anyone);
    options.site.uploads.keep_free = 1;
    options.site.uploads.webdav = true;
    options.site.uploads.sync = UploadSync::Directory;
}

/// A fault: what fails, with which errno, and whether that may keep the server from removing what is incomplete.
#[derive(Clone, Copy)]
struct Injected<'a> {
    what: &'a str,
    errno: c_int,
    keeps: bool,
}

/// Does each job again and again, and lets the n-th call of a kind fail, for every n. `arm` sets the fault for a job,
/// and `disarm` returns whether it has occurred. By default one job in seven is done for each kind and errno.
/// Returns the number of faults, and what was wrong.
fn every_fault(
    server: &Running,
    root: &Path,
    fault: Injected<'_>,
    arm: &dyn Fn(&Job, u64),
    disarm: &dyn Fn() -> bool,
) -> (u32, Vec<String>) {
    let (mut faults, mut wrong) = (0, Vec::new());
    let Injected { what, errno, keeps } = fault;
    for (number, job) in JOBS.iter().enumerate() {
        if !extent::chooses(&format!("{what} {errno}"), number, 7) {
            continue;
        }
        for n in 1.. {
            let place = Place::new(server, root, &format!("{number}-{what}-{errno}-{n}"), job);
            arm(job, n);
            let (status, body) = place.ask(job);
            let occurred = disarm();
            let judged = (job.judge)(&place, status, &body);
            let judged = judged.and_then(|()| match status {
                Some(200 | 201 | 204) => Ok(()),
                Some(207) if job.method == "PROPFIND" => Ok(()),
                status if occurred && means(status, what, errno) => Ok(()),
                _ => Err(format!("a status that does not mean it: {body}")),
            });
            if let Err(text) = judged {
                let errno = std::io::Error::from_raw_os_error(errno);
                let Job { method, target, .. } = job;
                wrong.push(format!(
                    "{method} {target}, {:?}, {what} {n}: {errno}: {status:?}: {text}",
                    job.field
                ));
            }
            if !keeps {
                until("what is incomplete is removed", || place.is_clean());
            }
            fs::remove_dir_all(&place.directory).unwrap();
            if !occurred {
                break;
            }
            faults += 1;
        }
    }
    (faults, wrong)
}

/// Checks what [`every_fault`] has found.
fn check(backend: BackendKind, found: Vec<(u32, Vec<String>)>) {
    let faults: u32 = found.iter().map(|(faults, _)| faults).sum();
    let wrong: Vec<_> = found.into_iter().flat_map(|(_, wrong)| wrong).collect();
    println!("{backend}: {faults} faults");
    assert!(faults > 0, "{backend}");
    assert!(wrong.is_empty(), "{backend}:\n{}", wrong.join("\n"));
}

/// System calls, the errnos with which they fail, and whether they are among those that remove files.
#[rustfmt::skip]
const CALLS: [(&str, c_long, &[c_int], bool); 17] = [
    ("openat2", libc::SYS_openat2, &[EIO, ENOMEM], true),
    ("openat", libc::SYS_openat, &[EIO, ENOMEM], true),
    ("statx", libc::SYS_statx, &[EIO, ENOMEM], true),
    ("getdents64", libc::SYS_getdents64, &[EIO, ENOMEM], true),
    ("unlinkat", libc::SYS_unlinkat, &[EIO, ENOMEM], true),
    ("pread64", libc::SYS_pread64, &[EIO], false),
    ("preadv2", libc::SYS_preadv2, &[EIO], false),
    ("sendfile", libc::SYS_sendfile, &[EIO], false),
    ("copy_file_range", libc::SYS_copy_file_range, &[EIO, ENOSPC], false),
    ("pwrite64", libc::SYS_pwrite64, &[EIO, ENOSPC], false),
    ("pwritev2", libc::SYS_pwritev2, &[EIO, ENOSPC], false),
    ("fsync", libc::SYS_fsync, &[EIO, ENOSPC, EINVAL], false),
    ("mkdirat", libc::SYS_mkdirat, &[EIO, ENOSPC], false),
    ("linkat", libc::SYS_linkat, &[EIO, ENOSPC, EEXIST, ENOENT], false),
    ("renameat2", libc::SYS_renameat2, &[EIO, ENOSPC, EINVAL, ENOENT], false),
    ("fchmod", libc::SYS_fchmod, &[EIO, ENOMEM], false),
    ("fstatfs", libc::SYS_fstatfs, &[EIO, ENOMEM], false),
];

/// Calls that io_uring makes are not among them: see `each_request`.
fn each_call(test: &str, backend: BackendKind) {
    child::check(LIMIT, test, "", || {
        let calls: Vec<_> = CALLS.iter().map(|(_, call, ..)| *call).collect();
        let Some(calls) = or_skip(NthCall::install(&calls)) else {
            return;
        };
        if !has(backend) {
            return;
        }
        let dir = TempDir::new().unwrap();
        let server = Running::on(backend, dir.path(), open);
        let all = CALLS.iter().flat_map(|&(what, call, errnos, keeps)| {
            let fault = move |&errno| (call, Injected { what, errno, keeps });
            errnos.iter().map(fault)
        });
        let found = all.map(|(call, fault)| {
            let arm = |_: &Job, n| calls.fail(n, call, fault.errno);
            every_fault(&server, dir.path(), fault, &arm, &|| calls.disarm())
        });
        check(backend, found.collect());
    });
}

laio_testing::each_test! {
    each_call_fails_once_with_helpers => each_call(test_name!(), BackendKind::Hybrid);
    each_call_fails_once_in_the_lazy_back_end => each_call(test_name!(), BackendKind::Lazy);
}

/// Listening fails: the server says on what, and does not start.
#[test]
fn a_server_that_cannot_listen_does_not_start() {
    child::check(LIMIT, test_name!(), "", || {
        let Some(calls) = or_skip(NthCall::install(&[libc::SYS_listen])) else {
            return;
        };
        let dir = TempDir::new().unwrap();
        for n in 1.. {
            calls.fail(n, libc::SYS_listen, libc::EADDRINUSE);
            let started = Running::try_on(BackendKind::Hybrid, dir.path(), |_| {});
            if !calls.disarm() {
                assert!(n > 2 && started.is_ok());
                break;
            }
            let error = started.err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("it serves although listen {n} failed"));
            assert!(error.starts_with("cannot listen on 127.0.0.1:"), "{error}");
        }
    });
}

/// A count that leaves something out would be too small, and the limit too large.
#[test]
fn a_directory_that_cannot_be_counted_is_not_changed() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    disk.add_dir("d");
    disk.add_file("d/a", &[0; 600]);
    for kind in [Kind::Opendir, Kind::Readdir, Kind::Getattr, Kind::Lookup] {
        let name = if kind == Kind::Lookup { "d/a" } else { "d" };
        disk.set_at(name, kind, Fault::Fail(EIO));
        let server = Running::with(disk.path(), |options| {
            open(options);
            options.site.uploads.quota = Some(1000);
        });
        let put = || {
            let mut client = server.connect();
            client.send("PUT /b HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n");
            client.send([0; 500]);
            client.answer(false).status
        };
        assert_eq!(put(), 503, "{kind:?}");
        assert_eq!(put(), 503, "{kind:?}");
        disk.clear_all();
        until("all is counted", || put() != 503);
        assert_eq!(put(), 507, "{kind:?}");
    }
}

/// Requests to a file system, the errnos with which they fail, and whether they are among those that remove files.
const REQUESTS: [(Kind, &[c_int], bool); 15] = [
    (Kind::Lookup, &[EIO, ENOMEM], true),
    (Kind::Getattr, &[EIO, ENOMEM], true),
    (Kind::Opendir, &[EIO, ENOMEM], true),
    (Kind::Readdir, &[EIO, ENOMEM], true),
    (Kind::Unlink, &[EIO], true),
    (Kind::Rmdir, &[EIO], true),
    (Kind::Open, &[EIO, ENOMEM], false),
    (Kind::Read, &[EIO, ENOMEM], false),
    (Kind::Create, &[EIO, ENOSPC], false),
    (Kind::Write, &[EIO, ENOSPC], false),
    (Kind::Mkdir, &[EIO, ENOSPC], false),
    (Kind::Rename, &[EIO, ENOSPC], false),
    (Kind::Fsync, &[EIO, ENOSPC], false),
    (Kind::Setattr, &[EIO, ENOMEM], false),
    (Kind::Statfs, &[EIO, ENOMEM], false),
];

/// A FUSE file system has no unnamed files, and exchanges no names. Every move here copies and removes.
fn each_request(backend: BackendKind) {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    if !has(backend) {
        return;
    }
    let server = Running::on(backend, disk.path(), open);
    let mut all = Vec::new();
    for (kind, errnos, keeps) in REQUESTS {
        let what = format!("{kind:?}");
        laio_testing::watchdog::step(&what);
        // What an errno means does not depend on the back end.
        let errnos = match backend {
            BackendKind::Lazy => errnos,
            _ => &errnos[..1],
        };
        let found = errnos.iter().map(|&errno| {
            let what = &*what;
            let fault = Injected { what, errno, keeps };
            let arm = |job: &Job, n| {
                if job.method == "MOVE" {
                    disk.next(Kind::Rename, Fault::Fail(EXDEV));
                }
                disk.nth(n, kind, Fault::Fail(errno));
            };
            let disarm = || {
                let occurred = !disk.is_pending(kind);
                disk.clear_all();
                occurred
            };
            every_fault(&server, disk.path(), fault, &arm, &disarm)
        });
        all.extend(found);
    }
    check(backend, all);
}

laio_testing::each_test! {
    each_request_to_a_file_system_fails_once_in_the_lazy_back_end => each_request(BackendKind::Lazy);
    each_request_to_a_file_system_fails_once_with_a_ring => each_request(BackendKind::Uring);
    each_request_to_a_file_system_fails_once_with_helpers => each_request(BackendKind::Hybrid);
}
