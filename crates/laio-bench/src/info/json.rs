//! `laio info --json`.

use super::Info;
use super::probe::{Answer, Ceiling, Directory, Refusal};
use laio::Errno;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn object(info: &Info) -> Value {
    let machine = &info.machine;
    let limits = &machine.limits;
    let mut perf = allowed(&machine.perf.usable);
    perf["paranoid"] = machine.perf.paranoid.into();
    let directories = info.directories.iter().map(|(path, found)| match found {
        Ok(found) => directory(found),
        Err(errno) => json!({ "path": text(path), "error": name(*errno) }),
    });
    let backend = match &info.choice {
        Ok(choice) => json!({
            "name": choice.backend.name(),
            "summary": choice.summary,
            "reason": choice.reason,
        }),
        Err(error) => json!({ "error": error }),
    };
    let ring = match &machine.io_uring {
        Ok(ring) => json!({
            "usable": true,
            "features": ring.features,
            "operations": ring.operations,
            "missing": ring.missing,
        }),
        Err(refusal) => refused(refusal),
    };
    json!({
        "kernel": machine.kernel,
        "architecture": machine.architecture,
        "backend": backend,
        "io_uring": ring,
        "perf": perf,
        "activations": match &machine.activations {
            Ok(detector) => json!({ "usable": true, "detector": detector.name() }),
            Err(refusal) => refused(refusal),
        },
        "nowait": allowed(&machine.nowait),
        "cached_open": allowed(&machine.cached_open),
        "linux_aio": allowed(&machine.linux_aio),
        "restrictions": machine.restrictions.iter()
            .map(|one| json!({ "name": one.name, "effect": one.effect }))
            .collect::<Vec<_>>(),
        "limits": {
            "open_files": ceiling(limits.open_files),
            "processes": ceiling(limits.processes),
            "locked_memory": ceiling(limits.locked_memory),
            "threads_max": limits.threads_max,
            "aio_max": limits.aio_max,
            "aio_used": limits.aio_used,
            "epoll_watches": limits.epoll_watches,
        },
        "directories": directories.collect::<Vec<_>>(),
    })
}

fn allowed(result: &Result<(), Refusal>) -> Value {
    match result {
        Ok(()) => json!({ "usable": true }),
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: &Refusal) -> Value {
    json!({
        "usable": false,
        "errno": name(refusal.errno),
        "meaning": refusal.meaning,
    })
}

/// `null` means no limit.
fn ceiling(ceiling: Ceiling) -> Value {
    json!({ "soft": ceiling.soft, "hard": ceiling.hard })
}

fn directory(directory: &Directory) -> Value {
    json!({
        "path": text(&directory.path),
        "file_system": directory.fstype,
        "mount_point": directory.mount_point,
        "place": super::table::place(directory.place),
        "cached_open": answer(directory.cached_open),
        "nowait_read": answer(directory.nowait_read),
        "nowait_write": answer(directory.nowait_write),
        "direct": answer(directory.direct),
        "writable": match directory.writable {
            Ok(()) => "yes".to_owned(),
            Err(errno) => name(errno),
        },
    })
}

/// `yes`, the errno's name, or `null` if it was not probed.
fn answer(answer: Answer) -> Value {
    match answer {
        Answer::Yes => "yes".into(),
        Answer::No(errno) => name(errno).into(),
        Answer::Unknown => Value::Null,
    }
}

fn name(errno: Errno) -> String {
    format!("{errno:?}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
