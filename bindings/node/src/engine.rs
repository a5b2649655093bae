//! The engine of an environment (the main thread, or a worker): its calls in the background.

use crate::answer::{self, Answer, LOWEST_ERROR, Opened, Outcome, Value};
use crate::spares::Spares;
use crate::status;
use laio::ops::{Close, FileStatus, OpenFile};
use laio::{Operation, Options, Proactor, Rights};
use napi::bindgen_prelude::{Buffer, Either3, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Error, Result};
use napi_derive::napi;
use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// The engine of the environment that runs on this thread.
    static ENGINE: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

/// Makes calls, and continues those that were not done immediately.
pub(crate) struct Engine {
    pub(crate) env: Env,
    pub(crate) proactor: &'static Proactor,
    tasks: RefCell<HashMap<i64, Task>>,
    /// The open files of the environment, by the numbers of their descriptors.
    files: RefCell<HashMap<RawFd, OpenFile>>,
    last: Cell<i64>,
    spares: RefCell<Spares>,
    /// Memory that JavaScript uses only for names and answers: it stays where it is.
    scratch: RefCell<Buffer>,
    woken: Arc<Woken>,
}

/// Where an answer goes if the call is done immediately and it has room there.
pub(crate) enum Memory<'a> {
    /// Memory of its own.
    New,
    /// The memory that the engine was started with.
    Scratch,
    Given(&'a mut [u8]),
}

type Task = Pin<Box<dyn Future<Output = Outcome>>>;

/// A function without arguments that any thread can make the event loop call. Only calls in the background
/// keep the loop alive.
type Bell = ThreadsafeFunction<(), (), (), napi::Status, false, true>;

/// The calls that can go on, and the bell, which rings once for all of them.
struct Woken {
    numbers: Mutex<Vec<i64>>,
    bell: Mutex<Bell>,
}

/// The waker of a call.
struct Waking {
    number: i64,
    woken: Arc<Woken>,
}

/// Starts the engine of the environment. Answers go to `scratch` if they fit. `wake` is called when calls can
/// go on: it then calls `collect`.
#[napi]
pub fn start(env: Env, scratch: Buffer, wake: Function<'_, (), ()>) -> Result<()> {
    let bell = wake
        .build_threadsafe_function()
        .weak::<true>()
        .build_callback(|_| Ok(()))?;
    let engine = Rc::new(Engine {
        env,
        proactor: proactor()?,
        tasks: RefCell::default(),
        files: RefCell::default(),
        last: Cell::new(LOWEST_ERROR),
        spares: RefCell::default(),
        scratch: RefCell::new(scratch),
        woken: Arc::new(Woken {
            numbers: Mutex::default(),
            bell: Mutex::new(bell),
        }),
    });
    ENGINE.set(Some(engine.clone()));
    // At its end an environment cancels its calls; their memory lives until the kernel has let go.
    env.add_env_cleanup_hook(engine, |engine| {
        drop(engine.tasks.take());
        drop(ENGINE.take());
    })?;
    Ok(())
}

/// The engine of the environment.
pub(crate) fn engine() -> Result<Rc<Engine>> {
    let started = ENGINE.with_borrow(Option::clone);
    started.ok_or_else(|| Error::from_reason("the engine was not started"))
}

/// Continues the calls that can go on. Returns the numbers and answers of those that are over, in turn.
#[napi]
pub fn collect(env: Env) -> Result<Vec<Answer>> {
    let engine = engine()?;
    let numbers = std::mem::take(&mut *lock(&engine.woken.numbers));
    let mut answers = Vec::with_capacity(2 * numbers.len());
    for number in numbers {
        // Without the borrow, because the call may end in a destructor of JavaScript's.
        let Some(mut task) = engine.tasks.borrow_mut().remove(&number) else {
            continue;
        };
        match engine.poll(number, &mut task) {
            Poll::Ready(outcome) => {
                answers.push(Either3::A(number as f64));
                answers.push(engine.answer(env, outcome, Memory::New)?);
            }
            Poll::Pending => drop(engine.tasks.borrow_mut().insert(number, task)),
        }
    }
    engine.keep_alive(env, false)?;
    Ok(answers)
}

/// Cancels a call in the background.
#[napi]
pub fn cancel(env: Env, number: i64) -> Result<()> {
    let engine = engine()?;
    let task = engine.tasks.borrow_mut().remove(&number);
    drop(task);
    engine.keep_alive(env, false)
}

/// The statistics of the process: calls done by their attempt, calls that would have blocked, calls that
/// could not be attempted, calls handed to another thread, calls cancelled; and the calls in the
/// background of this environment.
#[napi]
pub fn stats() -> Result<Vec<f64>> {
    let engine = engine()?;
    let stats = engine.proactor.stats();
    let counts = [
        stats.inline,
        stats.background,
        stats.fallback,
        stats.handed_over,
        stats.cancelled,
        engine.tasks.borrow().len() as u64,
    ];
    Ok(counts.map(|count| count as f64).to_vec())
}

impl Engine {
    /// Makes a call.
    pub(crate) fn run(
        &self,
        env: Env,
        memory: Memory<'_>,
        call: impl Future<Output = Outcome> + 'static,
    ) -> Result<Answer> {
        let mut task: Task = Box::pin(call);
        match attempt(&mut task) {
            Some(outcome) => self.answer(env, outcome, memory),
            None => self.go_on(env, memory, task),
        }
    }

    /// Makes an operation; `value` is for its output.
    pub(crate) fn submit<O>(
        &self,
        env: Env,
        memory: Memory<'_>,
        operation: io::Result<O>,
        value: impl FnOnce(O::Output) -> Outcome + 'static,
    ) -> Result<Answer>
    where
        O: Operation + Send + 'static,
    {
        let mut call = match operation {
            Ok(operation) => self.proactor.submit(operation),
            Err(error) => return Ok(answer::failed(&error)),
        };
        // On the stack: most calls are over then.
        match attempt(&mut call) {
            Some(output) => self.answer(env, value(output), memory),
            None => self.go_on(env, memory, Box::pin(async move { value(call.await) })),
        }
    }

    /// Makes an operation that reads a status. Most programs read many: it goes to the scratch memory without
    /// a copy on the way.
    pub(crate) fn submit_status<O>(&self, env: Env, operation: io::Result<O>) -> Result<Answer>
    where
        O: Operation<Output = io::Result<FileStatus>> + Send + 'static,
    {
        let mut call = match operation {
            Ok(operation) => self.proactor.submit(operation),
            Err(error) => return Ok(answer::failed(&error)),
        };
        match attempt(&mut call) {
            Some(Ok(status)) => {
                let length = status::write(&status, &mut self.scratch.borrow_mut());
                Ok(Either3::A(length as f64))
            }
            Some(Err(error)) => Ok(answer::failed(&error)),
            None => {
                let call = async move { answer::of_status(call.await) };
                self.go_on(env, Memory::Scratch, Box::pin(call))
            }
        }
    }

    /// Makes a call only if it is done immediately; otherwise cancels it.
    pub(crate) fn run_now(
        &self,
        env: Env,
        call: impl Future<Output = Outcome> + 'static,
    ) -> Result<Answer> {
        let mut task: Task = Box::pin(call);
        let blocked = || Err(io::Error::from_raw_os_error(libc::EAGAIN));
        let outcome = attempt(&mut task).unwrap_or_else(blocked);
        self.answer(env, outcome, Memory::Scratch)
    }

    /// Polls a call that was attempted once more, with a waker, and keeps it if it still waits.
    fn go_on(&self, env: Env, memory: Memory<'_>, mut task: Task) -> Result<Answer> {
        let number = self.last.get() - 1;
        self.last.set(number);
        if let Poll::Ready(outcome) = self.poll(number, &mut task) {
            return self.answer(env, outcome, memory);
        }
        self.tasks.borrow_mut().insert(number, task);
        self.keep_alive(env, true)?;
        Ok(Either3::A(number as f64))
    }

    pub(crate) fn answer(&self, env: Env, outcome: Outcome, memory: Memory<'_>) -> Result<Answer> {
        match outcome {
            Ok(Value::Number(number)) => Ok(Either3::A(number)),
            Ok(Value::Bytes(bytes)) => {
                let answer = self.bytes(env, &bytes, memory);
                self.recycle(bytes);
                answer
            }
            Ok(Value::Status(status)) => self.bytes(env, &status[..], memory),
            Ok(Value::File(file)) => Ok(Either3::C(Opened {
                fd: self.keep(file),
            })),
            Err(error) => Ok(answer::failed(&error)),
        }
    }

    /// Keeps an open file for calls with its number.
    pub(crate) fn keep(&self, file: OpenFile) -> RawFd {
        let fd = file.as_raw_fd();
        self.files.borrow_mut().insert(fd, file);
        fd
    }

    /// Closes a file that was only read: that reports nothing.
    pub(crate) async fn drop_file(&self, file: OpenFile) {
        if let Ok(descriptor) = file.try_into_owned() {
            let _ = self.proactor.submit(Close::new(descriptor)).await;
        }
    }

    /// An open file of the environment.
    pub(crate) fn file(&self, fd: RawFd) -> io::Result<OpenFile> {
        let file = self.files.borrow().get(&fd).cloned();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Takes a file that must be closed.
    pub(crate) fn take_file(&self, fd: RawFd) -> Option<OpenFile> {
        self.files.borrow_mut().remove(&fd)
    }

    fn poll(&self, number: i64, task: &mut Task) -> Poll<Outcome> {
        let woken = self.woken.clone();
        let waker = Waker::from(Arc::new(Waking { number, woken }));
        task.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Calls in the background keep the event loop alive. `begun`: one has begun, or else may have ended.
    // The count of references to the function does not do it.
    #[allow(deprecated)]
    fn keep_alive(&self, env: Env, begun: bool) -> Result<()> {
        let mut bell = lock(&self.woken.bell);
        if begun {
            bell.refer(&env)
        } else if self.tasks.borrow().is_empty() {
            bell.unref(&env)
        } else {
            Ok(())
        }
    }

    fn bytes(&self, env: Env, bytes: &[u8], memory: Memory<'_>) -> Result<Answer> {
        match memory {
            Memory::New => answer::bytes(env, bytes, None),
            Memory::Scratch => answer::bytes(env, bytes, Some(&mut self.scratch.borrow_mut())),
            Memory::Given(memory) => answer::bytes(env, bytes, Some(memory)),
        }
    }

    /// The memory that the engine was started with.
    pub(crate) fn scratch(&self) -> Ref<'_, Buffer> {
        self.scratch.borrow()
    }

    /// Empty memory with at least this capacity.
    pub(crate) fn memory(&self, capacity: usize) -> Vec<u8> {
        let mut memory = self.spares.borrow_mut().take();
        memory.reserve(capacity);
        memory
    }

    /// Keeps memory for a later call.
    pub(crate) fn recycle(&self, memory: Vec<u8>) {
        self.spares.borrow_mut().keep(memory);
    }
}

/// The outcome of an operation that returns nothing.
pub(crate) fn nothing(result: io::Result<()>) -> Outcome {
    result.map(|()| Value::Number(0.0))
}

fn attempt<F: Future + Unpin>(call: &mut F) -> Option<F::Output> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The proactor of the process. As Node's own threads do, its threads have the rights of the process.
fn proactor() -> Result<&'static Proactor> {
    static PROACTOR: OnceLock<std::result::Result<Proactor, laio::Errno>> = OnceLock::new();
    let made = PROACTOR.get_or_init(|| Proactor::new(Options::new().rights(Rights::Process)));
    made.as_ref()
        .map_err(|errno| Error::from_reason(format!("laio cannot start: {errno}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        let mut numbers = lock(&self.woken.numbers);
        let is_first = numbers.is_empty();
        numbers.push(self.number);
        drop(numbers);
        if is_first {
            // It fails only at the end of the environment.
            lock(&self.woken.bell).call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}
