//! Symbolic links, FIFOs, sockets and devices.

use crate::attributes::{self, Failures, Names, Object, Present, Setting};
use crate::directory::Entry;
use crate::entry::Copied;
use crate::existing::Place;
use crate::link;
use crate::outcome::{Done, Failure};
use crate::private;
use crate::worker::Worker;
use laio::ops::{MakeNode, Node, ReadLink, StatPath};
use laio_rt::fs::{FileType, Metadata};

/// Makes a symbolic link that says the same.
pub(crate) async fn symlink(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    place: &Place,
) -> Result<Copied, Failure> {
    // Its status has just been asked for, and most links are as long as fits beside that.
    let text = worker
        .perhaps(ReadLink::new(entry.source()), status.blocks() == 0)
        .await;
    let text = text.map_err(entry.source_failure("cannot read symbolic link", ""))?;
    let replaces = worker.options().force && matches!(place, Place::Existing(_));
    let failed = entry.target_failure("cannot create symbolic link");
    link::say(worker, entry, text.as_os_str(), replaces, failed).await?;
    if worker.shared.just_made.is_needed() {
        // Another argument must not be written through it.
        let made = worker.plainly(StatPath::new(entry.target()).no_follow());
        made.iter().for_each(|made| worker.shared.made.insert(made));
    }
    let mut failures = Failures::new(worker);
    set(worker, entry, status, true, &mut failures);
    failures.result().map_err(Failure::of_attributes)?;
    Ok(Copied::without_data(Done::Made))
}

/// Makes a file of the same kind.
pub(crate) async fn node(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    place: &Place,
) -> Result<Copied, Failure> {
    let Some(node) = Node::like(status) else {
        let name = entry.quoted_source();
        return Err(Failure::because(format!("{name} has unknown file type")));
    };
    let what = match status.file_type() {
        FileType::Fifo => "cannot create fifo",
        _ => "cannot create special file",
    };
    if matches!(place, Place::Existing(_)) {
        return Err(entry.target_failure(what)(laio::Errno::EXIST.into()));
    }
    let preserve = worker.options().preserve;
    let bits = status.mode() & 0o7777;
    let umask = worker.shared.process.umask;
    let mode = bits & private::OWNER;
    let made = worker
        .write(MakeNode::new(entry.target(), node, mode))
        .await;
    made.map_err(entry.target_failure(what))?;
    let mut failures = Failures::new(worker);
    let is_owned = set(worker, entry, status, false, &mut failures);
    let in_the_end = match preserve.default_mode {
        true if status.file_type() == FileType::Socket => Some(0o777 & !umask),
        true => Some(0o666 & !umask),
        false if preserve.mode || bits == mode => None,
        false => {
            let added = if preserve.ownership { 0o077 } else { 0 };
            Some(private::in_the_end(worker, entry, bits, added).await)
        }
    };
    if let (true, Some(in_the_end)) = (is_owned, in_the_end) {
        let target = Object::Named(entry.target());
        let modes = (mode, in_the_end);
        failures.note(private::widen(worker, entry, &target, modes));
    }
    failures.result().map_err(Failure::of_attributes)?;
    Ok(Copied::without_data(Done::Made))
}

/// Whether the owner is right, so that it may get permissions.
fn set(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    is_link: bool,
    failures: &mut Failures<'_>,
) -> bool {
    let source = Object::Named(entry.source());
    let names = match attributes::names(worker, &source) {
        Ok(names) => names,
        Err(error) => {
            let failed = entry.source_failure("cannot list attributes of", "");
            failures.note(Err(failed(error)));
            Names::default()
        }
    };
    let target = Object::Named(entry.target());
    let present = Present::new(&worker.shared.process, &entry.directory, None);
    attributes::set(
        worker,
        &Setting {
            source: status,
            target: &target,
            path: &|| entry.target_path(),
            names: Some((&names, &source)),
            present,
            is_link,
        },
        failures,
    )
}
