//! `laio bench activations`: the cost of the back end for calls that do not block, how long a blocking call
//! delays its caller, and how often a preempted caller is mistaken for a blocked one.

use crate::Error;
use crate::calls::{self, CallVariant, Row};
use crate::error::While;
use crate::machine::Machine;
use crate::pin::Pinned;
use crate::text::columns;
use laio::measure::{BlockingReads, Held, Inline, Subject, Via};
use laio::{BackendKind, Context, Detector, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug)]
pub struct Settings {
    /// The measuring time of each line.
    pub time: Duration,
}

/// The number of calls in flight at once.
const OUTSTANDING: [usize; 3] = [1, 10, 100];
/// The calls that do not block.
const INLINE: [&str; 4] = ["getpid", "pread4k", "stat", "pwrite4k"];

/// The back ends that are compared for calls that block.
fn strategies() -> Vec<(&'static str, Options)> {
    let carried = |detector| {
        let options = settled(BackendKind::Activations);
        options.carry_streams(true).detector(detector).carriers(512)
    };
    vec![
        ("activations, perf", carried(Detector::Perf)),
        ("activations, idle", carried(Detector::Idle)),
        ("threads", settled(BackendKind::Threads).helpers(128)),
        ("uring", settled(BackendKind::Uring)),
        ("lazy", settled(BackendKind::Lazy)),
    ]
}

/// Measurements do not change their rights.
fn settled(kind: BackendKind) -> Options {
    Options::new().backend(kind).rights(laio::Rights::Settled)
}

/// Measures, and returns the results as tables.
///
/// # Errors
/// If pipes, files or threads cannot be created. A back end that this machine does not support is
/// left out, and a note says so.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<String, Error> {
    let here =
        crate::info::probe::Directory::probe(&std::env::temp_dir()).doing("looking around")?;
    let mut text = format!("{}\n\n", Machine::for_directory(&here).line());
    text.push_str("Calls that do not block: nanoseconds, and the ratio to the plain call\n");
    text.push_str(&inline(settings, progress)?);
    for (title, pinned, busy) in [
        ("Calls that block, microseconds", false, false),
        ("The same on one processor", true, false),
        ("The same with a busy thread", true, true),
    ] {
        text.push_str(&format!("\n{title}\n"));
        text.push_str(&handoffs(settings, pinned, busy, progress)?);
    }
    text.push_str("\nReads from the page cache with a busy thread on the same processor\n");
    text.push_str(&false_alarms(settings, progress)?);
    Ok(text)
}

fn inline(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<String, Error> {
    let rows = Row::all().filter(|row| INLINE.contains(&row.name));
    let settings = calls::Settings {
        rows: rows.collect(),
        variants: vec![
            CallVariant::Backend(BackendKind::Activations),
            CallVariant::Backend(BackendKind::Lazy),
        ],
        time: settings.time,
        ..calls::Settings::default()
    };
    Ok(calls::run(&settings, progress)?.table())
}

fn handoffs(
    settings: &Settings,
    pinned: bool,
    busy: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<String, Error> {
    let _pinned = pinned.then(Pinned::here).flatten();
    let _neighbour = busy.then(Neighbour::new);
    let head = ["way", "in flight", "held up p50", "p99", "whole p50", "p99"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (name, options) in strategies() {
        for outstanding in OUTSTANDING {
            progress(&format!("{name}, {outstanding} in flight"));
            let cells = match measure(&options, outstanding, settings.time) {
                Ok(held) => numbers(held),
                Err(errno) => vec![errno.to_string()],
            };
            let mut line = vec![name.to_owned(), outstanding.to_string()];
            line.extend(cells);
            line.resize(head.len(), String::new());
            lines.push(line);
        }
    }
    Ok(columns(&[0], &lines))
}

fn measure(options: &Options, outstanding: usize, time: Duration) -> Result<Held, laio::Errno> {
    let mut context = Context::new(options.clone())?;
    let mut reads = BlockingReads::new(outstanding)?;
    // The first rounds start threads.
    for _ in 0..3 {
        reads.run(&mut context, &mut Held::default())?;
    }
    let mut held = Held::default();
    let begin = Instant::now();
    while begin.elapsed() < time {
        reads.run(&mut context, &mut held)?;
    }
    Ok(held)
}

fn numbers(held: Held) -> Vec<String> {
    let part = |sorted: &[u64], part: f64| {
        let at = (sorted.len() - 1) as f64 * part;
        format!("{:.1}", sorted[at as usize] as f64 / 1000.0)
    };
    let mut cells = Vec::new();
    for mut times in [held.starts, held.whole] {
        times.sort_unstable();
        cells.extend([part(&times, 0.5), part(&times, 0.99)]);
    }
    cells
}

/// Measures how often the program is taken from a thread that was only preempted.
fn false_alarms(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<String, Error> {
    let _pinned = Pinned::here();
    let _neighbour = Neighbour::new();
    let head = ["way", "calls/s", "hand-offs/s", "false wakeups/s"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (name, options) in strategies().into_iter().take(2) {
        progress(&format!("{name}, with a busy thread"));
        let file = tempfile::tempfile().doing("making a file")?;
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 0).doing("writing a file")?;
        let Ok(mut context) = Context::new(options) else {
            continue;
        };
        let before = context.stats();
        let mut reads = Inline::read_file(file.into(), 4096);
        let (begin, mut made) = (Instant::now(), 0);
        while begin.elapsed() < settings.time {
            let count = 1_000;
            reads
                .run(&mut Via::Context(&mut context), count)
                .doing("reading a file")?;
            made += count;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let stats = context.stats();
        let rate = |number: u64| format!("{:.1}", number as f64 / seconds);
        lines.push(vec![
            name.to_owned(),
            format!("{:.0}", made as f64 / seconds),
            rate(stats.handoffs - before.handoffs),
            rate(stats.false_wakeups - before.false_wakeups),
        ]);
    }
    Ok(columns(&[0], &lines))
}

/// A thread that computes until it is dropped, on the same processors as the thread that started it.
struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Neighbour {
    fn new() -> Neighbour {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        Neighbour {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
