//! Where a thread's look-ups of names begin, compared by `open`, `read` and `close` only: every filter allows these.

use std::fs::{File, read_to_string};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Whether the calling thread and another one of the process now have the same root, working directory and umask, and
/// share the table of descriptors. False if that cannot be found out.
pub(crate) fn begin_where(thread: u32) -> bool {
    let own = Beginnings::of("/proc/thread-self");
    let other = Beginnings::of(&format!("/proc/self/task/{thread}"));
    let (Some(own), Some(other)) = (own, other) else {
        return false;
    };
    let same = |one: &File, two: &File| {
        let one = identity(thread, one);
        one.is_some() && one == identity(thread, two)
    };
    own.umask == other.umask
        && other.number == Some(thread)
        && same(&own.root, &other.root)
        && same(&own.directory, &other.directory)
}

struct Beginnings {
    root: File,
    directory: File,
    umask: String,
    /// The thread's number as the thread sees it: the file system may belong to another PID namespace.
    number: Option<u32>,
}

impl Beginnings {
    fn of(thread: &str) -> Option<Beginnings> {
        let open = |name: &str| {
            let mut options = File::options();
            options.read(true).custom_flags(libc::O_PATH);
            options.open(format!("{thread}/{name}")).ok()
        };
        let status = read_to_string(format!("{thread}/status")).ok()?;
        Some(Beginnings {
            root: open("root")?,
            directory: open("cwd")?,
            umask: field(&status, "Umask:")?.to_owned(),
            number: field(&status, "NSpid:")?.rsplit('\t').next()?.parse().ok(),
        })
    }
}

/// Mount and inode of a directory of the calling thread, as the other thread sees its descriptor.
fn identity(thread: u32, directory: &File) -> Option<[String; 2]> {
    let number = directory.as_raw_fd();
    let info = read_to_string(format!("/proc/self/task/{thread}/fdinfo/{number}")).ok()?;
    Some([
        field(&info, "mnt_id:")?.to_owned(),
        field(&info, "ino:")?.to_owned(),
    ])
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
    values.next().map(str::trim)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_with_a_directory_or_descriptors_of_its_own_shows() {
        let own = gettid().as_raw_nonzero().get() as u32;
        for (flags, moves) in [
            (None, false),
            (Some(UnshareFlags::FS), false),
            (Some(UnshareFlags::FS), true),
            (Some(UnshareFlags::FILES), false),
        ] {
            let (report, reported) = channel();
            let (end, ended) = channel::<()>();
            let other = std::thread::spawn(move || {
                if let Some(flags) = flags {
                    // SAFETY: this thread opens and closes no descriptor afterwards.
                    unsafe { unshare_unsafe(flags) }.expect("allowed for each thread");
                }
                if moves {
                    std::env::set_current_dir("/proc").expect("a directory");
                }
                report
                    .send(gettid().as_raw_nonzero().get() as u32)
                    .expect("received");
                let _ = ended.recv();
            });
            let thread = reported.recv().expect("sent");
            let differs = moves || flags == Some(UnshareFlags::FILES);
            assert_eq!(begin_where(thread), !differs, "{flags:?}, {moves}");
            drop(end);
            other.join().expect("no panic");
        }
        assert!(begin_where(own));
    }
}
