//! Reads files, all at the same time, without waiting for any of them: `read FILE…`. It prints the
//! length of each as soon as it is known, and how many did not have to be waited for.

use laio::ops::{Name, Open, ReadAt};
use laio::{Context, Options, Outcome, Ticket};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

const BUFFER: usize = 256 * 1024;

type Reading = ReadAt<Rc<OwnedFd>, Vec<u8>>;

struct File {
    name: String,
    descriptor: Rc<OwnedFd>,
    length: u64,
}

/// Reads until a read is pending, whose ticket it returns, or the file ends.
fn read(
    context: &mut Context,
    index: usize,
    file: &mut File,
    mut buffer: Vec<u8>,
) -> Option<Ticket<Reading>> {
    loop {
        buffer.clear();
        let read = ReadAt::new(file.descriptor.clone(), buffer, file.length);
        match context.submit_with(read, index as u64) {
            Outcome::Pending(ticket) => return Some(ticket),
            Outcome::Done((result, read)) => {
                if !advance(file, result) {
                    return None;
                }
                buffer = read;
            }
        }
    }
}

/// Notes the result of a read. Returns false at the end of the file.
fn advance(file: &mut File, result: io::Result<usize>) -> bool {
    match result {
        Ok(0) => println!("{:>12} {}", file.length, file.name),
        Err(error) => println!("{}: {error}", file.name),
        Ok(count) => {
            file.length += count as u64;
            return true;
        }
    }
    false
}

/// Opens a file. A directory of its name may be on a disk too, so this may wait.
fn open(context: &mut Context, name: &str) -> io::Result<OwnedFd> {
    let open = Open::new(Name::from_path(name)?, libc::O_RDONLY);
    match context.submit(open) {
        Outcome::Done(file) => file,
        Outcome::Pending(ticket) => {
            let mut completions = Vec::new();
            context.poll(&mut completions, None)?;
            context.take(ticket).expect("its completion is here")
        }
    }
}

fn main() -> io::Result<()> {
    let mut context = Context::new(Options::new())?;
    let mut files = Vec::new();
    for name in std::env::args().skip(1) {
        let descriptor = Rc::new(open(&mut context, &name)?);
        files.push(File {
            name,
            descriptor,
            length: 0,
        });
    }
    let start = |(index, file)| read(&mut context, index, file, Vec::with_capacity(BUFFER));
    let mut tickets: Vec<_> = files.iter_mut().enumerate().map(start).collect();
    let immediate = tickets.iter().filter(|ticket| ticket.is_none()).count();
    println!("{immediate} of {} files were in memory", files.len());

    let mut completions = Vec::new();
    while tickets.iter().any(Option::is_some) {
        context.poll(&mut completions, None)?;
        for completion in completions.drain(..) {
            let index = completion.user_data as usize;
            let ticket = tickets[index].take().expect("a read is in flight");
            let (result, buffer) = context.take(ticket).expect("its completion is here");
            if advance(&mut files[index], result) {
                tickets[index] = read(&mut context, index, &mut files[index], buffer);
            }
        }
    }
    Ok(())
}
