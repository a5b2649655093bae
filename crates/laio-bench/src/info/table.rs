//! `laio info` as text.

use super::Info;
use super::probe::{Answer, Ceiling, Directory, Refusal};
use crate::text::columns;
use laio::{Errno, Place};
use std::path::Path;

pub(super) fn table(info: &Info) -> String {
    let mut text = columns(&[0, 1], &machine(info));
    text.push_str("\nLimits\n");
    text.push_str(&columns(&[0, 1], &limits(info)));
    if !info.directories.is_empty() {
        text.push_str("\nFile systems: what can be done there without waiting\n");
        text.push_str(&columns(&[0, 1, 2, 3, 4, 5, 6, 7], &directories(info)));
    }
    text
}

fn machine(info: &Info) -> Vec<Vec<String>> {
    let machine = &info.machine;
    let mut lines = Vec::new();
    let mut add = |what: &str, text: String| lines.push(vec![what.to_owned(), text]);
    add(
        "Kernel",
        format!("Linux {} {}", machine.kernel, machine.architecture),
    );
    match &info.choice {
        Ok(choice) => {
            add("Back end", choice.summary.clone());
            add("", choice.reason.clone());
        }
        Err(error) => add("Back end", format!("none: {error}")),
    }
    match &machine.io_uring {
        Ok(ring) => {
            let missing = match ring.missing.as_slice() {
                [] => "none missing that laio uses".to_owned(),
                missing => format!("missing: {}", missing.join(" ")),
            };
            add(
                "io_uring",
                format!("yes; {} operations, {missing}", ring.operations),
            );
            for (part, features) in ring.features.chunks(8).enumerate() {
                let head = if part == 0 {
                    "features: "
                } else {
                    "          "
                };
                add("", format!("{head}{}", features.join(" ")));
            }
        }
        Err(refusal) => add("io_uring", no(refusal)),
    }
    let paranoid = match machine.perf.paranoid {
        Some(level) => format!(" (perf_event_paranoid {level})"),
        None => String::new(),
    };
    add(
        "Perf events",
        format!("{}{paranoid}", allowed(&machine.perf.usable)),
    );
    add(
        "Activations",
        match &machine.activations {
            Ok(detector) => format!("yes; blocking is noticed by {}", detector.means()),
            Err(refusal) => no(refusal),
        },
    );
    add("RWF_NOWAIT", allowed(&machine.nowait));
    add("RESOLVE_CACHED", allowed(&machine.cached_open));
    add("Linux AIO", allowed(&machine.linux_aio));
    for (index, one) in machine.restrictions.iter().enumerate() {
        let head = if index == 0 { "Restrictions" } else { "" };
        add(head, format!("{}: {}", one.name, one.effect));
    }
    lines
}

fn allowed(result: &Result<(), Refusal>) -> String {
    match result {
        Ok(()) => "yes".to_owned(),
        Err(refusal) => no(refusal),
    }
}

fn no(refusal: &Refusal) -> String {
    format!("no; {refusal}")
}

fn limits(info: &Info) -> Vec<Vec<String>> {
    let limits = &info.machine.limits;
    let number = |number: Option<u64>| number.map_or("not known".to_owned(), |n| n.to_string());
    [
        ("Open files", ceiling(limits.open_files, "")),
        ("Processes of the user", ceiling(limits.processes, "")),
        ("Locked memory", ceiling(limits.locked_memory, " bytes")),
        ("Threads of the system", number(limits.threads_max)),
        ("Descriptors in epoll sets", number(limits.epoll_watches)),
        (
            "Requests of Linux AIO",
            format!(
                "{}, of which {} reserved",
                number(limits.aio_max),
                number(limits.aio_used)
            ),
        ),
    ]
    .map(|(what, text)| vec![what.to_owned(), text])
    .to_vec()
}

fn ceiling(ceiling: Ceiling, unit: &str) -> String {
    let number = |limit: Option<u64>| match limit {
        Some(limit) => format!("{limit}{unit}"),
        None => "unlimited".to_owned(),
    };
    match (ceiling.soft, ceiling.hard) {
        (soft, hard) if soft == hard => number(soft),
        (soft, hard) => format!("{} (can be raised to {})", number(soft), number(hard)),
    }
}

fn directories(info: &Info) -> Vec<Vec<String>> {
    let head = [
        "directory",
        "type",
        "data",
        "cached open",
        "cached read",
        "write",
        "O_DIRECT",
        "new files",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (path, found) in &info.directories {
        lines.push(match found {
            Ok(found) => directory(found),
            Err(errno) => vec![show(path), format!("{errno}")],
        });
    }
    lines
}

fn directory(directory: &Directory) -> Vec<String> {
    let unknown = || "unknown".to_owned();
    vec![
        show(&directory.path),
        match directory.fstype.as_str() {
            "" => unknown(),
            fstype => fstype.to_owned(),
        },
        place(directory.place).to_owned(),
        answer(directory.cached_open),
        answer(directory.nowait_read),
        answer(directory.nowait_write),
        answer(directory.direct),
        match directory.writable {
            Ok(()) => "yes".to_owned(),
            Err(Errno::ROFS) => "no, read-only".to_owned(),
            Err(errno) => format!("no, {errno:?}"),
        },
    ]
}

/// Returns a word for the kind of storage.
pub(super) fn place(place: Place) -> &'static str {
    match place {
        Place::Memory => "memory",
        Place::Local => "local",
        Place::Remote => "remote",
    }
}

fn answer(answer: Answer) -> String {
    match answer {
        Answer::Yes => "yes".to_owned(),
        Answer::No(errno) => format!("no, {errno:?}"),
        Answer::Unknown => "not tried".to_owned(),
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
