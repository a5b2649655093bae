//! Hashes the names and contents of all files below a directory: `tree_hash DIRECTORY`. The hash is
//! that of Rust's standard library, enough to see whether a tree has changed.

use laio::ops::{FileType, Name, Open, Read, ReadDir};
use laio::{Context, Operation, Options, Outcome};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Makes one operation and waits for it. A program with other work would do that meanwhile.
fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
    let ticket = match context.submit(operation) {
        Outcome::Done(output) => return output,
        Outcome::Pending(ticket) => ticket,
    };
    let mut completions = Vec::new();
    context
        .poll(&mut completions, None)
        .expect("the context can wait");
    context.take(ticket).expect("its completion is here")
}

fn hash_file(context: &mut Context, file: OwnedFd, hash: &mut DefaultHasher) -> io::Result<()> {
    let file = Rc::new(file);
    let mut buffer = Vec::with_capacity(64 * 1024);
    loop {
        let (result, read) = run(context, Read::new(file.clone(), buffer));
        if result? == 0 {
            return Ok(());
        }
        hash.write(&read);
        buffer = read;
        buffer.clear();
    }
}

fn hash_tree(context: &mut Context, tree: OwnedFd, hash: &mut DefaultHasher) -> io::Result<()> {
    let tree = Rc::new(tree);
    let mut children = BTreeMap::new();
    loop {
        let entries = run(context, ReadDir::new(tree.clone()))?;
        if entries.is_empty() {
            break;
        }
        for entry in entries.iter() {
            children.insert(entry.name().to_owned(), entry.file_type());
        }
    }
    for (name, kind) in children {
        hash.write(name.as_bytes());
        let flags = match kind {
            FileType::Regular => libc::O_RDONLY | libc::O_NOFOLLOW,
            FileType::Directory => libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_DIRECTORY,
            // Links, devices and the like: the name alone.
            _ => continue,
        };
        let name = Name::from_path_at(tree.clone(), Path::new(&name))?;
        let child = run(context, Open::new(name, flags))?;
        match kind {
            FileType::Directory => hash_tree(context, child, hash)?,
            _ => hash_file(context, child, hash)?,
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let root = std::env::args_os().nth(1).unwrap_or_else(|| ".".into());
    let mut context = Context::new(Options::new())?;
    let open = Open::new(Name::from_path(root)?, libc::O_RDONLY | libc::O_DIRECTORY);
    let root = run(&mut context, open)?;
    let mut hash = DefaultHasher::new();
    hash_tree(&mut context, root, &mut hash)?;
    println!("{:016x}", hash.finish());
    let calls = context.stats().total();
    println!("{} of {} calls did not block", calls.inline, calls.total());
    Ok(())
}
