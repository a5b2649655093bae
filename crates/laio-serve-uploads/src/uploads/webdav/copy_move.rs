//! Copying and moving files and directories (COPY, MOVE).

use super::locks::{Locks, is_below};
use super::trees;
use super::trees::Extent;
use super::{Depth, Submitted, depth, name_of};
use crate::uploads::disk::Disk;
use crate::uploads::problem::{Problem, of_own};
use crate::uploads::target::Target;
use crate::uploads::temporary::{NAME_TRIES, Published, Temporary, of_name, sync_directory};
use crate::uploads::{Done, conditions, put, temporary};
use laio::ops::{FileStatus, Rename, StatFile};
use laio_http::Status;
use laio_rt::Descriptor;
use laio_serve_base::messages::print;
use laio_serve_core::files::temporary_name::{aside_name, locks_in, temporary_name};
use laio_serve_core::files::uncached::FLAGS;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::quota::Reservation;
use laio_serve_core::site::upload_rules::UploadRules;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::io;

/// How often the removal of a temporary name is tried.
const DISCARD_TRIES: usize = 2;

/// Answers a COPY request, or with `moves` a MOVE request.
pub(in crate::uploads) async fn copy_or_move(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    name: &[u8],
    submitted: &Submitted,
    moves: bool,
) -> Result<Done, Problem> {
    let headers = &ctx.request.headers;
    let destination = headers.only("Destination").ok_or(Problem::NO_DESTINATION)?;
    let destination = std::str::from_utf8(destination).map_err(|_| Problem::NO_DESTINATION)?;
    let destination = name_of(ctx, destination)?;
    let deep = match (depth(ctx)?, moves) {
        (Some(Depth::Infinity) | None, _) => true,
        (Some(Depth::Zero), false) => false,
        _ => return Err(Problem::DEPTH),
    };
    let overwrites = match headers.only("Overwrite") {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        Some(_) => {
            let text = "The value of Overwrite is neither T nor F.";
            return Err(Problem::new(Status::BAD_REQUEST, text));
        }
    };
    if destination == name || is_below(&destination, name) || is_below(name, &destination) {
        return Err(Problem::new(
            Status::FORBIDDEN,
            "Source and destination are the same, or one is in the other.",
        ));
    }
    let source = Target::open(disk, ctx.site, name).await;
    let source = source.map_err(|problem| match problem.status {
        // Its directory is missing, and so is the source.
        Status::CONFLICT => Problem::NOT_FOUND,
        _ => problem,
    })?;
    let target = Target::open(disk, ctx.site, &destination).await?;
    let root = ctx.site.identity;
    locks.check(root, &destination, true, submitted)?;
    locks.check_member(root, &destination, submitted)?;

    // In one order, so that two requests never wait for each other.
    let limit = disk.services.limits.open_time;
    let names = &disk.changes.names_in_change;
    let mut both = [&source.name, &target.name];
    both.sort();
    let _first = names.enter(root, both[0], limit).await?;
    let _second = names.enter(root, both[1], limit).await?;

    let status = source.status(disk).await?.ok_or(Problem::NOT_FOUND)?;
    conditions::check(ctx, Some(&status))?;
    let present = target.status(disk).await?;
    if present.is_some() && !overwrites {
        return Err(Problem {
            status: Status::PRECONDITION_FAILED,
            ..Problem::EXISTS
        });
    }
    let moved = if moves {
        rename(disk, rules, (&source, &target), present.as_ref(), &status).await?
    } else {
        false
    };
    if !moved {
        let names = (&source, &target);
        let extent = match (moves, deep) {
            (true, _) => Extent::All,
            (false, true) => Extent::Served,
            (false, false) => Extent::Itself,
        };
        copy(disk, ctx, rules, names, present.as_ref(), extent).await?;
    }
    if moves && !moved {
        // The names are on different file systems.
        remove(disk, rules, &source, &status).await?;
    }
    locks.forget(root, &target.name);
    if moves {
        locks.forget(root, &source.name);
        sync_directory(disk, &source.directory, rules.sync).await?;
    }
    sync_directory(disk, &target.directory, rules.sync).await?;
    Ok(match present {
        None => Done::Created(None),
        Some(_) => Done::Changed(None),
    })
}

/// Renames the source. Returns false if the names are on different file systems.
async fn rename(
    disk: Disk<'_>,
    rules: &UploadRules,
    (source, target): (&Target, &Target),
    present: Option<&FileStatus>,
    status: &FileStatus,
) -> Result<bool, Problem> {
    let directories = status.is_dir() || present.is_some_and(FileStatus::is_dir);
    let renamed = match present.filter(|_| directories) {
        None => disk.names(Rename::new(source.at(), target.at())).await,
        Some(_) => replace(disk, rules, source, target).await,
    };
    match renamed {
        Ok(()) => {
            // What a directory replaces, or what replaces one, was removed by its name.
            if let (Some(quota), Some(present), false) = (&rules.quota, present, directories) {
                let bytes = if present.is_file() { present.size() } else { 0 };
                quota.release(bytes, 1);
            }
            Ok(true)
        }
        Err(error) if temporary::is(&error, Errno::XDEV) => Ok(false),
        Err(error) => Err(of_rename(disk, source, target, error).await.into()),
    }
}

/// Returns what an error of a rename means: `ENOENT` is about the name of the request only if that is gone.
async fn of_rename(disk: Disk<'_>, from: &Target, to: &Target, error: io::Error) -> io::Error {
    match from.status(disk).await {
        Ok(Some(_)) => of_name(disk, &to.directory, error).await,
        _ => error,
    }
}

/// Copies the source to a temporary name, and gives the copy its name when it is complete.
async fn copy(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    (source, target): (&Target, &Target),
    present: Option<&FileStatus>,
    extent: Extent,
) -> Result<(), Problem> {
    // By the rules of reading: a link is followed, unless the site does not allow that.
    let opened = trees::open_served(disk, ctx.site, &source.name, FLAGS).await?;
    let status = disk.names(StatFile::new(opened.clone())).await?;
    put::check_space(disk, rules, target, status.size()).await?;
    let new;
    // Keeps the lock until the copy has its name.
    let _made;
    if status.is_file() {
        let reservation = Reservation::of(rules.quota.as_ref(), status.size(), 1)?;
        let file = Temporary::create(disk, target).await?;
        trees::contents(disk, &opened, &file.file).await?;
        file.take_mode_of(disk, &status).await?;
        file.sync(disk, rules.sync).await?;
        if !present.is_some_and(FileStatus::is_dir) {
            let published = file.publish(disk, target, false).await?;
            let replaced = present.filter(|_| published == Published::Replaced);
            let of = |it: &FileStatus| if it.is_file() { it.size() } else { 0 };
            reservation.commit(status.size(), replaced.map(of));
            return Ok(());
        }
        new = target.beside(temporary_name(locks_in(&target.directory)));
        _made = file.file.clone();
        file.publish(disk, &new, true).await.map_err(of_own)?;
        reservation.commit(status.size(), None);
    } else if status.is_dir() {
        drop(opened);
        (new, _made) = make_beside(disk, rules, target).await?;
        let copied = trees::copy(disk, ctx.site, &source.name, _made.clone(), extent, rules).await;
        if let Err(problem) = copied {
            discard(disk, rules, &new).await;
            return Err(problem);
        }
    } else {
        return Err(Problem::NOT_A_FILE);
    }
    let named = match present {
        Some(_) => replace(disk, rules, &new, target).await,
        // Another program may have made the name meanwhile.
        None => disk.names(Rename::new(new.at(), target.at())).await,
    };
    if let Err(error) = named {
        let error = of_rename(disk, &new, target, error).await;
        discard(disk, rules, &new).await;
        return Err(error.into());
    }
    Ok(())
}

/// Makes a directory beside the target for a copy. If a server that starts at the same time removes the directory, the
/// next try has another name.
async fn make_beside(
    disk: Disk<'_>,
    rules: &UploadRules,
    target: &Target,
) -> Result<(Target, Descriptor), Problem> {
    for _ in 0..NAME_TRIES {
        let new = target.beside(temporary_name(locks_in(&target.directory)));
        match trees::make_temporary(disk, &new, rules).await {
            Ok(Some(directory)) => return Ok((new, directory)),
            Ok(None) => {}
            Err(problem) => {
                discard(disk, rules, &new).await;
                return Err(problem);
            }
        }
    }
    let missing = io::Error::from(Errno::NOENT);
    Err(of_name(disk, &target.directory, missing).await.into())
}

/// Gives `new` the name of the target, and removes what has that name. A reader, and a crash, sees the one or the
/// other.
async fn replace(
    disk: Disk<'_>,
    rules: &UploadRules,
    new: &Target,
    target: &Target,
) -> io::Result<()> {
    let mut replaced = target.beside(temporary_name(locks_in(&target.directory)));
    let exchange = || Rename::new(new.at(), target.at()).flags(RenameFlags::EXCHANGE.bits());
    match disk.names(exchange()).await {
        // What is replaced has the name of the new one now, perhaps in another directory.
        Ok(()) => {
            if let Err(error) = disk.names(Rename::new(new.at(), replaced.at())).await {
                let _ = disk.names(exchange()).await;
                return Err(of_own(error));
            }
        }
        // The file system cannot exchange names.
        Err(error) if temporary::is(&error, Errno::INVAL) => {
            let kept = target.beside(aside_name());
            disk.names(Rename::new(target.at(), kept.at()))
                .await
                .map_err(of_own)?;
            if let Err(error) = disk.names(Rename::new(new.at(), target.at())).await {
                put_back(disk, &kept, target).await;
                return Err(of_own(error));
            }
            // The next start may remove it now.
            let renamed = disk.names(Rename::new(kept.at(), replaced.at())).await;
            if renamed.is_err() {
                replaced = kept;
            }
        }
        Err(error) => return Err(error),
    }
    discard(disk, rules, &replaced).await;
    Ok(())
}

/// Gives what was put aside its name back, unless another program has taken that.
async fn put_back(disk: Disk<'_>, kept: &Target, target: &Target) {
    let back = || Rename::new(kept.at(), target.at());
    let mut done = disk
        .names(back().flags(RenameFlags::NOREPLACE.bits()))
        .await;
    if let Err(error) = &done
        && temporary::is(error, Errno::INVAL)
        && matches!(target.status(disk).await, Ok(None))
    {
        done = disk.names(back()).await;
    }
    if let Err(error) = done {
        print(format_args!(
            "what /{} was is beside it as {}, because it could not be named back: {error}",
            String::from_utf8_lossy(&target.name),
            kept.leaf().to_string_lossy()
        ));
    }
}

/// Removes a file or directory with a temporary name. What cannot be removed keeps that name until the next start.
async fn discard(disk: Disk<'_>, rules: &UploadRules, target: &Target) {
    let quota = rules.quota.as_ref();
    let mut tries = DISCARD_TRIES;
    loop {
        let failed = match trees::remove(disk, &target.directory, target.leaf(), quota).await {
            Ok(failures) if failures.is_empty() => return,
            Ok(mut failures) => failures.swap_remove(0).1,
            Err(problem) if problem.status == Status::NOT_FOUND => {
                match trees::unlink(disk, target.at(), quota).await {
                    Ok(()) => return,
                    Err(error) if temporary::is(&error, Errno::NOENT) => return,
                    Err(error) => error.into(),
                }
            }
            Err(problem) => problem,
        };
        tries -= 1;
        if tries == 0 {
            print(format_args!(
                "cannot remove {}, which is beside /{}: {}",
                target.leaf().to_string_lossy(),
                String::from_utf8_lossy(&target.name),
                failed.detail
            ));
            return;
        }
    }
}

/// Removes the source of a move, of which there is a copy.
async fn remove(
    disk: Disk<'_>,
    rules: &UploadRules,
    source: &Target,
    status: &FileStatus,
) -> Result<(), Problem> {
    let quota = rules.quota.as_ref();
    if !status.is_dir() {
        return Ok(trees::unlink(disk, source.at(), quota).await?);
    }
    let failures = trees::remove(disk, &source.directory, source.leaf(), quota).await?;
    match failures.into_iter().next() {
        None => Ok(()),
        Some((_, problem)) => Err(problem),
    }
}
