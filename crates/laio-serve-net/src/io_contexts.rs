//! The engine context for the calls of each step ([`IoStep`]): the worker's own, or an extra one
//! for another back end or for a class of calls with a limit.

use crate::buffers::ReceiveBuffers;
use laio::ops::Readiness;
use laio::walk::Walk;
use laio::{BackendKind, Operation};
use laio_rt::future::poll_once;
use laio_rt::sync::{Permit, Semaphore};
use laio_rt::{ContextId, Descriptor, Runtime, Submission};
use laio_serve_base::options::{IoStep, Limits, Options, Transfer};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// How a worker makes the system calls of each step ([`IoStep`]).
pub struct IoContexts {
    contexts: [ContextId; IoStep::ALL.len()],
    /// Limit the calls in flight for back ends where the number of helpers does not: io_uring and
    /// Linux AIO queue calls in the kernel, POSIX AIO has the library's threads, and activations
    /// have carriers.
    permits: [Option<Semaphore>; LimitedClass::ALL.len()],
    /// File reads bypass the page cache. The kernel's Linux AIO is asynchronous only for direct I/O.
    pub reads_directly: bool,
    /// A send must not occupy a helper while the client is slow, because the class has a limit on
    /// helpers.
    pub sends_by_readiness: bool,
    /// Calls block the thread, and with it all tasks of the worker.
    pub sync: bool,
    /// `openat2` is missing: names below a root are opened by [`Walk`]s.
    pub walks: Cell<bool>,
    /// The call that sends a file is missing: files are read and sent.
    pub cannot_transfer: Cell<bool>,
    /// Buffers for received bytes.
    pub receive_buffers: ReceiveBuffers,
}

impl IoContexts {
    /// Submits an operation to the context of its step.
    #[inline]
    pub fn submit<O: Operation>(&self, step: IoStep, operation: O) -> Submission<O> {
        laio_rt::submit_to(self.contexts[step as usize], operation)
    }

    /// Starts the threads in which this many calls wait for clients.
    async fn start_helpers(&self, calls: usize) -> io::Result<()> {
        let (reader, writer) = rustix::pipe::pipe()?;
        let reader = Descriptor::from(reader);
        let mut waiting = Vec::new();
        for _ in 0..calls {
            let mut call = self.submit(IoStep::Receive, Readiness::readable(reader.clone()));
            match poll_once(&mut call).await {
                Some(refused) => drop(refused?),
                None => waiting.push(call),
            }
        }
        // Only now, so that no thread is free for a second call.
        drop(writer);
        for call in waiting {
            call.await?;
        }
        Ok(())
    }

    /// Runs a walk in the context of a step.
    pub async fn walk(&self, step: IoStep, walk: Walk<Descriptor>) -> io::Result<OwnedFd> {
        laio_rt::walk_in(self.contexts[step as usize], walk).await
    }

    /// Whether one context makes the calls of both steps.
    pub fn are_same(&self, one: IoStep, other: IoStep) -> bool {
        self.contexts[one as usize] == self.contexts[other as usize]
    }

    /// Returns the time: that of the executor's turn, which is the cheapest, unless calls block the
    /// thread and a turn may take long.
    pub fn now(&self) -> Instant {
        if self.sync {
            Instant::now()
        } else {
            laio_rt::time::turn_time()
        }
    }

    /// Waits for a permit for a step, if its class has a limit.
    #[inline]
    pub async fn permit(&self, step: IoStep) -> Option<Permit> {
        let permits = self.permits[LimitedClass::for_step(step)? as usize].as_ref()?;
        Some(permits.acquire().await)
    }

    /// Returns the contexts of the worker, without duplicates.
    pub fn all(&self) -> Vec<ContextId> {
        let mut all = vec![ContextId::OWN];
        for context in self.contexts {
            if !all.contains(&context) {
                all.push(context);
            }
        }
        all
    }
}

/// The contexts that a worker needs. Checked before any context is created, so that errors name the
/// option.
pub struct ContextPlan {
    worker_backend: BackendKind,
    /// Contexts besides the worker's own.
    extra: Vec<ContextSpec>,
    /// The index in `extra` for each step; none means the worker's own context.
    extra_of_step: [Option<usize>; IoStep::ALL.len()],
    /// Each connection that waits for its client occupies a helper.
    waiting_clients_hold_helpers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContextSpec {
    kind: BackendKind,
    /// The class that uses this context alone, and how many of its calls may be in flight.
    limit: Option<(LimitedClass, u32)>,
}

/// The steps that share a limit on calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitedClass {
    Metadata,
    FileData,
    Send,
}

impl LimitedClass {
    const ALL: [LimitedClass; 3] = [
        LimitedClass::Metadata,
        LimitedClass::FileData,
        LimitedClass::Send,
    ];

    fn for_step(step: IoStep) -> Option<LimitedClass> {
        match step {
            IoStep::Accept | IoStep::Receive => None,
            IoStep::Open | IoStep::Stat => Some(LimitedClass::Metadata),
            IoStep::FileRead => Some(LimitedClass::FileData),
            IoStep::Send | IoStep::Sendfile => Some(LimitedClass::Send),
        }
    }

    fn name(self) -> &'static str {
        match self {
            LimitedClass::Metadata => "stat",
            LimitedClass::FileData => "read",
            LimitedClass::Send => "write",
        }
    }
}

impl ContextPlan {
    /// Chooses the contexts for these options.
    ///
    /// # Errors
    /// `InvalidInput`, with a hint, for options that cannot be combined.
    pub fn new(options: &Options, worker_backend: BackendKind) -> io::Result<ContextPlan> {
        check(options, worker_backend)?;
        let mut plan = ContextPlan {
            worker_backend,
            extra: Vec::new(),
            extra_of_step: [None; IoStep::ALL.len()],
            waiting_clients_hold_helpers: false,
        };
        for step in IoStep::ALL {
            let kind = kind(options, worker_backend, step);
            let class = LimitedClass::for_step(step);
            // `sync` calls finish at once, so a limit on calls in flight does not apply.
            let limited = kind != BackendKind::Sync;
            let limit = options.io.class_limits.of(step).filter(|_| limited);
            let spec = ContextSpec {
                kind,
                limit: class.zip(limit),
            };
            let waits_for_clients = matches!(step, IoStep::Accept | IoStep::Receive | IoStep::Send);
            plan.waiting_clients_hold_helpers |=
                kind == BackendKind::Threads && limit.is_none() && waits_for_clients;
            if kind == worker_backend && spec.limit.is_none() {
                continue;
            }
            let known = plan.extra.iter().position(|other| *other == spec);
            plan.extra_of_step[step as usize] = Some(known.unwrap_or_else(|| {
                plan.extra.push(spec);
                plan.extra.len() - 1
            }));
        }
        Ok(plan)
    }

    /// Returns the maximum number of connections of a worker.
    pub fn connections(&self, options: &Options) -> usize {
        let kind = if self.waiting_clients_hold_helpers {
            BackendKind::Threads
        } else {
            self.worker_backend
        };
        options.connections(kind)
    }

    /// Creates the contexts for the calling thread.
    ///
    /// # Errors
    /// Returns the errors of the back ends, with a hint.
    pub fn create(&self, options: &Options) -> io::Result<(Runtime, IoContexts)> {
        let own = ContextSpec {
            kind: self.worker_backend,
            limit: None,
        };
        let runtime =
            Runtime::new(self.engine_options(own, options)).map_err(|e| explain(own.kind, &e))?;
        let mut contexts = Vec::new();
        for &spec in &self.extra {
            let context = runtime.add_context(self.engine_options(spec, options));
            contexts.push(context.map_err(|error| explain(spec.kind, &error))?);
        }
        let extra_of = |step: IoStep| self.extra_of_step[step as usize];
        let reads = kind(options, self.worker_backend, IoStep::FileRead);
        let io_contexts = IoContexts {
            contexts: IoStep::ALL
                .map(|step| extra_of(step).map_or(ContextId::OWN, |spec| contexts[spec])),
            reads_directly: reads == BackendKind::LinuxAio,
            sends_by_readiness: extra_of(IoStep::Send)
                .is_some_and(|spec| self.extra[spec].limit.is_some()),
            permits: permits(options, self.worker_backend),
            sync: self.worker_backend == BackendKind::Sync,
            walks: Cell::new(false),
            cannot_transfer: Cell::new(false),
            receive_buffers: ReceiveBuffers::default(),
        };
        if options.io.transfer == Transfer::ZeroCopy {
            let kind = kind(options, self.worker_backend, IoStep::Send);
            check_zero_copy(&runtime, &io_contexts, kind)?;
        }
        Ok((runtime, io_contexts))
    }

    /// Starts the threads that a worker with this many sockets needs for its first client, if waiting for clients takes
    /// threads: without them it would answer nothing.
    ///
    /// # Errors
    /// Says that no thread can be started.
    pub fn start_helpers(
        &self,
        (runtime, contexts): &(Runtime, IoContexts),
        options: &Options,
        sockets: usize,
    ) -> io::Result<()> {
        if !self.waiting_clients_hold_helpers {
            return Ok(());
        }
        let calls = sockets + calls_of_a_client(options);
        let started = runtime.block_on(contexts.start_helpers(calls));
        started.map_err(|error| {
            let text = format!(
                "cannot start threads that wait for clients: {error}; the limit of threads may be reached \
                 (ulimit -u, pids.max of the control group), or memory is short; other back ends wait without threads"
            );
            io::Error::new(error.kind(), text)
        })
    }

    fn engine_options(&self, spec: ContextSpec, options: &Options) -> laio::Options {
        // A worker drops its rights and enters its sandbox before it creates contexts, so rights
        // are settled.
        // Without a thread for a call on a file, a slow response is better than none.
        let engine = laio::Options::new()
            .backend(spec.kind)
            .rights(laio::Rights::Settled)
            .call_without_threads(true);
        let mut kinds = self
            .extra
            .iter()
            .map(|spec| spec.kind)
            .chain([self.worker_backend]);
        let carried = kinds.any(|kind| kind == BackendKind::Activations);
        // A ring serves one kernel thread only, and a limit is enforced by the number of helpers.
        let engine = engine.ring(!carried && spec.limit.is_none());
        match spec.limit {
            // Calls beyond the limit queue for a helper.
            Some((_, limit)) => engine
                .helpers(limit)
                .waiting_helpers(limit)
                .back_pressure(laio::BackPressure::Wait),
            None if spec.kind == BackendKind::Threads => {
                let each = calls_of_a_client(options);
                let helpers = each * self.connections(options) + Limits::HELPERS_FOR_FILES;
                engine.helpers(helpers as u32)
            }
            // A call fails if no carrier is left.
            None if spec.kind == BackendKind::Activations => engine
                .carriers((self.connections(options) + Limits::HELPERS_FOR_FILES).min(4096) as u32),
            None => engine,
        }
    }
}

/// How many calls of one connection wait at the same time: one of HTTP/2 receives and sends.
fn calls_of_a_client(options: &Options) -> usize {
    if options.http2.is_some() { 2 } else { 1 }
}

/// Returns the back end of a step.
fn kind(options: &Options, worker_backend: BackendKind, step: IoStep) -> BackendKind {
    let from_memory = matches!(
        options.io.transfer,
        Transfer::ShmSendfile | Transfer::Splice
    );
    match options.io.policies.of(step) {
        Some(kind) => kind,
        // These transfers send from shared memory or a pipe to a non-blocking socket, which does
        // not block, so a back end would only add cost.
        None if step == IoStep::Sendfile
            && from_memory
            && worker_backend != BackendKind::Threads =>
        {
            BackendKind::Sync
        }
        None => worker_backend,
    }
}

fn check(options: &Options, worker_backend: BackendKind) -> io::Result<()> {
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let io = &options.io;
    if let Some(chunk) = io.chunk
        && !(Limits::CHUNK_MIN..=Limits::CHUNK_MAX).contains(&chunk)
    {
        let (least, most) = (Limits::CHUNK_MIN, Limits::CHUNK_MAX);
        return refuse(format!(
            "the chunk size must be from {least} to {most} bytes, not {chunk}"
        ));
    }
    let kinds = IoStep::ALL.map(|step| kind(options, worker_backend, step));
    for (step, kind) in IoStep::ALL.into_iter().zip(kinds) {
        let plain = kind == BackendKind::Sync;
        if worker_backend == BackendKind::Sync && !plain {
            return refuse(format!(
                "{step}={kind} cannot be combined with the back end sync, which blocks the worker; choose another \
                 back end, such as hybrid, and make the other operations sync"
            ));
        }
        if worker_backend != BackendKind::Sync
            && plain
            && matches!(step, IoStep::Accept | IoStep::Receive | IoStep::Send)
        {
            return refuse(format!(
                "{step}=sync would block all connections of a worker until one client acts; only sendfile can \
                 be sync by itself, the others only with the back end sync"
            ));
        }
    }
    if kinds.contains(&BackendKind::Activations) && kinds.contains(&BackendKind::Uring) {
        let text = "one worker cannot use both activations and uring: a ring serves one kernel thread only";
        return refuse(text.to_owned());
    }
    for class in LimitedClass::ALL {
        let mut steps = IoStep::ALL
            .into_iter()
            .zip(kinds)
            .filter(|(step, _)| LimitedClass::for_step(*step) == Some(class))
            .peekable();
        let limited = steps
            .peek()
            .is_some_and(|(step, _)| io.class_limits.of(*step).is_some());
        if limited && steps.all(|(_, kind)| kind == BackendKind::Sync) {
            let name = class.name();
            return refuse(format!(
                "a limit of {name} threads has no effect where these operations are sync; choose a \
                 policy for them, such as hybrid"
            ));
        }
    }
    if io.transfer == Transfer::ZeroCopy && io.class_limits.write.is_some() {
        let text = "the transfer zerocopy sends through io_uring, which a limit of write threads does not \
                    affect; choose another transfer, such as buffer, or remove the limit";
        return refuse(text.to_owned());
    }
    Ok(())
}

/// Fails if the context of [`IoStep::Send`] cannot send without a copy.
fn check_zero_copy(
    runtime: &Runtime,
    io_contexts: &IoContexts,
    kind: BackendKind,
) -> io::Result<()> {
    let context = io_contexts.contexts[IoStep::Send as usize];
    let capable = laio::Context::sends_without_copy;
    let capable = runtime.block_on(async { laio_rt::with_context_of(context, |it| capable(it)) });
    if capable {
        return Ok(());
    }
    let text = format!(
        "the transfer zerocopy needs io_uring with Linux 6.0 or later, which write={kind} does not use or cannot use \
         here: choose write=uring or write=lazy, or another transfer; see `laio info`"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

fn explain(kind: BackendKind, error: &io::Error) -> io::Error {
    let hint = match kind {
        BackendKind::Uring => "; io_uring may be missing or forbidden here, see `laio info`",
        kind if !kind.is_built() => {
            "; it exists on x86-64 with glibc only, choose another back end"
        }
        BackendKind::Activations => "; a kernel feature may be missing here, see `laio info`",
        _ => "",
    };
    let text = format!("cannot set up the back end {kind}: {error}{hint}");
    io::Error::new(error.kind(), text)
}

fn permits(
    options: &Options,
    worker_backend: BackendKind,
) -> [Option<Semaphore>; LimitedClass::ALL.len()] {
    let mut permits = [const { None }; LimitedClass::ALL.len()];
    for step in IoStep::ALL {
        let needs_permits = matches!(
            kind(options, worker_backend, step),
            BackendKind::Uring
                | BackendKind::LinuxAio
                | BackendKind::PosixAio
                | BackendKind::Activations
        );
        if let Some(class) = LimitedClass::for_step(step).filter(|_| needs_permits)
            && let Some(limit) = options.io.class_limits.of(step)
        {
            permits[class as usize] = Some(Semaphore::new(limit as usize));
        }
    }
    permits
}
