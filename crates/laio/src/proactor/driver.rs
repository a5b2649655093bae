//! A driver: a thread with a context of its own, which finishes operations that other threads have
//! attempted.

use super::helper_pool::HelperPool;
use super::inbox::{Inbox, Message, Rest, Watched};
use super::task::{AnyTask, Duty};
use crate::attempt::Blocked;
use crate::background::UnansweredCalls;
use crate::rights::{self, ReportedRights, has_entered_no_domain, has_filters};
use crate::sys::thread::Thread;
use crate::ticket::Ticket;
use crate::{BackPressure, Context, Errno, Handle, Limits, Options, Outcome, PollOptions, Rights};
use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A driver, as other threads see it.
pub(super) struct Driver {
    inbox: Arc<Inbox>,
    pub(super) helpers: Arc<HelperPool>,
    /// The rights that the thread that started it had then, and that it has.
    pub(super) rights: Option<ReportedRights>,
    pub(super) filtered: bool,
    /// Whether the thread that started it is known to have entered no Landlock domain before.
    pub(super) without_domain: bool,
    pub(super) thread: u32,
    pub(super) has_ring: bool,
    pub(super) sends_without_copy: bool,
    pub(super) unanswered: UnansweredCalls,
}

impl Driver {
    /// Starts a driver with the rights of the calling thread, and waits until it has its context.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of threads; those of [`Context::new`].
    pub(super) fn start(options: &Options) -> Result<Arc<Driver>, Errno> {
        let filtered = has_filters();
        let rights = ReportedRights::of_this_thread();
        let without_domain = rights.as_ref().is_some_and(has_entered_no_domain);
        let inbox = Arc::new(Inbox::new());
        // The ring would take calls that filters forbid. The driver's own thread does not change its
        // rights, and callers compare theirs with them.
        let settled = options.whose_rights() == Rights::Settled;
        let own = match options.whose_rights() {
            Rights::Process => Rights::Process,
            Rights::Thread | Rights::Settled => Rights::Settled,
        };
        let options = options
            .clone()
            .ring(!options.no_ring && (!filtered || settled))
            .rights(own)
            .back_pressure(BackPressure::Wait);
        let helpers = Arc::new(HelperPool::new(&options, inbox.clone()));
        let (report, reported) = mpsc::channel();
        let (own, own_helpers) = (inbox.clone(), helpers.clone());
        let body = move || match Context::new(options) {
            Ok(mut context) => {
                own.set_notifier(context.notifier());
                let features = (context.has_ring(), context.sends_without_copy());
                let unanswered = context.background.unanswered_calls();
                let _ = report.send(Ok((rights::thread_id(), features, unanswered)));
                drop(report);
                run(&own, &own_helpers, context);
            }
            Err(errno) => drop(report.send(Err(errno))),
        };
        Thread::start_with_program_code(c"laio-driver", body)?;
        let (thread, (has_ring, sends_without_copy), unanswered) =
            reported.recv().unwrap_or(Err(Errno::AGAIN))?;
        Ok(Arc::new(Driver {
            inbox,
            helpers,
            rights,
            filtered,
            without_domain,
            thread,
            has_ring,
            sends_without_copy,
            unanswered,
        }))
    }

    /// Hands operations over, which wakes the driver at most once.
    pub(super) fn submit(&self, operations: impl IntoIterator<Item = (Duty, Rest)>) {
        self.helpers.pass_to_driver(operations);
    }

    /// Cancels an operation that was handed over before.
    pub(super) fn cancel(&self, task: Arc<dyn AnyTask>) {
        if !self.helpers.cancel(&task) {
            self.inbox.push([Message::Cancel(task)]);
        }
    }

    /// Lets the driver end when nothing is in flight. No operation is handed over afterwards.
    pub(super) fn finish(&self) {
        self.inbox.push([Message::Finish]);
    }

    /// Makes the driver cancel what is in flight, and end.
    pub(super) fn stop(&self) {
        self.inbox.push([Message::Stop]);
    }

    /// Waits until the driver and its helpers have ended. Returns false if `timeout` has passed before.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> bool {
        let end = Instant::now().checked_add(timeout);
        let left = || end.map_or(timeout, |end| end.saturating_duration_since(Instant::now()));
        self.inbox.wait_for_end(timeout) && self.helpers.wait_for_end(left())
    }
}

/// The loop of a driver.
fn run(inbox: &Inbox, helpers: &Arc<HelperPool>, mut context: Context) {
    let most = context.limits.operations.max(1) as usize;
    let mut backlog = VecDeque::new();
    let mut finished: Vec<Handle> = Vec::new();
    let mut watched: Vec<Arc<dyn Watched>> = Vec::new();
    let mut looked = Instant::now();
    let mut finishing = false;
    'running: loop {
        for message in inbox.take_all() {
            match message {
                Message::Start(duty, rest) => backlog.push_back((duty, rest)),
                Message::Cancel(task) => cancel(&mut context, &mut backlog, &task),
                Message::StartHelper(member) => helpers.start_helper(member),
                Message::Watch(watch) => watched.push(watch.accept()),
                Message::Finish => {
                    finishing = true;
                    helpers.finish();
                }
                Message::Stop => break 'running,
            }
        }
        begin(&mut context, &mut backlog, most);
        // A helper may pass operations on that waited for its call.
        let is_idle = context.pending() == 0 && backlog.is_empty() && watched.is_empty();
        if finishing && is_idle && helpers.is_empty() {
            break;
        }
        let looks = !watched.is_empty() || finishing && !helpers.is_empty();
        let until = PollOptions {
            timeout: looks.then_some(Limits::LOOP_RING_TICK),
            ..PollOptions::default()
        };
        let polled = context.poll_with(until, |completion| {
            finished.push(completion.handle);
        });
        if !watched.is_empty() && looked.elapsed() >= Limits::LOOP_RING_TICK {
            watched.retain(|one| one.look());
            looked = Instant::now();
        }
        if polled.is_err() {
            // The program has closed a descriptor of the engine's, or a filter forbids to wait. The
            // kernel still uses the operations' memory.
            std::thread::sleep(RETRY);
        }
        for handle in finished.drain(..) {
            let ticket = Ticket::<Duty>::new(handle, &context.dropped);
            let _ = context.take(ticket);
        }
    }
    watched.iter().for_each(|one| one.stop());
    helpers.stop();
    // Operations that have not begun first: those in flight may take long to cancel.
    drop(backlog);
    drop(context);
    inbox.end();
}

/// How long a driver that cannot wait for its context pauses before it tries again.
const RETRY: Duration = Duration::from_millis(10);

/// Starts operations of the backlog, up to the limit of the context.
fn begin(context: &mut Context, backlog: &mut VecDeque<(Duty, Rest)>, most: usize) {
    while context.pending() < most
        && let Some((duty, rest)) = backlog.pop_front()
    {
        let Rest {
            done,
            why,
            provisional,
        } = rest;
        let blocked = Blocked {
            done,
            provisional,
            ..Blocked::because(why)
        };
        let task = duty.task().clone();
        if let Outcome::Pending(ticket) = context.submit_attempted(duty, blocked) {
            task.core().set_handle(ticket.into_handle());
        }
    }
}

fn cancel(context: &mut Context, backlog: &mut VecDeque<(Duty, Rest)>, task: &Arc<dyn AnyTask>) {
    match task.core().handle() {
        Some(handle) => context.abandon(Ticket::<Duty>::new(handle, &context.dropped)),
        None => backlog.retain(|(duty, _)| !duty.is_for(task)),
    }
}
