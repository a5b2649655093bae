//! Helpers of the contract tests: back ends and modes, finishing operations, comparison with plain
//! calls.

use laio::testing::Inject;
use laio::{BackendKind, Call, Completion, Context, Errno, Handle, Options, Outcome};
use std::ffi::{CString, c_long};
use std::fmt;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

mod arguments;
mod waits;

pub(crate) use laio_testing::limit::scaled;
// Not all of the test programs that share this file use all of them.
#[allow(unused_imports)]
pub(crate) use arguments::{
    Arg, add_one, at, at_mut, bytes_of, cstring, event_counter, iovec, iovec_mut, own, zeroed,
};
pub(crate) use laio_testing::watchdog::watch;
#[allow(unused_imports)]
pub(crate) use waits::{
    has_no_reader, wait_until_closed, wait_until_ready, wait_until_refused, wait_until_there,
};

/// A bound on everything that must end. It detects hangs, not slowness: a loaded machine may give a test a
/// twentieth of its time.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Restricts every test to the ways whose name contains this string.
const ONLY: &str = "LAIO_CONTRACT_WAY";

/// Prints each note of a scenario when it is made.
const TRACE: &str = "LAIO_CONTRACT_TRACE";

/// A fault that the engine imposes on itself; see [`Inject`].
// The suite through C uses two.
#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Natural,
    ForceInline,
    ForceBlock,
    ShortTransfer,
    FalseEof,
    AttemptsFail,
}

/// A back end and a mode, in which a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) backend: BackendKind,
    pub(crate) without_ring: bool,
    pub(crate) mode: Mode,
}

impl Way {
    // Used by the other test programs that include this file.
    #[allow(dead_code)]
    pub(crate) const fn natural(backend: BackendKind) -> Way {
        Way {
            backend,
            without_ring: false,
            mode: Mode::Natural,
        }
    }

    pub(crate) fn options(&self) -> Options {
        let mut inject = Inject::default();
        match self.mode {
            Mode::Natural => {}
            Mode::ForceInline => inject.force_inline = true,
            Mode::ForceBlock => inject.force_block = true,
            Mode::ShortTransfer => inject.short_transfer = 3,
            Mode::FalseEof => inject.false_eof = true,
            Mode::AttemptsFail => inject.attempts_fail = true,
        }
        Options::new()
            .backend(self.backend)
            .ring(!self.without_ring)
            .inject(inject)
    }

    pub(crate) fn context(&self) -> Context {
        self.with(|options| options)
    }

    /// A context with further options.
    pub(crate) fn with(&self, change: impl FnOnce(Options) -> Options) -> Context {
        Context::new(change(self.options())).expect("a context")
    }

    /// Whether a call that would block becomes an operation instead of blocking the caller.
    pub(crate) fn goes_to_background(&self) -> bool {
        self.backend != BackendKind::Sync && self.mode != Mode::ForceInline
    }

    /// Whether transfers move a few bytes at a time: tests then move less, and nothing that needs a single transfer
    /// (values of an eventfd, datagrams through `write`).
    pub(crate) fn is_short(&self) -> bool {
        self.mode == Mode::ShortTransfer
    }

    /// Whether the back end makes an attempt at least for calls on streams.
    pub(crate) fn tries_streams(&self) -> bool {
        matches!(
            self.backend,
            BackendKind::Lazy
                | BackendKind::Hybrid
                | BackendKind::PosixAio
                | BackendKind::LinuxAio
                | BackendKind::Activations
        )
    }

    /// Whether the back end makes an attempt for calls that may block.
    pub(crate) fn is_lazy(&self) -> bool {
        self.backend == BackendKind::Lazy && self.mode == Mode::Natural
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = if self.without_ring {
            "-without-ring"
        } else {
            ""
        };
        write!(f, "{}{ring}/{:?}", self.backend, self.mode)
    }
}

/// Options with this number of helpers of each lane; further calls queue.
// Each test program that includes this file uses only a part of it.
#[allow(dead_code)]
pub(crate) fn with_helpers(options: Options, helpers: u32) -> Options {
    options
        .helpers(helpers)
        .waiting_helpers(helpers)
        .back_pressure(laio::BackPressure::Wait)
}

/// All back ends in one mode, without those in which the mode has no effect and those that this machine does not
/// support.
fn backends(mode: Mode) -> Vec<Way> {
    static THERE: OnceLock<Vec<BackendKind>> = OnceLock::new();
    let there = THERE.get_or_init(|| {
        let is_there = |&backend: &BackendKind| {
            let context = Context::new(Options::new().backend(backend));
            if let Err(errno) = &context {
                lacks(backend, *errno);
            }
            context.is_ok()
        };
        BackendKind::ALL.into_iter().filter(is_there).collect()
    });
    let mut ways: Vec<Way> = there
        .iter()
        .copied()
        .filter(|&backend| backend != BackendKind::Activations || has_activations())
        .map(|backend| Way {
            backend,
            without_ring: false,
            mode,
        })
        .collect();
    ways.push(Way {
        backend: BackendKind::Lazy,
        without_ring: true,
        mode,
    });
    ways.retain(|way| match mode {
        Mode::Natural => true,
        // In `sync` no call goes to the background.
        Mode::ForceInline | Mode::ShortTransfer => way.backend != BackendKind::Sync,
        // A back end without attempts cannot fail or skip them.
        Mode::ForceBlock | Mode::FalseEof | Mode::AttemptsFail => way.tries_streams(),
    });
    ways
}

/// Whether a back end works here: see `docs/decisions/030-traps-environment.md`. Not cached, because tests change their
/// environment.
fn has_activations() -> bool {
    let context = Context::new(Options::new().backend(BackendKind::Activations));
    if let Err(errno) = &context {
        lacks(BackendKind::Activations, *errno);
    }
    context.is_ok()
}

/// Reports that a back end is skipped. A child process may lack it because of its own filter, which is not a skip: the
/// parent process runs the same tests.
fn lacks(backend: BackendKind, errno: Errno) {
    let reason = format!("the back end {backend}: {errno}");
    let need = match backend {
        BackendKind::Uring => "io_uring",
        BackendKind::LinuxAio => "linux-aio",
        _ => "activations",
    };
    if laio_testing::child::is_child() || NARROWED.with_borrow(|only| !only.1.is_empty()) {
        println!("not available in this process: {reason}")
    } else {
        laio_testing::skip(need, reason)
    }
}

std::thread_local! {
    /// Restricts the tests of this thread to some modes, and notes which calls are forbidden to it.
    static NARROWED: std::cell::RefCell<(Vec<Mode>, Vec<c_long>)> =
        const { std::cell::RefCell::new((Vec::new(), Vec::new())) };
}

/// Runs tests in these modes only (an empty list means all), with these calls forbidden.
pub(crate) fn narrowed(modes: &[Mode], forbidden: &[c_long], body: impl FnOnce()) {
    NARROWED.set((modes.to_vec(), forbidden.to_vec()));
    body();
    NARROWED.take();
}

/// All back ends in all modes of this test program (`MODES` in its main file).
pub(crate) fn all_ways() -> Vec<Way> {
    let wanted =
        |mode: &Mode| NARROWED.with_borrow(|only| only.0.is_empty() || only.0.contains(mode));
    crate::MODES
        .into_iter()
        .filter(wanted)
        .flat_map(backends)
        .collect()
}

/// Runs a test in every back end and mode. Events that a call waits for must come without the caller's help, because
/// some ways block the caller.
pub(crate) fn for_each(body: impl Fn(&Way)) {
    run(all_ways(), body);
}

/// Runs a test in every back end and mode in which a call that would block goes to the background.
pub(crate) fn for_each_pending(body: impl Fn(&Way)) {
    run(
        all_ways()
            .into_iter()
            .filter(Way::goes_to_background)
            .collect(),
        body,
    );
}

/// Runs a test in every back end, without injected faults.
pub(crate) fn for_each_backend(body: impl Fn(&Way)) {
    run(backends(Mode::Natural), body);
}

/// Runs a test in every back end but `sync`, without injected faults.
pub(crate) fn for_each_pending_backend(body: impl Fn(&Way)) {
    run(
        backends(Mode::Natural)
            .into_iter()
            .filter(Way::goes_to_background)
            .collect(),
        body,
    );
}

fn run(ways: Vec<Way>, body: impl Fn(&Way)) {
    let only = std::env::var(ONLY).unwrap_or_default();
    let mut failed = Vec::new();
    for way in ways {
        let name = way.to_string();
        if !name.contains(&only) {
            continue;
        }
        laio_testing::watchdog::step(&name);
        let _watched = watch(&name);
        if catch_unwind(AssertUnwindSafe(|| body(&way))).is_err() {
            eprintln!("  ^ in {name}");
            failed.push(name);
        }
    }
    assert!(
        failed.is_empty(),
        "failed in {} ways: {}",
        failed.len(),
        failed.join(", ")
    );
}

/// Returns the result of a call; waits for it if the call went to the background.
#[track_caller]
pub(crate) fn finish(context: &mut Context, outcome: Outcome) -> Result<usize, Errno> {
    match outcome {
        Outcome::Done(result) => result,
        Outcome::Pending(handle) => wait_for(context, handle).result,
    }
}

/// The completion of the only operation in flight.
#[track_caller]
pub(crate) fn wait_for(context: &mut Context, handle: Handle) -> Completion {
    let completions = collect(context, 1);
    assert_eq!(
        completions[0].handle, handle,
        "the completion of another operation"
    );
    completions[0]
}

/// Returns this many completions in the order of delivery, and asserts that no more arrive.
#[track_caller]
pub(crate) fn collect(context: &mut Context, count: usize) -> Vec<Completion> {
    let limit = scaled(LIMIT);
    let end = Instant::now() + limit;
    let mut completions = Vec::new();
    while completions.len() < count {
        let left = end.saturating_duration_since(Instant::now());
        assert!(
            !left.is_zero(),
            "{} of {count} completions after {limit:?}: {completions:?}, {context:?}; threads:\n{}",
            completions.len(),
            laio_testing::watchdog::threads()
        );
        let before = completions.len();
        let returned = context.poll(&mut completions, Some(left)).expect("poll");
        assert_eq!(
            returned,
            completions.len() - before,
            "the count that poll returns"
        );
    }
    assert_eq!(completions.len(), count, "completions: {completions:?}");
    let mut handles: Vec<Handle> = completions
        .iter()
        .map(|completion| completion.handle)
        .collect();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(
        handles.len(),
        count,
        "an operation was completed twice: {completions:?}"
    );
    completions
}

/// Makes a call in a context. The caller keeps the memory behind the pointers until the call is over: tests wait for
/// every operation before they drop their buffers.
pub(crate) fn start<const N: usize>(
    context: &mut Context,
    number: c_long,
    args: [usize; N],
) -> Outcome {
    // SAFETY: see above.
    unsafe { context.call(Call::new(number, args)) }
}

/// Like [`start`], and asserts that the call went to the background.
#[track_caller]
pub(crate) fn pending<const N: usize>(
    context: &mut Context,
    number: c_long,
    args: [usize; N],
) -> Handle {
    match start(context, number, args) {
        Outcome::Pending(handle) => handle,
        Outcome::Done(result) => panic!("expected it to be pending, but it was done: {result:?}"),
    }
}

/// Starts a read that waits.
#[track_caller]
pub(crate) fn pending_read<const N: usize>(context: &mut Context, args: [usize; N]) -> Handle {
    pending(context, libc::SYS_read, args)
}

/// A time, for the kernel.
pub(crate) const fn timespec(tv_sec: i64, tv_nsec: i64) -> libc::timespec {
    libc::timespec { tv_sec, tv_nsec }
}

/// [`start`], then [`finish`].
#[track_caller]
pub(crate) fn call<const N: usize>(
    context: &mut Context,
    number: c_long,
    args: [usize; N],
) -> Result<usize, Errno> {
    let outcome = start(context, number, args);
    finish(context, outcome)
}

/// Makes the plain system call.
pub(crate) fn plain<const N: usize>(number: c_long, args: [usize; N]) -> Result<usize, Errno> {
    let Call {
        args: [a, b, c, d, e, f],
        ..
    } = Call::new(number, args);
    // SAFETY: as for `start`.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(result as usize)
}

/// Runs a closure on another thread, a little later.
pub(crate) fn later<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(5));
        body()
    })
}

/// Makes calls, plainly or through a context, and notes their results.
pub(crate) struct Sys<'a> {
    context: Option<&'a mut Context>,
    /// The number of calls made.
    numbers: std::collections::BTreeSet<c_long>,
    /// The scenario's own directory.
    pub(crate) dir: PathBuf,
    /// See [`Way::is_short`].
    pub(crate) short: bool,
    log: Vec<String>,
}

impl Sys<'_> {
    /// Makes a call and waits for its result.
    #[track_caller]
    pub(crate) fn call<const N: usize>(
        &mut self,
        number: c_long,
        args: [usize; N],
    ) -> Result<usize, Errno> {
        self.numbers.insert(number);
        match &mut self.context {
            Some(context) => call(context, number, args),
            None => plain(number, args),
        }
    }

    /// Makes a call, waits for its result and notes it.
    #[track_caller]
    pub(crate) fn check<const N: usize>(
        &mut self,
        what: &str,
        number: c_long,
        args: [usize; N],
    ) -> Result<usize, Errno> {
        let result = self.call(number, args);
        self.note(what, result);
        result
    }

    /// Makes a call that returns a descriptor, and notes whether it succeeded.
    #[track_caller]
    pub(crate) fn open<const N: usize>(
        &mut self,
        what: &str,
        number: c_long,
        args: [usize; N],
    ) -> Option<OwnedFd> {
        let result = self.call(number, args);
        self.note(what, result.map(|_| "a descriptor"));
        result.is_ok().then(|| own(result))
    }

    /// Notes a value that must be equal for the plain call.
    pub(crate) fn note(&mut self, what: &str, value: impl fmt::Debug) {
        let line = format!("{what}: {value:?}");
        if std::env::var_os(TRACE).is_some() {
            eprintln!("{line}");
        }
        self.log.push(line);
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> CString {
        cstring(self.dir.join(name))
    }

    /// A file with contents, open for reading and writing, at its start.
    pub(crate) fn file(&self, name: &str, contents: &[u8]) -> std::fs::File {
        let path = self.dir.join(name);
        std::fs::write(&path, contents).expect("a file");
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("a file")
    }
}

/// Runs a scenario plainly and in every way, and compares the notes. A scenario about files runs in a directory on a
/// disk and in one in memory.
pub(crate) fn same_as_plain(scenario: fn(&mut Sys<'_>), about_files: bool) {
    let shared_memory = about_files
        .then(|| tempfile::tempdir_in("/dev/shm").ok())
        .flatten();
    let disk = laio_testing::temp::scratch();
    let places: Vec<&Path> = [
        Some(disk.path()),
        shared_memory.as_ref().map(|dir| dir.path()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let run_in = |place: &Path, context: Option<&mut Context>, short| {
        let dir = tempfile::tempdir_in(place).expect("a directory");
        let mut sys = Sys {
            context,
            numbers: std::collections::BTreeSet::new(),
            dir: dir.path().to_owned(),
            short,
            log: Vec::new(),
        };
        scenario(&mut sys);
        (sys.log, sys.numbers)
    };
    let mut expected = [Vec::new(), Vec::new()];
    for short in [false, true] {
        let _watched = watch("a plain run");
        // On a thread of its own: the cleanup of a dropped ring interrupts calls of the thread that had it.
        let plainly = || {
            places
                .iter()
                .map(|place| run_in(place, None, short))
                .collect()
        };
        expected[usize::from(short)] = std::thread::scope(|scope| {
            let runner = scope.spawn(plainly);
            runner
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
    }
    // The ring may still make calls that a filter forbids.
    let (_, numbers) = &expected[0][0];
    let forbidden =
        NARROWED.with_borrow(|only| only.1.iter().any(|number| numbers.contains(number)));
    if forbidden
        && backends(Mode::Natural)
            .iter()
            .any(|way| way.backend == BackendKind::Uring)
    {
        return;
    }
    for_each(|way| {
        for (index, place) in places.iter().enumerate() {
            let mut context = way.context();
            let (log, _) = run_in(place, Some(&mut context), way.is_short());
            assert_eq!(context.pending(), 0, "operations left");
            compare(&expected[usize::from(way.is_short())][index].0, &log, place);
        }
    });
}

fn compare(expected: &[String], found: &[String], place: &Path) {
    let lines = expected.len().max(found.len());
    let line = |log: &[String], index: usize| log.get(index).cloned().unwrap_or_default();
    let differences: Vec<String> = (0..lines)
        .filter(|&index| expected.get(index) != found.get(index))
        .map(|index| {
            format!(
                "  plain call  {}\n  through laio {}",
                line(expected, index),
                line(found, index)
            )
        })
        .collect();
    assert!(
        differences.is_empty(),
        "differs from the plain calls, in {}:\n{}",
        place.display(),
        differences.join("\n")
    );
}

/// Makes a call and notes its result, which must equal the result of the plain call.
macro_rules! same {
    ($sys:ident, $what:expr => $number:ident $args:expr) => {
        let _ = $sys.check($what, libc::$number, $args);
    };
}

/// Makes a test of each scenario of a file (see [`same_as_plain`]), and a list of the scenarios.
macro_rules! scenarios {
    (about_files: $about_files:expr; $($name:ident,)*) => {
        mod same_as_plain {
            $(
                #[test]
                fn $name() {
                    $crate::harness::same_as_plain(super::$name, $about_files);
                }
            )*
        }

        /// The scenarios of this file, by name.
        pub(crate) const SCENARIOS: &[(&str, fn(&mut $crate::harness::Sys<'_>))] =
            &[$((stringify!($name), $name),)*];
    };
}

/// A loopback address that no other test uses, so that datagrams sent to a closed port reach no other test.
pub(crate) fn lonely_host() -> std::net::Ipv4Addr {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id() % 120;
    let [_, _, high, low] = (count % 60_000 + 2).to_be_bytes();
    std::net::Ipv4Addr::new(127, 1 + process as u8, high, low)
}

/// A listener that no other test connects to.
pub(crate) fn lonely_listener() -> std::net::TcpListener {
    std::net::TcpListener::bind((lonely_host(), 0)).expect("a port")
}

/// The address of a listener, for `connect`.
pub(crate) fn tcp_address(listener: &std::net::TcpListener) -> libc::sockaddr_in {
    socket_address(listener.local_addr().expect("an address"))
}

/// An address in the kernel's format.
pub(crate) fn socket_address(address: std::net::SocketAddr) -> libc::sockaddr_in {
    let std::net::SocketAddr::V4(address) = address else {
        panic!("{address} is not an IPv4 address");
    };
    let mut found = local_address(address.port());
    found.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
    found
}

/// A port of this machine.
pub(crate) fn local_address(port: u16) -> libc::sockaddr_in {
    let mut address: libc::sockaddr_in = zeroed();
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    address
}

/// Whether this run uses a sanitizer, by its options: memory is not counted then.
pub(crate) fn sanitized() -> bool {
    ["ASAN_OPTIONS", "TSAN_OPTIONS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}
