//! A thread with an event loop, which makes a wait when it is asked to.

use laio_stalls::{Cause, Entry, Key, Report, Watch, WatchOptions};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::read_to_string;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a known wait lasts at least, after the thread was seen blocked.
const KNOWN: Duration = Duration::from_millis(200);

type Job = Box<dyn FnOnce() + Send>;

/// The thread.
pub(crate) struct LoopThread {
    name: String,
    pub(crate) tid: u32,
    jobs: Option<Sender<Job>>,
    done: Receiver<()>,
    wakeup: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl LoopThread {
    /// Starts it. Its name must be its own among all tests.
    pub(crate) fn start(name: &str) -> LoopThread {
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let (jobs, queue) = channel::<Job>();
        let (report, done) = channel();
        let (say, tid) = channel();
        let descriptor = wakeup.clone();
        let body = move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get() as u32)
                .unwrap();
            turn(&descriptor, &queue, &report);
        };
        let builder = std::thread::Builder::new().name(name.to_owned());
        LoopThread {
            name: name.to_owned(),
            thread: Some(builder.spawn(body).unwrap()),
            tid: tid.recv().unwrap(),
            jobs: Some(jobs),
            done,
            wakeup,
        }
    }

    /// Lets it make a wait, holds it for a known time, and releases it; the watch looks meanwhile.
    pub(crate) fn wait(
        &self,
        watch: &mut Watch,
        wait: impl FnOnce() + Send + 'static,
        release: impl FnOnce(),
    ) {
        self.idle(watch);
        self.jobs.as_ref().unwrap().send(Box::new(wait)).unwrap();
        self.wake();
        while self.is_idle() || !self.is_blocked() {
            watch.turn();
        }
        let begin = Instant::now();
        while begin.elapsed() < KNOWN {
            watch.turn();
        }
        release();
        while self.done.try_recv().is_err() {
            watch.turn();
        }
        self.idle(watch);
    }

    /// Looks until the watch has certainly seen the thread idle: it searches for threads twenty times a
    /// second.
    pub(crate) fn idle(&self, watch: &mut Watch) {
        while !self.is_idle() {
            watch.turn();
        }
        let is_found = |watch: &Watch| {
            let mut loops = watch.report().loops.iter();
            loops.any(|(name, _)| *name == self.name)
        };
        while !is_found(watch) {
            watch.turn();
        }
        watch.turn();
    }

    fn wake(&self) {
        rustix::io::write(&self.wakeup, &1u64.to_ne_bytes()).unwrap();
    }

    fn is_idle(&self) -> bool {
        let calls = ["232 ", "281 ", "22 ", "441 "];
        let file = format!("/proc/self/task/{}/syscall", self.tid);
        let position = read_to_string(file).unwrap();
        calls.iter().any(|call| position.starts_with(call))
    }

    fn is_blocked(&self) -> bool {
        let file = format!("/proc/self/task/{}/syscall", self.tid);
        !read_to_string(file).unwrap().starts_with("running")
    }

    /// The entries of this thread.
    pub(crate) fn entries<'a>(&self, report: &'a Report) -> Vec<&'a (Key, Entry)> {
        let entries = report.entries.iter();
        entries.filter(|(key, _)| key.thread == self.name).collect()
    }

    /// Checks that there is one wait of the known length, and no idle one. The length is right to two
    /// looks.
    pub(crate) fn check(&self, report: &Report, cause: Cause, calls: &[&str], subject: &str) {
        let entries = self.entries(report);
        let is_it = |key: &Key| {
            key.cause == cause && calls.contains(&key.call) && key.subject.contains(subject)
        };
        let gap = report.means.longest_gap * 2;
        let found = entries.iter().any(|(key, entry)| {
            is_it(key) && entry.longest + gap >= KNOWN && entry.longest <= report.lasted
        });
        assert!(found, "{cause:?} {calls:?} {subject}: {report:#?}");
        let mut calls = entries.iter().map(|(key, _)| key.call);
        assert!(
            !calls.any(|call| call.starts_with("epoll")),
            "idle: {report:#?}"
        );
    }
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        self.jobs = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// The event loop: waits for a wakeup, and does the job.
fn turn(wakeup: &OwnedFd, queue: &Receiver<Job>, report: &Sender<()>) {
    let events = epoll::create(CreateFlags::CLOEXEC).unwrap();
    epoll::add(&events, wakeup, EventData::new_u64(0), EventFlags::IN).unwrap();
    loop {
        let mut list = Vec::with_capacity(1);
        epoll::wait(&events, rustix::buffer::spare_capacity(&mut list), None).unwrap();
        rustix::io::read(wakeup, &mut [0; 8]).unwrap();
        let Ok(job) = queue.recv() else { return };
        job();
        let _ = report.send(());
    }
}

/// Begins to watch this process.
pub(crate) fn watch(with_perf: bool) -> Watch {
    let options = WatchOptions {
        over: Duration::from_millis(20),
        threads: Vec::new(),
        with_perf,
    };
    Watch::new(std::process::id(), options).unwrap()
}
