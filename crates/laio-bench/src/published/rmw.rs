//! `laio bench rmw`: figures 3 to 6 of "Comparative analysis of asynchronous I/O in multithreaded UNIX" (Yoo, 1995).
//!
//! Clients read a block at a random offset of a file, modify it, and write it back, with `O_DIRECT`. In
//! application A they are tasks of one thread. In application B one thread per processor computes, and passes
//! reads and writes to an I/O thread. Each client has blocks of its own, and checks each block that it reads:
//! a block contains the number of times it has been written.

mod application_a;
mod application_b;
mod blocks;
mod fio;

use super::run::Run;
use crate::error::Error;
use crate::pin;
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::strategy::Strategy;
use blocks::Blocks;
use fio::Fio;
use laio::measure::Usage;
use std::time::{Duration, Instant};

/// The numbers of clients of each application.
const CLIENTS: [usize; 4] = [1, 10, 30, 100];
const FILE: f64 = 1024.0;

/// The applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    A,
    B,
}

/// The subject that runs an application.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Strategy(Strategy),
    Fio(Fio),
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::Strategy(strategy) => strategy.name(),
            Subject::Fio(fio) => fio.name,
        }
    }
}

/// Returns the name of an application on this many processors.
fn workload(application: Application, processors: usize) -> String {
    let plural = if processors == 1 { "" } else { "s" };
    format!("{application:?}, {processors} processor{plural}")
}

/// Returns the numbers of processors: one, two, and all.
fn processors() -> Vec<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut numbers = vec![1, 2, 4, 8, 16, all];
    numbers.retain(|number| *number <= all);
    numbers.dedup();
    numbers
}

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let (settings, stop) = (run.settings, run.stop);
    let time = Duration::from_secs_f64(if settings.quick { 0.4 } else { 3.0 });
    let mib = (FILE * settings.scale(0.0625)).max(4.0) as u64;
    run.set("file", format!("{mib} MiB, blocks of 4 KiB, O_DIRECT"));
    run.set("each turn", format!("{} s", time.as_secs_f64()));
    run.progress("making the file");
    let blocks = Blocks::make(&run.directory().join("blocks"), mib << 20)?;
    let fio_file = run.directory().join("fio");
    let fios = fio::usable(settings, &fio_file, mib << 20, &mut run.record)?;
    for application in [Application::A, Application::B] {
        let mut who: Vec<Subject> = Strategy::ALL
            .into_iter()
            // This workload opens no names, and has threads of its own.
            .filter(|strategy| !matches!(strategy, Strategy::Trusting | Strategy::TwoThreads))
            .filter(|strategy| settings.takes(strategy.name()))
            .map(Subject::Strategy)
            .collect();
        match application {
            Application::A => who.extend(fios.iter().copied().map(Subject::Fio)),
            // A subject with a thread for each client needs no I/O thread.
            Application::B => who.retain(|who| !matches!(who, Subject::Strategy(Strategy::Plain))),
        }
        for processors in processors() {
            let all: Vec<(usize, Subject)> = settings
                .at(&CLIENTS)
                .into_iter()
                .flat_map(|clients| who.iter().map(move |who| (clients, *who)))
                .collect();
            let subjects: Vec<_> = all
                .iter()
                .map(|(clients, who)| (Some(*clients), who.name()))
                .collect();
            let workload = workload(application, processors);
            run.measure(&workload, Cache::Cold, &subjects, &mut |index| {
                let (clients, who) = all[index];
                match who {
                    Subject::Strategy(strategy) => {
                        let turn = Turn {
                            application,
                            strategy,
                            clients,
                            processors,
                            time,
                        };
                        turn.take(&blocks)
                    }
                    Subject::Fio(fio) => fio.turn(&fio_file, clients, processors, time, stop),
                }
            })?;
        }
    }
    Ok(())
}

/// One turn of a subject.
struct Turn {
    application: Application,
    strategy: Strategy,
    clients: usize,
    processors: usize,
    time: Duration,
}

/// The result of a turn.
struct Done {
    iterations: u64,
    /// The usage of the clients' threads, which does not belong to the subject.
    besides: Usage,
}

impl Turn {
    fn take(&self, blocks: &Blocks) -> Outcome {
        let (usage, begin) = (Usage::of_process(), Instant::now());
        // In a thread of its own, whose threads inherit its processors.
        let done = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin::to_first(self.processors).map_err(std::io::Error::from)?;
                let until = Instant::now() + self.time;
                match (self.application, self.strategy.options(self.clients)) {
                    (Application::A, None) => application_a::plainly(blocks, self.clients, until),
                    (Application::A, Some(options)) => {
                        application_a::through(blocks, options, self.clients, until)
                    }
                    (Application::B, None) => Err(std::io::ErrorKind::Unsupported.into()),
                    (Application::B, Some(options)) => application_b::through(
                        blocks,
                        options,
                        self.clients,
                        self.processors,
                        until,
                    ),
                }
            });
            thread.join()
        });
        let (wall, used) = (begin.elapsed(), Usage::of_process().since(&usage));
        let done = done.map_err(|_| "it panicked".to_owned())?;
        let done = done.map_err(|error| error.to_string())?;
        if done.iterations == 0 {
            return Err("nothing was done in time".to_owned());
        }
        let iterations = done.iterations as f64;
        let own = used.since(&done.besides);
        Ok(vec![
            ("rate", iterations / wall.as_secs_f64()),
            ("switches", own.switches() as f64 / iterations),
            ("cpu_us", own.processor.as_secs_f64() * 1e6 / iterations),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::published::{Comparison, Settings};
    use crate::record::{Cache, Case};
    use crate::stop::Stop;

    #[test]
    fn every_way_writes_back_what_it_has_read() {
        let settings = Settings {
            quick: true,
            scale: Some(0.004),
            rounds: Some(1),
            at: vec![3],
            ..Settings::default()
        };
        let comparison = Comparison::named("rmw").unwrap();
        let record = comparison
            .run(&settings, &Stop::new(), &mut |_| {})
            .unwrap();
        for cell in &record.cells {
            // A strategy that this machine does not support is left out; all results are correct.
            let reason = cell.left_out.as_deref().unwrap_or_default();
            assert!(!reason.contains("not as it was written"), "{cell:?}");
        }
        for name in ["lazy", "threads", "hybrid"] {
            for workload in ["A, 1 processor", "B, 1 processor"] {
                let case = Case::new(workload, Cache::Cold).at(3);
                let rate = record.median(&case, name, "rate");
                assert!(rate.is_some(), "{name}, {workload}");
            }
        }
        let sheet = comparison.show(&record);
        assert!(sheet.findings.len() >= 5 && sheet.pictures.len() >= 4);
    }
}
