//! Another process renames directories while they are copied: no file outside of the destination
//! may be written, removed or changed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use laio_testing::Skip;
use libtest_mimic::Trial;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::case::case;
use crate::compare::fresh;
use crate::programs::Side;
use crate::run::{self, LIMIT};
use crate::world::World;

use super::faulty_fs::{names, trial};

/// Copies while two directories swap their names all the time.
const ROUNDS: usize = 4;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("races::a destination directory and a link", || race("")),
        trial("races::the same with few descriptors", || {
            race("ulimit -n 24")
        }),
        trial("races::a source directory and a link", source_race),
    ]
}

/// Swaps two names in a loop, until it is dropped.
struct Exchange {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<u64>>,
}

impl Exchange {
    /// Returns after the first swap: on a busy machine the copy could end before it.
    fn start(one: &Path, other: &Path) -> Exchange {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (started, waits) = std::sync::mpsc::channel();
        let names = [one, other].map(|name| CString::new(name.as_os_str().as_encoded_bytes()));
        let [one, other] = names.map(|name| name.expect("no zero byte"));
        let thread = thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                // One of the two may not exist at this moment.
                let exchanged = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
                count += u64::from(exchanged.is_ok());
                if count == 1 {
                    let _ = started.send(());
                }
                // Keep other users out of the directory.
                thread::sleep(Duration::from_micros(50));
            }
            count
        });
        waits.recv().expect("the thread runs until it is stopped");
        Exchange {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("stopped once");
        thread.join().expect("it does not panic")
    }
}

/// A wide and deep tree, and files that must not be touched.
const LINES: &str = "many s/t/many 300; deep s/t/deep 40 10; many s/t/u/more 100; file s/t/u/f 70000; \
    dir d/s/t/u; dir d/s/t/deep; dir outside/u; dir outside/many; dir outside/deep; file outside/secret =secret; \
    mode 711 outside; mode 711 outside/u; time 1000 outside/secret";

fn race(before: &str) -> Result<(), Skip> {
    let mut exchanged = 0;
    for round in 0..ROUNDS {
        let world = World::make(&fresh(Side::Ours), LINES, false)?;
        let outside = world.root.join("outside");
        // The target of the link, where a copy that followed it would write.
        let untouched = state(&outside);
        let place = world
            .root
            .join(["d/s/t", "d/s/t/u", "d/s/t/deep", "d/s"][round % 4]);
        let link = world.root.join("link");
        symlink(&outside, &link).expect("a link");
        let exchange = Exchange::start(&place, &link);
        let case = case("", "", "-a --jobs=4 s d");
        let case = if before.is_empty() {
            case
        } else {
            case.after(before)
        };
        let child = run::start(&mut run::command(&case, Side::Ours, &world.root), b"");
        let ran = run::finish(child, LIMIT);
        exchanged += exchange.stop();
        assert_eq!(state(&outside), untouched, "{ran:?}");
        assert!(ran.status.starts_with("exit status"), "{ran:?}");
        assert_eq!(
            ran.status == "exit status 1",
            !ran.stderr.is_empty(),
            "{ran:?}"
        );
    }
    assert!(exchanged > 0, "something happened meanwhile");
    Ok(())
}

/// A symbolic link in the place of a source directory is not followed, and its target is not
/// copied.
fn source_race() -> Result<(), Skip> {
    for _ in 0..ROUNDS {
        let world = World::make(&fresh(Side::Ours), LINES, false)?;
        let link = world.root.join("link");
        symlink(world.root.join("outside"), &link).expect("a link");
        let exchange = Exchange::start(&world.root.join("s/t/u"), &link);
        let command = run::command(&case("", "", "-a --jobs=4 s new"), Side::Ours, &world.root);
        let ran = run::finish(run::start(&mut { command }, b""), LIMIT);
        exchange.stop();
        assert!(ran.status.starts_with("exit status"), "{ran:?}");
        let copy = world.root.join("new/t/u");
        // The entry is the directory, the link, or was refused.
        if fs::symlink_metadata(&copy).is_ok_and(|copy| copy.is_dir()) {
            assert!(!copy.join("secret").exists(), "{ran:?}");
        }
    }
    Ok(())
}

/// Names, modes, times and contents below a directory that must not change.
fn state(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut lines = vec![];
    let mut describe = |path: &Path| -> io::Result<()> {
        let status = fs::symlink_metadata(path)?;
        let contents = fs::read(path).unwrap_or_default();
        lines.push(format!(
            "{} {:o} {} {} {} {contents:?}",
            path.display(),
            status.mode(),
            status.mtime(),
            status.mtime_nsec(),
            status.ctime_nsec()
        ));
        Ok(())
    };
    describe(directory).expect("it is there");
    for name in names(directory) {
        describe(&directory.join(&name)).expect("it is there");
        for inner in names(&directory.join(&name)) {
            describe(&directory.join(&name).join(inner)).expect("it is there");
        }
    }
    lines
}
