//! Application A: clients are tasks of one thread, which needs asynchronous I/O. For comparison, a thread for
//! each client.

use super::Done;
use super::blocks::{BLOCK, BlockBuffer, Blocks};
use crate::content::Random;
use laio::Options;
use laio::measure::Usage;
use laio::ops::{Limit, Part};
use laio_rt::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

pub(super) fn through(
    blocks: &Blocks,
    options: Options,
    clients: usize,
    until: Instant,
) -> io::Result<Done> {
    let runtime = laio_rt::Runtime::new(options)?;
    let iterations = runtime.block_on(async {
        let options = File::options().read(true).write(true);
        let file = options
            .custom_flags(Blocks::flags())
            .open(blocks.path())
            .await?;
        let file = Rc::new(file);
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                laio_rt::spawn(client(blocks.clone(), file.clone(), number, clients, until))
            })
            .collect();
        let mut iterations = 0;
        for task in tasks {
            iterations += task.await.expect("tasks do not panic")?;
        }
        Ok::<u64, io::Error>(iterations)
    })?;
    Ok(Done {
        iterations,
        besides: Usage::default(),
    })
}

async fn client(
    blocks: Blocks,
    file: Rc<File>,
    client: usize,
    clients: usize,
    until: Instant,
) -> io::Result<u64> {
    let mut random = Random::new(client as u64 + 1);
    let mut buffer = BlockBuffer::new();
    let mut iterations = 0;
    while Instant::now() < until {
        let number = blocks.draw(&mut random, client, clients);
        buffer = read(&file, buffer, number).await?;
        blocks.modify(number, buffer.block())?;
        buffer = write(&file, buffer, number).await?;
        blocks.written(number);
        iterations += 1;
    }
    Ok(iterations)
}

pub(super) async fn read(
    file: &File,
    buffer: BlockBuffer,
    number: usize,
) -> io::Result<BlockBuffer> {
    let BlockBuffer { memory, start } = buffer.emptied();
    let limit = Limit::new(memory, BLOCK);
    let (count, limit) = file.read_at(limit, (number * BLOCK) as u64).await;
    match count? {
        BLOCK => Ok(BlockBuffer {
            memory: limit.into_inner(),
            start,
        }),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) async fn write(
    file: &File,
    buffer: BlockBuffer,
    number: usize,
) -> io::Result<BlockBuffer> {
    let BlockBuffer { memory, start } = buffer;
    let part = Part::new(memory, start..);
    let (written, part) = file.write_all_at(part, (number * BLOCK) as u64).await;
    written?;
    Ok(BlockBuffer {
        memory: part.into_inner(),
        start,
    })
}

/// Runs a thread for each client, with plain calls.
pub(super) fn plainly(blocks: &Blocks, clients: usize, until: Instant) -> io::Result<Done> {
    let file = blocks.open()?;
    let iterations = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let file = &file;
                scope.spawn(move || plain_client(blocks, file, client, clients, until))
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("threads do not panic"));
        ended.sum::<io::Result<u64>>()
    })?;
    Ok(Done {
        iterations,
        besides: Usage::default(),
    })
}

fn plain_client(
    blocks: &Blocks,
    file: &std::fs::File,
    client: usize,
    clients: usize,
    until: Instant,
) -> io::Result<u64> {
    let mut random = Random::new(client as u64 + 1);
    let mut buffer = BlockBuffer::new().filled();
    let mut iterations = 0;
    while Instant::now() < until {
        let number = blocks.draw(&mut random, client, clients);
        let place = (number * BLOCK) as u64;
        file.read_exact_at(buffer.block(), place)?;
        blocks.modify(number, buffer.block())?;
        file.write_all_at(buffer.block(), place)?;
        blocks.written(number);
        iterations += 1;
    }
    Ok(iterations)
}
