//! File systems that are mounted while drivers run.

use super::support::{all_lazy, block_on, poll_once};
use crate::harness::{LIMIT, watch};
use laio::ops::{Mkdir, Name, Open, OpenFile, Read, ReadAt, StatPath, Unlink};
use laio::{BackendKind, Options, Proactor, Rights};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::limit::wait_until;
use laio_testing::temp::{pipe, scratch};
use laio_testing::{FaultFs, or_skip};
use std::fs::File;

/// io_uring takes a FUSE file for ready, and would wait for its server when the read is submitted. The
/// driver may not have noticed the mount yet.
#[test]
fn a_file_system_mounted_later_stalls_no_driver() {
    let _watched = watch("a_file_system_mounted_later_stalls_no_driver");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let from = OpenFile::from(from);
        let read = || Read::new(from.clone(), Vec::with_capacity(8));
        let mut first = proactor.submit(read());
        assert!(poll_once(&mut first).is_pending());
        rustix::io::write(&to, b"driver").expect("written");
        assert_eq!(block_on(first).0.expect("bytes"), 6);

        let Some(fs) = or_skip(FaultFs::mount()) else {
            return;
        };
        fs.add_file("file", b"contents");
        let file = OpenFile::from(File::open(fs.join("file")).expect("a file"));
        fs.set(Kind::Read, Fault::Hang);
        let mut hung = proactor.submit(ReadAt::new(file, Vec::with_capacity(8), 0));
        assert!(poll_once(&mut hung).is_pending(), "{name}");
        let mut other = proactor.submit(read());
        assert!(poll_once(&mut other).is_pending(), "{name}");
        let asked = fs.wait_hung(1, LIMIT);
        rustix::io::write(&to, b"other").expect("written");
        let mut result = None;
        wait_until(LIMIT, || match poll_once(&mut other) {
            std::task::Poll::Ready(output) => result.replace(output).is_none(),
            std::task::Poll::Pending => false,
        });
        // Before anything can fail: the driver may wait for the server.
        fs.clear_all();
        fs.release(Released::Served);
        assert!(asked, "{name}: the server has no request");
        let (count, bytes) = result.unwrap_or_else(|| panic!("{name}: the driver is stalled"));
        assert_eq!((count.expect("bytes"), &bytes[..]), (5, &b"other"[..]));
        assert_eq!(block_on(hung).1, b"contents", "{name}");
    }
}

/// Look-ups hang in a file system whose server does not answer, more than a driver has helpers and a ring
/// workers.
#[test]
fn a_file_system_that_hangs_stops_no_operation_on_another() {
    let _watched = watch("a_file_system_that_hangs_stops_no_operation_on_another");
    const HUNG: usize = 100;
    let Some(fs) = or_skip(FaultFs::mount()) else {
        return;
    };
    let kinds = [BackendKind::Threads, BackendKind::Hybrid, BackendKind::Lazy];
    let all = [Rights::Thread, Rights::Process, Rights::Settled];
    for (kind, rights) in kinds
        .into_iter()
        .flat_map(|kind| all.map(|one| (kind, one)))
    {
        let name = format!("{kind}, {rights:?} rights");
        let options = Options::new().backend(kind).rights(rights);
        let proactor = Proactor::new(options.helpers(2)).expect("a proactor");
        let directory = scratch();
        fs.set(Kind::Lookup, Fault::Hang);
        let absent = |index: usize| Name::from_path(fs.join(&index.to_string())).expect("a name");
        let mut stats: Vec<_> = (0..HUNG)
            .map(|index| proactor.submit(StatPath::new(absent(index))))
            .collect();
        for stat in &mut stats {
            assert!(poll_once(stat).is_pending(), "{name}");
        }
        assert!(fs.wait_hung(1, LIMIT), "{name}");
        let path = |text: &str| Name::from_path(directory.path().join(text)).expect("a name");
        for _ in 0..3 {
            block_on(proactor.submit(Mkdir::new(path("made"), 0o700))).expect("made");
            block_on(proactor.submit(Unlink::directory(path("made")))).expect("removed");
            let flags = libc::O_RDWR | libc::O_CREAT;
            block_on(proactor.submit(Open::new(path("file"), flags).mode(0o600))).expect("opened");
        }
        let hangs = wait_until(LIMIT, || proactor.stats().hung_mounts == 1);
        assert!(hangs, "{name}");
        assert!(proactor.stats().unanswered >= 2, "{name}");
        fs.clear_all();
        fs.release(Released::Served);
        for stat in stats {
            let errno = block_on(stat).expect_err("no file").raw_os_error();
            assert_eq!(errno, Some(libc::ENOENT), "{name}");
        }
        let answered = wait_until(LIMIT, || proactor.stats().unanswered == 0);
        assert!(answered, "{name}");
        assert_eq!(proactor.stats().hung_mounts, 0, "{name}");
    }
}
