//! Typed operations on the attributes of a file, by descriptor and by name.

use crate::harness::*;
use laio::ops::{
    ATTRIBUTE_MAX, Access, FileStatus, GetAttribute, ListAttributes, MakeNode, Name, Node, Open,
    RemoveAttribute, SetAttribute, SetMode, SetOwner, SetTimes, StatFile, StatPath, Timestamp,
    attribute_names,
};
use laio::{BackendKind, Context, Operation, Outcome};
use laio_testing::temp::scratch;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The output of an operation; waits for it if it went to the background.
#[track_caller]
pub(crate) fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
    match context.submit(operation) {
        Outcome::Done(output) => output,
        Outcome::Pending(ticket) => {
            wait_for(context, ticket.handle());
            context.take(ticket).expect("delivered")
        }
    }
}

#[track_caller]
pub(crate) fn errno<T>(result: std::io::Result<T>) -> i32 {
    let error = result.err().expect("it cannot succeed");
    error.raw_os_error().expect("an errno")
}

/// A directory with a file, and a symbolic link to the file.
struct Place {
    directory: Rc<OwnedFd>,
    file: Rc<OwnedFd>,
    root: TempDir,
}

impl Place {
    fn new() -> Place {
        let root = scratch();
        let file = File::create_new(root.path().join("file")).expect("a file");
        symlink("file", root.path().join("link")).expect("a link");
        Place {
            directory: Rc::new(File::open(root.path()).expect("the directory").into()),
            file: Rc::new(file.into()),
            root,
        }
    }

    fn name(&self, name: &CStr) -> Name<Rc<OwnedFd>> {
        Name::at(self.directory.clone(), name)
    }

    fn file(&self) -> Rc<OwnedFd> {
        self.file.clone()
    }

    fn status(&self, context: &mut Context, name: &CStr) -> FileStatus {
        run(context, StatPath::new(self.name(name)).no_follow()).expect("a status")
    }
}

#[test]
fn modes() {
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        let mode = |context: &mut Context, name| place.status(context, name).mode() & 0o7777;
        run(&mut context, SetMode::new(place.file(), 0o4751)).expect("set");
        assert_eq!(mode(&mut context, c"file"), 0o4751);
        // A mode from a status includes the file type.
        run(&mut context, SetMode::new(place.file(), 0o100640)).expect("set");
        assert_eq!(mode(&mut context, c"file"), 0o640);

        match run(&mut context, SetMode::named(place.name(c"file"), 0o600)) {
            Ok(()) => {
                assert_eq!(mode(&mut context, c"file"), 0o600);
                let link = SetMode::named(place.name(c"link"), 0o777);
                assert_eq!(errno(run(&mut context, link)), libc::EOPNOTSUPP);
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
                laio_testing::skip("fchmodat2", "the kernel does not have it");
            }
        }
        let link = SetMode::named(place.name(c"link"), 0o604).follow();
        run(&mut context, link).expect("set");
        assert_eq!(mode(&mut context, c"file"), 0o604);

        // The alternative for older kernels.
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let open = Open::new(place.name(c"file"), flags);
        let file = run(&mut context, open).expect("open");
        std::fs::rename(place.root.path().join("file"), place.root.path().join("f"))
            .expect("renamed");
        let set = SetMode::named(Name::of_open(file), 0o700).follow();
        run(&mut context, set).expect("set");
        assert_eq!(mode(&mut context, c"f"), 0o700);
        let gone = SetMode::named(place.name(c"file"), 0o700).follow();
        assert_eq!(errno(run(&mut context, gone)), libc::ENOENT);
    });
}

#[test]
fn owners() {
    if !rustix::process::geteuid().is_root() {
        return laio_testing::skip("root", "only root gives files away");
    }
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        let owner = |context: &mut Context, name| {
            let status = place.status(context, name);
            (status.user(), status.group())
        };
        let before = owner(&mut context, c"file");
        run(&mut context, SetOwner::new(place.file(), None, None)).expect("nothing to do");
        assert_eq!(owner(&mut context, c"file"), before);
        run(&mut context, SetOwner::new(place.file(), Some(1), None)).expect("set");
        assert_eq!(owner(&mut context, c"file"), (1, before.1));
        run(&mut context, SetOwner::new(place.file(), None, Some(2))).expect("set");
        assert_eq!(owner(&mut context, c"file"), (1, 2));

        let link = || place.name(c"link");
        run(&mut context, SetOwner::named(link(), Some(3), Some(4))).expect("set");
        assert_eq!(owner(&mut context, c"link"), (3, 4));
        assert_eq!(owner(&mut context, c"file"), (1, 2));
        let set = SetOwner::named(link(), Some(5), Some(6)).follow();
        run(&mut context, set).expect("set");
        assert_eq!(owner(&mut context, c"link"), (3, 4));
        assert_eq!(owner(&mut context, c"file"), (5, 6));
    });
}

#[test]
fn times() {
    let time = |seconds, nanoseconds| Timestamp {
        seconds,
        nanoseconds,
    };
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        let times = |context: &mut Context, name| {
            let status = place.status(context, name);
            (status.accessed(), status.modified())
        };
        let (past, older) = (time(1_000_000_000, 123_456_789), time(-2, 5));
        let set = SetTimes::new(place.file(), Some(past), Some(older));
        run(&mut context, set).expect("set");
        assert_eq!(times(&mut context, c"file"), (past, older));
        run(&mut context, SetTimes::new(place.file(), Some(older), None)).expect("set");
        run(&mut context, SetTimes::new(place.file(), None, None)).expect("nothing to do");
        assert_eq!(times(&mut context, c"file"), (older, older));

        let link = || place.name(c"link");
        let set = SetTimes::named(link(), Some(past), Some(past));
        run(&mut context, set).expect("set");
        assert_eq!(place.status(&mut context, c"link").modified(), past);
        assert_eq!(times(&mut context, c"file"), (older, older));
        let set = SetTimes::named(link(), None, Some(past)).follow();
        run(&mut context, set).expect("set");
        assert_eq!(times(&mut context, c"file"), (older, past));

        let set = SetTimes::new(place.file(), None, Some(Timestamp::NOW));
        run(&mut context, set).expect("set");
        let (accessed, modified) = times(&mut context, c"file");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
        assert_eq!(accessed, older);
        assert!(now.as_secs().abs_diff(modified.seconds as u64) < 60);

        let set = SetTimes::new(place.file(), None, Some(time(0, 1_000_000_000)));
        assert_eq!(errno(run(&mut context, set)), libc::EINVAL);
    });
}

#[test]
fn extended_attributes() {
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        let set = SetAttribute::new(place.file(), c"user.one", "value");
        match run(&mut context, set).0 {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return laio_testing::skip("xattr", "the file system has no attributes of users");
            }
            result => result.expect("set"),
        }
        let again = SetAttribute::new(place.file(), c"user.one", "other").create();
        assert_eq!(errno(run(&mut context, again).0), libc::EEXIST);
        let absent = SetAttribute::named(place.name(c"file"), c"user.two", "other").replace();
        assert_eq!(errno(run(&mut context, absent).0), libc::ENODATA);
        let two = SetAttribute::named(place.name(c"file"), c"user.two", vec![7; 100]);
        let (result, buffer) = run(&mut context, two);
        result.expect("set");
        assert_eq!(buffer, [7; 100]);

        // Both interfaces see the attributes that both have set, appended to the buffer.
        for (attribute, value) in [(c"user.one", &b"value"[..]), (c"user.two", &[7; 100])] {
            let buffer = || {
                let mut buffer = Vec::with_capacity(ATTRIBUTE_MAX);
                buffer.push(b'>');
                buffer
            };
            let open = GetAttribute::new(place.file(), attribute, buffer());
            let named = GetAttribute::named(place.name(c"file"), attribute, buffer());
            let found = [run(&mut context, open), run(&mut context, named)];
            for (result, buffer) in found {
                assert_eq!(result.expect("there"), value.len());
                assert_eq!((buffer[0], &buffer[1..]), (b'>', value));
            }
        }
        for memory in [0, 3] {
            let buffer = || Vec::<u8>::with_capacity(memory);
            let open = GetAttribute::new(place.file(), c"user.one", buffer());
            let named = GetAttribute::named(place.name(c"file"), c"user.one", buffer());
            for (result, buffer) in [run(&mut context, open), run(&mut context, named)] {
                assert!(buffer.is_empty());
                match memory {
                    0 => assert_eq!(result.expect("counted"), 5),
                    _ => assert_eq!(errno(result), libc::ERANGE),
                }
            }
            let list = ListAttributes::new(place.file(), buffer());
            let (result, buffer) = run(&mut context, list);
            assert!(buffer.is_empty());
            match memory {
                0 => assert!(result.expect("counted") >= 18),
                _ => assert_eq!(errno(result), libc::ERANGE),
            }
        }

        let buffer = || Vec::with_capacity(ATTRIBUTE_MAX);
        let open = ListAttributes::new(place.file(), buffer());
        let named = ListAttributes::named(place.name(c"file"), buffer());
        for (result, list) in [run(&mut context, open), run(&mut context, named)] {
            assert_eq!(result.expect("there"), list.len());
            let mut names: Vec<_> = attribute_names(&list).collect();
            names.retain(|name| name.to_bytes().starts_with(b"user."));
            names.sort_unstable();
            assert_eq!(names, [c"user.one", c"user.two"]);
        }
        // The call does not follow the link, and a link cannot have user attributes.
        let get = GetAttribute::named(place.name(c"link"), c"user.one", buffer());
        assert_eq!(errno(run(&mut context, get).0), libc::ENODATA);
        let set = SetAttribute::named(place.name(c"link"), c"user.one", "value");
        assert_eq!(errno(run(&mut context, set).0), libc::EPERM);

        let remove = RemoveAttribute::new(place.file(), c"user.one");
        run(&mut context, remove).expect("removed");
        let remove = RemoveAttribute::named(place.name(c"file"), c"user.two");
        run(&mut context, remove).expect("removed");
        let remove = RemoveAttribute::new(place.file(), c"user.one");
        assert_eq!(errno(run(&mut context, remove)), libc::ENODATA);
        let long = SetAttribute::named(place.name(c"file"), c"user.one", vec![0; 65537]);
        assert_eq!(errno(run(&mut context, long).0), libc::E2BIG);
        let nobody = GetAttribute::named(place.name(c"nobody"), c"user.one", buffer());
        assert_eq!(errno(run(&mut context, nobody).0), libc::ENOENT);
    });
}

/// Reads the umask of this process without setting it, because other tests make files meanwhile.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    u32::from_str_radix(line.expect("Linux 4.7").trim(), 8).expect("an octal number")
}

#[test]
fn nodes() {
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        let mode = 0o640 & !umask();
        let mut nodes = vec![(c"fifo", Node::Fifo), (c"socket", Node::Socket)];
        let null = libc::makedev(1, 3);
        let device = MakeNode::new(place.name(c"null"), Node::CharDevice(null), mode);
        match run(&mut context, device) {
            Ok(()) => {
                std::fs::remove_file(place.root.path().join("null")).expect("there");
                nodes.push((c"null", Node::CharDevice(null)));
                nodes.push((c"large", Node::BlockDevice(libc::makedev(4095, 1_048_575))));
            }
            Err(error) => laio_testing::skip("devices", format!("mknod: {error}")),
        }
        for (name, node) in nodes {
            // A file type in the mode has no effect.
            let make = || MakeNode::new(place.name(name), node, mode | libc::S_IFREG);
            run(&mut context, make()).expect("made");
            assert_eq!(errno(run(&mut context, make())), libc::EEXIST);
            let status = place.status(&mut context, name);
            assert_eq!(Node::like(&status), Some(node));
            assert_eq!(status.mode() & 0o7777, mode);
        }
        for number in [1 << 32, u64::MAX] {
            let make = MakeNode::new(place.name(c"no"), Node::CharDevice(number), mode);
            assert_eq!(errno(run(&mut context, make)), libc::EINVAL);
        }
        let status = run(&mut context, StatFile::new(place.file())).expect("a status");
        assert_eq!(Node::like(&status), None);
    });
}

#[test]
fn rights() {
    for_each(|way| {
        let (mut context, place) = (way.context(), Place::new());
        run(&mut context, SetMode::new(place.file(), 0o600)).expect("set");
        let read_write = Access::READ | Access::WRITE;
        let ask = |name, rights| Access::new(place.name(name), rights);
        for access in [
            ask(c"file", Access::EXISTS),
            ask(c"file", read_write),
            ask(c"link", read_write),
            ask(c"file", read_write).effective(),
            ask(c"link", Access::EXISTS).no_follow(),
            ask(c".", Access::EXECUTE),
        ] {
            run(&mut context, access).expect("it may be");
        }
        // Without any execute bit, root may not execute the file either.
        let access = ask(c"file", Access::EXECUTE);
        assert_eq!(errno(run(&mut context, access)), libc::EACCES);
        let access = ask(c"file", Access::EXECUTE).effective();
        assert_eq!(errno(run(&mut context, access)), libc::EACCES);
        let access = ask(c"nobody", Access::EXISTS);
        assert_eq!(errno(run(&mut context, access)), libc::ENOENT);
        std::fs::remove_file(place.root.path().join("file")).expect("there");
        assert_eq!(
            errno(run(&mut context, ask(c"link", Access::EXISTS))),
            libc::ENOENT
        );
        run(&mut context, ask(c"link", Access::EXISTS).no_follow()).expect("there");
    });
}

#[test]
fn open_files_of_a_thread_with_descriptors_of_its_own() {
    for_each(|way| {
        // Threads of the C library share the descriptors of the thread that starts them.
        if way.backend == BackendKind::PosixAio {
            return;
        }
        let alone = || {
            // SAFETY: only this thread, which ends soon, gets a table of its own.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            let (mut context, place) = (way.context(), Place::new());
            let open = Open::new(place.name(c"file"), libc::O_PATH);
            let file = run(&mut context, open).expect("open");
            let set = SetMode::named(Name::of_open(file), 0o751).follow();
            run(&mut context, set).expect("set");
            assert_eq!(place.status(&mut context, c"file").mode() & 0o7777, 0o751);
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(alone);
            assert!(thread.join().is_ok());
        });
    });
}
