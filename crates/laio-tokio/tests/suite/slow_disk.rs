//! A runtime beside a file system whose server does not answer.

use crate::support::{directory, each_runtime};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::limit::{wait_until, within};
use laio_testing::{FaultFs, or_skip};
use laio_tokio::fs;
use std::time::Duration;
use tokio::runtime::Runtime;

const LIMIT: Duration = Duration::from_secs(60);
/// Calls that hang at a time.
const HUNG: usize = 20;

/// While reads, opens and writes hang, the runtime goes on, and ends without them.
#[test]
fn a_runtime_goes_on_and_ends_while_calls_hang() {
    for kind in [Kind::Read, Kind::Open, Kind::Write] {
        for runtime in each_runtime() {
            let Some(disk) = or_skip(FaultFs::mount()) else {
                return;
            };
            disk.add_file("file", b"contents");
            disk.set(kind, Fault::Hang);
            goes_on_and_ends(&disk, kind, runtime);
        }
    }
}

/// The server of the file system does not answer a `close`, which would hold the runtime up.
#[test]
fn a_dropped_file_is_closed_in_the_background() {
    for runtime in each_runtime() {
        let Some(disk) = or_skip(FaultFs::mount()) else {
            return;
        };
        disk.add_file("file", b"contents");
        disk.set(Kind::Flush, Fault::Hang);
        let name = disk.join("file");
        within(LIMIT, move || {
            runtime.block_on(async {
                drop(fs::File::open(&name).await.unwrap());
                assert_eq!(fs::read(&name).await.unwrap(), b"contents");
            });
            drop(runtime);
        });
        // More, if another test starts a process, which closes its copy of the descriptor.
        assert!(wait_until(LIMIT, || disk.hung() >= 2));
        disk.clear_all();
        disk.release(Released::Served);
        assert!(wait_until(LIMIT, || disk.hung() == 0));
    }
}

fn goes_on_and_ends(disk: &FaultFs, kind: Kind, runtime: Runtime) {
    let (_kept, at) = directory();
    let name = disk.join("file");
    let hung: Vec<_> = (0..HUNG)
        .map(|number| {
            let name = name.clone();
            runtime.spawn(async move {
                match number % 2 {
                    0 if kind == Kind::Write => fs::write(&name, "other").await.map(drop),
                    _ if kind == Kind::Write => {
                        let file = fs::File::options().write(true).open(&name).await?;
                        file.write_at(b"other".to_vec(), 0).await.0.map(drop)
                    }
                    _ => fs::read(&name).await.map(drop),
                }
            })
        })
        .collect();
    runtime.block_on(async {
        let asked = async {
            while disk.hung() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let asked = tokio::time::timeout(LIMIT, asked).await;
        assert!(asked.is_ok(), "{kind:?}: the server has no request");
        // Calls on other files wait for none of those that hang.
        let other = at.join("other");
        fs::write(&other, "text").await.unwrap();
        assert_eq!(fs::read(&other).await.unwrap(), b"text");
        assert_eq!(fs::copy(&other, at.join("copy")).await.unwrap(), 4);
    });
    assert!(hung.iter().all(|task| !task.is_finished()), "{kind:?}");
    within(LIMIT, move || drop(runtime));
    disk.clear_all();
    // Some requests are still on their way.
    let idle = || {
        disk.release(Released::Served);
        disk.hung() == 0 && hung.iter().all(|task| task.is_finished())
    };
    assert!(wait_until(LIMIT, idle), "{kind:?}");
}
