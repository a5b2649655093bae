//! Storing a file (PUT).

use super::change_extension::Submitted;
use super::conditions::{self, etag, only_creates};
use super::disk::Disk;
use super::problem::{Problem, of_own};
use super::target::Target;
use super::temporary::{Published, Temporary, is, sync_directory};
use super::{CHUNK, Change, Done};
use laio::ops::{FileStatus, FileSystemStatus, SetTimes, StatFileSystem, Timestamp};
use laio_http::Framing;
use laio_rt::Descriptor;
use laio_serve_base::observe;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::quota::Reservation;
use laio_serve_core::site::upload_rules::UploadRules;
use rustix::io::Errno;
use std::io;

/// Bytes written between two looks at the free space.
const LOOK_AFTER: u64 = 16 << 20;

/// Stores the body of a request as the file `target`.
pub(super) async fn put(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    target: &Target,
    submitted: &Submitted,
    body: &mut ClientBody<'_>,
) -> Result<Done, Problem> {
    let headers = &ctx.request.headers;
    // The server would store a part as the whole file (RFC 9110, section 14.5).
    if headers.get("Content-Range").is_some() {
        return Err(Problem::RANGE);
    }
    if headers
        .get("Content-Encoding")
        .is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    {
        return Err(Problem::CODING);
    }
    let present = replaceable(target.status(disk).await?)?;
    conditions::check(ctx, present.as_ref())?;
    let announced = match ctx.request.framing {
        Framing::Length(length) => length,
        Framing::None | Framing::Chunked => 0,
    };
    if announced > rules.bytes {
        return Err(Problem::TOO_LARGE);
    }
    check_space(disk, rules, target, announced).await?;
    let mut reservation = Reservation::of(rules.quota.as_ref(), announced, 1)?;

    let file = Temporary::create(disk, target).await?;
    let file = receive(disk, rules, target, body, file, &mut reservation).await?;
    if let Some(present) = &present {
        file.take_mode_of(disk, present).await?;
    }
    let modified = modification_time(ctx);
    if let Some(modified) = modified {
        let set = SetTimes::new(file.file.clone(), None, Some(modified));
        disk.names(set).await.map_err(of_own)?;
    }
    file.sync(disk, rules.sync).await?;
    let status = file.status(disk).await?;
    let stored = file.written();

    let limit = disk.services.limits.open_time;
    let names = &disk.changes.names_in_change;
    let _entered = names.enter(ctx.site.identity, &target.name, limit).await?;
    // Another request may have changed or locked the file since the first look.
    let present = replaceable(target.status(disk).await?)?;
    conditions::check(ctx, present.as_ref())?;
    if let Some(extension) = disk.changes.extension() {
        let name = &target.name;
        let checked = extension.check(disk, ctx, Change::Put, name, submitted);
        checked.await?;
    }
    let only_create = only_creates(ctx);
    let published = file.publish(disk, target, only_create).await;
    let published = published.map_err(|error| match error.raw_os_error() {
        Some(errno) if only_create && errno == Errno::EXIST.raw_os_error() => Problem::CONDITIONS,
        _ => error.into(),
    })?;
    reservation.commit(
        stored,
        match published {
            Published::Created => None,
            Published::Replaced => Some(present.as_ref().map_or(0, FileStatus::size)),
        },
    );
    sync_directory(disk, &target.directory, rules.sync).await?;
    observe::stored(stored);
    let etag = Some(etag(&status));
    Ok(match published {
        Published::Created => Done::Created(etag),
        Published::Replaced => Done::Changed(etag),
    })
}

/// Returns what a file replaces, if the server replaces it.
pub(super) fn replaceable(present: Option<FileStatus>) -> Result<Option<FileStatus>, Problem> {
    match &present {
        Some(status) if status.is_dir() => Err(Problem::IS_DIRECTORY),
        Some(status) if !status.is_file() => Err(Problem::NOT_A_FILE),
        _ => Ok(present),
    }
}

/// Receives the body into the file.
async fn receive(
    disk: Disk<'_>,
    rules: &UploadRules,
    target: &Target,
    body: &mut ClientBody<'_>,
    mut file: Temporary,
    reservation: &mut Reservation<'_>,
) -> Result<Temporary, Problem> {
    let mut buffer = Vec::new();
    let mut unchecked = 0;
    loop {
        let last = body.next_piece(&mut buffer).await?;
        if file.written() + buffer.len() as u64 > rules.bytes {
            return Err(Problem::TOO_LARGE);
        }
        if buffer.len() >= CHUNK || (last && !buffer.is_empty()) {
            unchecked += buffer.len() as u64;
            if unchecked >= LOOK_AFTER {
                check_space(disk, rules, target, unchecked).await?;
                unchecked = 0;
            }
            reservation.grow_to(file.written() + buffer.len() as u64)?;
            buffer = file.append(disk, buffer).await?;
            laio_rt::give_way().await;
        }
        if last {
            return Ok(file);
        }
    }
}

/// Checks that `length` more bytes leave enough space free.
pub(super) async fn check_space(
    disk: Disk<'_>,
    rules: &UploadRules,
    target: &Target,
    length: u64,
) -> Result<(), Problem> {
    // A file system that does not know its free space has no limit either.
    let Some(status) = space(disk, target.directory.clone()).await? else {
        return Ok(());
    };
    let free = status
        .available_blocks()
        .saturating_mul(status.fragment_size());
    if status.blocks() == 0 || free >= rules.keep_free.saturating_add(length) {
        Ok(())
    } else {
        Err(Problem::NO_SPACE)
    }
}

/// Returns the space of the file system that a file is on. None if the file system does not know it.
pub(super) async fn space(
    disk: Disk<'_>,
    file: Descriptor,
) -> io::Result<Option<FileSystemStatus>> {
    match disk.names(StatFileSystem::new(file)).await {
        Err(error) if is(&error, Errno::NOSYS) || is(&error, Errno::OPNOTSUPP) => Ok(None),
        status => status.map(Some).map_err(of_own),
    }
}

/// Returns the modification time that a client such as rclone asks for.
fn modification_time(ctx: RequestContext<'_>) -> Option<Timestamp> {
    let seconds = ctx.request.headers.only("X-OC-Mtime")?;
    let seconds = std::str::from_utf8(seconds).ok()?;
    // Some clients send a fraction.
    let seconds = seconds.split('.').next()?.parse().ok()?;
    Some(Timestamp {
        seconds,
        nanoseconds: 0,
    })
}
