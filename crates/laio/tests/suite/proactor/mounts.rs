//! File systems that are mounted while drivers run.

use super::support::{all_lazy, block_on, poll_once};
use crate::harness::{LIMIT, watch};
use laio::ops::{OpenFile, Read, ReadAt};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::limit::wait_until;
use laio_testing::temp::pipe;
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
