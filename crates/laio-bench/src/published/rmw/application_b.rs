//! Application B: threads compute, and pass reads and writes to one I/O thread, which issues them
//! asynchronously.

use super::Done;
use super::application_a::{read, write};
use super::blocks::{BlockBuffer, Blocks};
use crate::content::Random;
use laio::Options;
use laio::measure::Usage;
use laio_rt::fs::File;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A request for a block, or its result.
struct Request {
    client: usize,
    number: usize,
    buffer: BlockBuffer,
    write: bool,
}

/// The queue of requests to the I/O thread.
#[derive(Default)]
struct Inbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    /// The number of threads that may still send requests.
    open: usize,
    waker: Option<Waker>,
}

impl Inbox {
    fn change(&self, action: impl FnOnce(&mut Waiting)) {
        let waker = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            action(&mut waiting);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all requests; returns `None` when all senders have ended.
    fn take(&self, context: &mut Context<'_>) -> Poll<VecDeque<Request>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.requests.is_empty() && waiting.open > 0 {
            waiting.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut waiting.requests))
    }
}

/// Counts a sender as ended when dropped, also by a panic.
struct Open(Arc<Inbox>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|waiting| waiting.open -= 1);
    }
}

/// The channels on which each thread gets its clients' blocks back.
type Outboxes = Rc<Vec<Sender<io::Result<Request>>>>;

pub(super) fn through(
    blocks: &Blocks,
    options: Options,
    clients: usize,
    processors: usize,
    until: Instant,
) -> io::Result<Done> {
    let runtime = laio_rt::Runtime::new(options)?;
    let inbox = Arc::new(Inbox::default());
    let computing = processors.min(clients);
    inbox.change(|waiting| waiting.open = computing);
    let (outboxes, back): (Vec<_>, Vec<_>) = (0..computing).map(|_| channel()).unzip();
    std::thread::scope(|scope| {
        let threads: Vec<_> = back
            .into_iter()
            .enumerate()
            .map(|(thread, back)| {
                let open = Open(inbox.clone());
                let own = (thread..clients).step_by(computing);
                scope.spawn(move || compute(blocks, own, clients, &open, &back, until))
            })
            .collect();
        let served = runtime.block_on(serve(blocks, &inbox, Rc::new(outboxes)));
        let mut done = Done {
            iterations: 0,
            besides: Usage::default(),
        };
        for thread in threads {
            let (iterations, used) = thread.join().expect("threads do not panic")?;
            done.iterations += iterations;
            done.besides.processor += used.processor;
            done.besides.waits += used.waits;
            done.besides.preemptions += used.preemptions;
        }
        served.map(|()| done)
    })
}

/// The I/O thread: starts each request at once.
async fn serve(blocks: &Blocks, inbox: &Inbox, outboxes: Outboxes) -> io::Result<()> {
    let options = File::options().read(true).write(true);
    let file = options
        .custom_flags(Blocks::flags())
        .open(blocks.path())
        .await?;
    let file = Rc::new(file);
    loop {
        let requests = poll_fn(|context| inbox.take(context)).await;
        if requests.is_empty() {
            return Ok(());
        }
        for request in requests {
            let (file, outboxes) = (file.clone(), outboxes.clone());
            laio_rt::spawn(async move {
                let client = request.client;
                let result = perform(&file, request).await;
                // A thread that has failed does not receive it.
                let _ = outboxes[client % outboxes.len()].send(result);
            })
            .detach();
        }
    }
}

async fn perform(file: &File, mut request: Request) -> io::Result<Request> {
    request.buffer = if request.write {
        write(file, request.buffer, request.number).await?
    } else {
        read(file, request.buffer, request.number).await?
    };
    Ok(request)
}

/// A computing thread: it modifies its clients' blocks when they return, and sends them to be written, until
/// the time is over.
fn compute(
    blocks: &Blocks,
    own: impl Iterator<Item = usize>,
    clients: usize,
    inbox: &Open,
    back: &Receiver<io::Result<Request>>,
    until: Instant,
) -> io::Result<(u64, Usage)> {
    let before = Usage::of_thread();
    let mut random = Random::new(clients as u64);
    let pass = |request| {
        inbox
            .0
            .change(|waiting| waiting.requests.push_back(request))
    };
    let mut begin = |client, buffer| Request {
        client,
        number: blocks.draw(&mut random, client, clients),
        buffer,
        write: false,
    };
    let mut under_way = 0;
    for client in own {
        pass(begin(client, BlockBuffer::new()));
        under_way += 1;
    }
    let mut iterations = 0;
    while under_way > 0 {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let mut request = back.recv().map_err(gone)??;
        if !request.write {
            blocks.modify(request.number, request.buffer.block())?;
            request.write = true;
            pass(request);
            continue;
        }
        blocks.written(request.number);
        iterations += 1;
        if Instant::now() < until {
            pass(begin(request.client, request.buffer))
        } else {
            under_way -= 1
        }
    }
    Ok((iterations, Usage::of_thread().since(&before)))
}
