/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * laio.h - lazy asynchronous I/O: any system call from an event-driven program, without ever stalling.
 *
 *     cc program.c $(pkg-config --cflags --libs laio)
 *
 * An event loop needs three functions; laio(7) explains the library on one page:
 *
 *     laio_syscall()    makes a system call: inline if it does not block, else in the background
 *     laio_gethandle()  returns the handle of the call just made, if it went to the background
 *     laio_poll()       delivers the operations that have finished
 *
 * Conventions, for every function here:
 *
 *   Errors.     Functions that return a number return -1 and set errno; functions that return a pointer
 *               return NULL and set errno. Without an error errno has no meaning. Nothing is written
 *               through a pointer when a function fails, unless it says so.
 *   Threads.    A context belongs to the thread that created it; every function acts on contexts of the
 *               calling thread only, except laio_wake(). Threads share nothing and need no locks.
 *   Contexts.   A parameter `struct laio_context *context` may be NULL: the context that the calling
 *               thread uses (see laio_context_use()), which is created on first use.
 *   Buffers.    When a call goes to the background, everything it points to (buffers, names, structs)
 *               belongs to the operation until its completion has been delivered, cancelled or not.
 *   Signals.    Only laio_wake(), laio_peek(), laio_sigaction() and laio_version() may be called from a signal handler.
 *               Any other function fails with EDEADLK and changes nothing if the handler has interrupted
 *               a function of laio.
 *   fork.       A child begins with empty contexts; the operations remain the parent's.
 *   Limits.     Every queue has a limit; see struct laio_options.
 */
#ifndef LAIO_H
#define LAIO_H

#include <stddef.h> /* size_t */
#include <stdint.h>
#include <time.h> /* struct timespec, if the program asks for POSIX */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; laio_version() returns that of the library. */
#define LAIO_VERSION_MAJOR 0
#define LAIO_VERSION_MINOR 1
#define LAIO_VERSION_PATCH 0

struct timespec;
struct sigaction;

/* Operations, completions and helpers of one thread, or of one part of a program within a thread. */
struct laio_context;

/* An operation that has finished. */
struct laio_completion {
	void *laio_handle;       /* the handle from laio_gethandle(); it is no longer live */
	long laio_return_value;  /* the result of the system call, -1 for an error */
	int laio_errno;          /* 0, or the error of the system call; ECANCELED, ETIME: see laio_cancel() */
	int laio_reserved;       /* 0 */
	void *laio_user;         /* the pointer from laio_set_user() or laio_submit(); else NULL */
};

/* ---- The three calls ---- */

/*
 * Makes the system call `number` with the arguments that follow, as syscall(2) does.
 *
 * Returns the result of the system call. If it would block, returns -1 with errno EINPROGRESS: it continues
 * in the background, laio_gethandle() returns its handle, and laio_poll() delivers its result. The memory
 * to which the arguments point belongs to the operation until then.
 *
 * Errors: those of the system call, and
 *   EINPROGRESS  it continues in the background
 *   EAGAIN       a limit is reached (struct laio_options), or the descriptor is in non-blocking mode and
 *                the call would block; it had no effect. If a part of a write was done inline, that part
 *                is returned instead
 *   ENOSYS       no such system call, or one that is refused (the fork family, ...)
 *   EOPNOTSUPP   a system call that waits for a signal (pause, rt_sigsuspend, ...); laio(7) lists both
 *   EDEADLK      called from a signal handler that interrupted laio
 *   EINVAL, EMFILE, ENFILE, ENOMEM, EPERM  also those of laio_init(), at the first use in a thread
 *   ESRCH        the thread is exiting, and its contexts have ended
 *
 * EINTR does not surface: calls continue after a signal handler, with the back end "sync" too.
 *
 * As with syscall(2), a pointer or a size must be passed in its full width: cast the literal 0 to
 * (void *) or (size_t) where one is meant.
 */
long laio_syscall(long number, ...);

/*
 * Returns the handle of the last laio_syscall() or laio_submit() of the calling thread, or NULL if that call did
 * not go to the background. It stays live until its completion has been delivered, and is not reused for
 * another operation before that. Never fails.
 */
void *laio_gethandle(void);

/*
 * Delivers up to `ncompletions` operations that have finished, each exactly once, and returns how many.
 * Waits at most `timeout` for the first (NULL: without a limit; zero: not at all).
 *
 * Returns 0 when the time-out expires, after laio_wake(), and when a signal handler has run in this thread (a
 * handler that runs just before the wait does not end it: let it call laio_wake()). It may also return 0 early
 * for no visible reason, because the kernel interrupts waits for its own purposes. With no operation in flight it
 * still waits for a finite `timeout`, and with NULL returns 0 immediately, because no completion could ever come.
 *
 * Errors:
 *   EFAULT   `completions` is NULL
 *   EINVAL   `ncompletions` is not positive, or `timeout` is not a time
 *   EDEADLK  called from a signal handler that interrupted laio
 *   EPERM, EACCES, ...  a filter installed later forbids waiting (seccomp); the operations remain in flight
 *   and, at the first use in a thread, those of laio_init()
 */
int laio_poll(struct laio_completion *completions, int ncompletions, const struct timespec *timeout);

/* ---- Contexts and their options ---- */

/*
 * The options of a context. Start from LAIO_OPTIONS_INIT; 0 and NULL mean the default in every field.
 * `size` lets a program and a library of different versions work together: fields that the library does
 * not know must be 0.
 */
struct laio_options {
	uint32_t size;            /* sizeof(struct laio_options) */
	uint32_t flags;           /* LAIO_WAIT_AT_LIMIT, ... */
	const char *backend;      /* a name, see laio_strbackend(); NULL: $LAIO_BACKEND, else "lazy" */
	uint32_t operations;      /* maximum of operations in flight or not yet delivered; default 65,536 */
	uint32_t helpers;         /* maximum of helper threads for calls that end by themselves; default 64 */
	uint32_t ring_entries;    /* size of the submission queue of io_uring; default 128, at most 4,096 */
	uint32_t inline_budget;   /* number of inline calls between two polls while operations are in flight;
	                             the next result is delivered through laio_poll(), so that the program
	                             processes its completions; default 256, UINT32_MAX: no limit */
	int32_t cancel_signal;    /* the signal that interrupts helpers; default: SIGSTKFLT if it has no handler, else the
	                             highest real-time signal without one */
	uint32_t short_transfer;  /* for tests: maximum of bytes moved by one step of a transfer */
	uint32_t carriers;        /* maximum of kernel threads of "activations" for the calling thread; default 256 */
	uint32_t detector;        /* how "activations" detects that a call blocks: LAIO_DETECTOR_*;
	                             0: $LAIO_DETECTOR, else the first that works */
	uint32_t waiting_helpers; /* maximum of additional helpers for calls that may wait without a bound; default
	                             1,024; beyond it such a call fails with EAGAIN. Never less than `helpers` */
	uint32_t spin_us;         /* microseconds that a helper without work, and laio_poll() waiting for a helper,
	                             look for it before they sleep, if recent waits were short; default 50,
	                             UINT32_MAX: they sleep immediately */
};

#define LAIO_OPTIONS_INIT { (uint32_t)sizeof(struct laio_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Detects blocking by records of context switches, perf_event_open(2). */
#define LAIO_DETECTOR_PERF 0x1u
/* Detects blocking by a SCHED_IDLE thread for each processor, which runs when no other thread does. */
#define LAIO_DETECTOR_IDLE 0x2u

/* At the limit of operations a call waits for an operation to finish, instead of failing with EAGAIN; at the limit
   of waiting_helpers it is in progress, and begins when a waiting call ends. */
#define LAIO_WAIT_AT_LIMIT 0x1u
/* "lazy" does not use io_uring, even if the machine supports it. */
#define LAIO_WITHOUT_RING 0x2u
/* The program promises that no name it opens is a FIFO or a device whose open(2) blocks: an open then costs one
   system call instead of three. If the promise is broken, the open blocks the caller. */
#define LAIO_TRUST_NAMES 0x4u
/* Buffered writes to files of ext4 are made inline while the kernel's dirty pages are far from its limits; by default
   a helper makes each. The program accepts that such a write may block the caller, see laio_init(3). */
#define LAIO_TRUST_WRITES 0x80u
/* "activations" also makes calls on streams itself: a kernel thread for each that blocks, as in liblaio. */
#define LAIO_PURE 0x8u
/* "linux-aio" also submits requests on which io_submit blocks (buffered I/O, writes that extend a file), and so
   blocks the caller: for comparison with programs that do so. By default helpers make these calls. */
#define LAIO_AIO_BLOCKING 0x20u
/* The program promises that the thread's rights (credentials, capabilities, namespaces, root, filters, Landlock)
   do not change after the context was created, except by calls through it. Calls in the background then cost less.
   If the promise is broken, they are made with rights that the thread has given up. See laio(7), RIGHTS. */
#define LAIO_SETTLED_RIGHTS 0x40u
/* Calls in the background have the rights of the process, as with a pool of threads: a thread that gives up rights
   for itself alone has them made as if it had not. What all threads give up is given up here too. */
#define LAIO_PROCESS_RIGHTS 0x10u
/* For tests of event loops. These do not change results, only how calls are made: all inline, blocking; all
   in the background; attempts see a false end of file; attempts always fail. */
#define LAIO_INJECT_INLINE 0x100u
#define LAIO_INJECT_BACKGROUND 0x200u
#define LAIO_INJECT_FALSE_EOF 0x400u
#define LAIO_INJECT_ATTEMPTS_FAIL 0x800u

/*
 * Creates the calling thread's own context, with options (NULL: the defaults). Optional: the first use
 * creates it with the defaults. Call it to choose options, and to see errors early. Returns 0.
 *
 * Errors:
 *   EEXIST   the thread has its context already
 *   EINVAL   a value, a flag or `size` is not valid; `backend` (or $LAIO_BACKEND) names no back end
 *   E2BIG    a field that this library does not know is not 0
 *   EPERM, EACCES, ENOSYS, ENOMEM, EOPNOTSUPP  the back end "uring" was requested, and io_uring is not
 *            available; "lazy" does not need io_uring
 *   ENOSYS, EOPNOTSUPP, EACCES, ENOENT, ETIME, EBUSY  the back end "activations" was requested, and does
 *            not work here: see laio_init(3)
 *   EMFILE, ENFILE  no descriptors are left
 *   EDEADLK  called from a signal handler that interrupted laio
 */
int laio_init(const struct laio_options *options);

/*
 * Ends the calling thread's own context: cancels its operations, waits until the last has released its
 * buffers, and delivers no completion. A thread that exits does the same for all its contexts. The next use
 * creates a new context. Returns 0, also if there is none. Errors: EDEADLK.
 */
int laio_finish(void);

/*
 * Creates an additional context for the calling thread; contexts of one thread share nothing. Errors: those of
 * laio_init() without EEXIST.
 */
struct laio_context *laio_context_new(const struct laio_options *options);

/*
 * Ends a context as laio_finish() does. If the thread uses it, the thread uses its own context afterwards. NULL is
 * allowed and does nothing. Returns 0. Errors: EINVAL, not a context that the calling thread created with
 * laio_context_new(); EDEADLK.
 */
int laio_context_free(struct laio_context *context);

/*
 * Selects the context that laio_syscall(), laio_gethandle(), laio_poll() and NULL mean in the calling
 * thread; NULL selects the thread's own. Returns 0. Errors: EINVAL, not a context of the calling thread;
 * EDEADLK.
 */
int laio_context_use(struct laio_context *context);

/* Returns the context that the calling thread uses. Errors: at the first use in a thread those of laio_init(). */
struct laio_context *laio_context_current(void);

/* ---- Operations ---- */

/*
 * A status word, which shows when an operation has finished, for programs that watch a variable. The helper that
 * makes the call writes it, whatever this thread is doing. laio_poll() writes a cancellation or a time-out,
 * which this thread causes. laio_peek() reads it.
 */
struct laio_status {
	int32_t laio_state;      /* EINPROGRESS; when finished 0, or the error of the system call */
	int32_t laio_reserved;
	long laio_return_value;  /* the result of the system call; valid when laio_state is not EINPROGRESS */
};

/* A system call with all its parameters. Start from LAIO_CALL_INIT. */
struct laio_call {
	uint32_t size;                    /* sizeof(struct laio_call) */
	uint32_t flags;                   /* 0 */
	long number;                      /* SYS_read, ... */
	uintptr_t args[6];                /* as for syscall(2); pointers as (uintptr_t)pointer */
	void *user;                       /* returned with the completion */
	const struct timespec *timeout;   /* NULL, or the time from now after which the call is cancelled; only
	                                     laio_submit() reads it */
	struct laio_status *status;       /* NULL, or a status word; belongs to the operation */
};

#define LAIO_CALL_INIT(number) \
	{ (uint32_t)sizeof(struct laio_call), 0, (number), { 0, 0, 0, 0, 0, 0 }, 0, 0, 0 }

/*
 * Makes a system call as laio_syscall() does, in any context of the calling thread, with a user pointer,
 * a time-out, or a status word. The memory to which `args` point, and `status`, belong to the operation until its
 * completion has been delivered; `call` itself does not.
 *
 * Returns as laio_syscall(). If `handle` is not NULL, `*handle` is always set: NULL unless the call went
 * to the background.
 *
 * With `status`, a helper thread makes a call that would block, in every back end but "sync", which blocks as
 * always: a thread must write the word while this thread does something else. The call counts towards the limit
 * of helpers until it ends. If an earlier operation on the same descriptor must end first, the call starts when
 * this thread processes that completion, in laio_poll(). Its completion is delivered too, by laio_poll() or
 * laio_take().
 *
 * Errors: those of laio_syscall(), and
 *   EFAULT   `call` is NULL
 *   EINVAL   `size`, `flags` or `timeout` is not valid; `context` is not the calling thread's
 *   E2BIG    a field that this library does not know is not 0
 */
long laio_submit(struct laio_context *context, const struct laio_call *call, void **handle);

/* As laio_poll(), for any context of the calling thread. Errors: also EINVAL for one that is not. */
int laio_context_poll(struct laio_context *context, struct laio_completion *completions,
                      int ncompletions, const struct timespec *timeout);

/*
 * Delivers the completion of one operation, if it has finished. Checks for new completions, but does not wait.
 * Returns 0. Errors: EINPROGRESS, it has not finished; ENOENT, no live handle of this context;
 * EFAULT, `completion` is NULL; EINVAL; EDEADLK.
 */
int laio_take(struct laio_context *context, void *handle, struct laio_completion *completion);

/*
 * Returns the state of a status word: EINPROGRESS, then 0 or the error. When it is no longer EINPROGRESS the
 * buffers have been written and laio_return_value is valid. May be called from any thread, while the word exists.
 * Returns EINVAL for NULL.
 */
int laio_peek(const struct laio_status *status);

/*
 * Cancels an operation. Its completion still comes, and until then the buffers belong to the operation. The
 * completion has ECANCELED if the call had no effect, the number of bytes if it moved some, or the result if the
 * call ended first. A close is not cancelled. Returns 0. Errors: ENOENT, no live handle of this context (also if
 * its completion has been delivered); EALREADY, it has finished, and laio_poll() will deliver it;
 * EINVAL; EDEADLK. Cancelling twice is not an error.
 */
int laio_cancel(struct laio_context *context, void *handle);

/* Sets the pointer that the completion of an operation carries. Errors: ENOENT, EINVAL, EDEADLK. */
int laio_set_user(struct laio_context *context, void *handle, void *user);

/*
 * Cancels an operation when `timeout` from now has passed (NULL: removes the time-out). It then completes as if
 * cancelled, with ETIME instead of ECANCELED (ETIMEDOUT remains an error of the network), or with the number of
 * bytes if it moved some: a send that completes short has reached its time-out. Returns 0.
 * Errors: ENOENT; EALREADY, it has finished; EINVAL, also if `timeout` is not a time; EDEADLK.
 */
int laio_set_timeout(struct laio_context *context, void *handle, const struct timespec *timeout);

/*
 * If `on` is not 0, makes all calls on a descriptor complete in the order in which they were made, including
 * positioned reads and writes; if 0, ends that. Lasts until the descriptor is closed through laio. Returns 0.
 * Errors: EBADF, EINVAL, EDEADLK.
 */
int laio_set_ordered(struct laio_context *context, int fd, int on);

/*
 * Drops cached facts about a descriptor. Needed only if it was closed without laio and its number may refer to
 * a file where it referred to a stream. Returns 0. Errors: EINVAL, EDEADLK.
 */
int laio_forget(struct laio_context *context, int fd);

/* Returns the number of operations in flight or not yet delivered. Errors: EINVAL, EDEADLK. */
int laio_pending(struct laio_context *context);

/* ---- Ranges of a file ---- */

/* One range, and its result. */
struct laio_range {
	uint64_t offset;         /* where it begins in the file */
	void *buffer;            /* where its bytes go */
	size_t length;           /* their number */
	long laio_return_value;  /* the number of bytes read, -1 for an error */
	int laio_errno;          /* 0, or the error of the read */
	int laio_reserved;       /* 0 */
};

/* What a request for ranges has done. Start from LAIO_RANGE_STATS_INIT. */
struct laio_range_stats {
	uint32_t size;            /* sizeof(struct laio_range_stats) */
	uint32_t direct;          /* 1 if reads were direct where that was possible */
	const char *reason;       /* why, or why not, in words; the string is static */
	uint64_t reads;           /* served the ranges, after near ranges were joined and large ones split */
	uint64_t direct_reads;    /* reads from the device */
	uint64_t direct_bytes;    /* the bytes of these, with what fills blocks */
	uint64_t cached_reads;    /* reads through the page cache */
	uint64_t cached_bytes;    /* the bytes of these */
	uint64_t found_in_cache;  /* of the cached reads: LAIO_DIRECT_AUTO has found the bytes in the cache */
	uint64_t read_before;     /* or had read them from the device a short time ago */
	uint64_t file_ends;       /* of the cached reads: the end of a file that is no whole number of blocks */
	uint64_t repeated;        /* of the cached reads: direct reads that failed or ended early */
};

#define LAIO_RANGE_STATS_INIT { (uint32_t)sizeof(struct laio_range_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Ranges of one file. Start from LAIO_RANGES_INIT. */
struct laio_ranges {
	uint32_t size;                    /* sizeof(struct laio_ranges) */
	uint32_t flags;                   /* 0: through the page cache; or one of LAIO_DIRECT_* */
	int fd;                           /* the file */
	uint32_t depth;                   /* the number of reads in flight at a time; 0: 64 */
	struct laio_range *ranges;
	size_t count;                     /* the number of ranges */
	void *user;                       /* returned with the completion */
	const struct timespec *timeout;   /* NULL, or the time from now after which the request is cancelled; only
	                                     laio_read_ranges() reads it */
	struct laio_range_stats *stats;   /* NULL, or where the statistics go */
};

#define LAIO_RANGES_INIT(fd, ranges, count) \
	{ (uint32_t)sizeof(struct laio_ranges), 0, (fd), 0, (ranges), (count), 0, 0, 0 }

/* Files larger than half of the memory are read from the device (O_DIRECT), except what is in the page cache, and
   what was read from the device a short time ago: that is read through the cache, which keeps it. */
#define LAIO_DIRECT_AUTO 0x1u
/* All reads bypass the page cache, where the file system can do that. */
#define LAIO_DIRECT_ALWAYS 0x2u

/*
 * Reads ranges of a file, in any order, as pread(2) of each would: fewer bytes than a range has only at the end of
 * the file. Near ranges are read together, large ones in pieces, `depth` of them at a time. A direct read that
 * fails is repeated through the page cache. laio_read_ranges(3) says what is promised of a file that is being
 * written.
 *
 * Returns the number of bytes of all ranges. If a read would block, returns -1 with errno EINPROGRESS, and sets
 * `*handle` (which may be NULL): one completion, with that number, follows when all ranges are read. Other
 * functions take the handle as any other. The buffers, `ranges` and `stats` belong to the operation until the
 * completion has been delivered; the request itself does not. `fd` must stay open until then.
 *
 * Each range has its own result. If a range has an error, the request has the first error of its ranges, and the
 * other ranges are read all the same; ranges that were read together fail together. A bad
 * address of a buffer may end the program.
 *
 * Direct reads use a second descriptor of the file, unless `fd` has O_DIRECT. It is closed when the request is over,
 * which ends the locks that the process has on the file by fcntl(2) (F_SETLK).
 *
 * Errors: those of pread(2), and
 *   EINPROGRESS  it continues in the background
 *   EAGAIN       the limit of operations is reached (struct laio_options): a request needs up to `depth`
 *   ENOMEM       there is no memory for a range
 *   EFAULT       `request`, `ranges` or a buffer is NULL
 *   EBADF        `fd` is not open for reading
 *   EINVAL       `size`, `flags` or `timeout` is not valid; a range does not end below 2^64; `context` is not the
 *                calling thread's
 *   E2BIG        a field that this library does not know is not 0
 *   EDEADLK      called from a signal handler that interrupted laio
 *   and, at the first use in a thread, those of laio_init()
 * With EFAULT, EINVAL, E2BIG, EDEADLK and those of laio_init() no result of a range is set.
 */
long laio_read_ranges(struct laio_context *context, const struct laio_ranges *request, void **handle);

/* ---- Notification of completions ---- */

/*
 * Returns a descriptor that is readable when laio_poll() has work to do: for epoll, poll, GLib, libuv. When
 * it is readable, call laio_poll() with a zero time-out until it returns fewer completions than requested. The
 * descriptor belongs to the context: do not read from it or close it. After the first call of this function,
 * operations are submitted to the kernel one by one, not in batches. Errors: ENOMEM, EINVAL, EDEADLK.
 */
int laio_fd(struct laio_context *context);

/*
 * Sends signal `number` to the calling thread whenever laio_poll() may have work to do, with
 * si_code SI_QUEUE and `value` in si_value; at most one between two polls. 0 ends this. A small thread
 * watches laio_fd() for this. Returns 0. Errors: EINVAL, not a signal or one that cannot be caught;
 * EAGAIN, ENOMEM: no thread can be started; EDEADLK.
 */
int laio_set_signal(struct laio_context *context, int number, void *value);

/*
 * Makes laio_poll() of the context's thread return, now or the next time it is called. May be called from any
 * thread and any signal handler, as long as the context exists. NULL: the context that the calling thread uses,
 * if it has one. Returns 0. Errors: only ESRCH, the thread has no context.
 */
int laio_wake(struct laio_context *context);

/*
 * Submits queued operations to the kernel. laio_poll() does this itself; call it before a long
 * computation. Returns 0. Errors: those of waiting, see laio_poll(); EINVAL; EDEADLK.
 */
int laio_flush(struct laio_context *context);

/*
 * As sigaction(2), which programs with the back end "activations" must replace by this function. There a signal
 * may arrive on a kernel thread that the program has left; its handler would then run concurrently with the
 * program, with the same thread-local variables. Handlers installed by this function always run where the program
 * runs: they forward the signal, with si_code SI_QUEUE if only the kernel may use the original code. `old`
 * receives the previous action as it was passed to this function. With other back ends it behaves as sigaction(2).
 * May be called from any thread and any signal handler. Returns 0. Errors: those of sigaction(2).
 */
int laio_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* ---- Statistics ---- */

/* How many calls completed inline, and how many in the background. */
struct laio_counts {
	uint64_t inline_done;  /* completed inline */
	uint64_t background;   /* would have blocked: completed in the background */
	uint64_t fallback;     /* could not be attempted: completed in the background */
	uint64_t latched;      /* of those, not attempted because the file system does not support the attempt */
};

/* Requests of the back ends "posix-aio" and "linux-aio" for files. */
struct laio_aio_counts {
	uint64_t requests;     /* submitted; an operation may need several */
	uint64_t declined;     /* made by helpers, because Linux AIO would have blocked the caller */
	uint64_t refused;      /* made by helpers, because AIO refused them or returned them undone */
	uint64_t bounced;      /* direct I/O through aligned memory of the library */
	uint64_t submissions;  /* calls of io_submit, of one or more requests each */
	uint64_t blocked;      /* requests on which io_submit blocked (LAIO_AIO_BLOCKING) */
	uint64_t blocked_ns;   /* nanoseconds in calls of io_submit with such requests */
};

/* The counters of a context since its creation. */
struct laio_stats {
	uint32_t size;            /* sizeof(struct laio_stats), set by the caller */
	uint32_t operations_max;  /* highest number in flight or not yet delivered */
	struct laio_counts calls; /* all calls */
	uint64_t operations;      /* calls that went to the background */
	uint64_t completions;     /* delivered completions */
	uint64_t cancelled;       /* operations cancelled on request */
	uint64_t timed_out;       /* operations cancelled by their time-outs */
	uint64_t limited;         /* calls that reached the limit of operations */
	uint64_t over_budget;     /* completed inline, but delivered by laio_poll() (inline_budget) */
	uint64_t sleeps;          /* waits in laio_poll() */
	uint64_t submissions;     /* submissions to io_uring, of one or more operations each */
	struct laio_aio_counts aio;
	uint64_t handoffs;        /* hand-offs of "activations", in all contexts of the thread */
	uint64_t false_wakeups;   /* wakeups of a spare when the call had returned, or its thread was runnable */
	uint64_t spins;           /* waits in laio_poll() that ended before it slept (spin_us) */
	uint64_t helper_wakeups;  /* starts and wakeups of helpers */
	uint64_t unanswered;      /* calls on remote file systems (FUSE, network) that helpers make, or that wait for one, now */
	uint64_t hung_mounts;     /* such file systems that have answered none of the calls made for a second */
};

#define LAIO_STATS_INIT { (uint32_t)sizeof(struct laio_stats), 0, { 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0, 0, 0, \
	{ 0, 0, 0, 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0 }

/*
 * Writes the counters, in the fields that `size` covers and the library knows. Returns 0.
 * Errors: EFAULT, `stats` is NULL; EINVAL, also if `size` is too small; EDEADLK.
 */
int laio_stats(struct laio_context *context, struct laio_stats *stats);

/* Writes the counts of one system call. Returns 0. Errors: EFAULT, `counts` is NULL; EINVAL; EDEADLK. */
int laio_call_stats(struct laio_context *context, long number, struct laio_counts *counts);

/* The properties of a context. */
struct laio_info {
	uint32_t size;             /* sizeof(struct laio_info), set by the caller */
	uint32_t flags;            /* LAIO_INFO_* */
	const char *backend;       /* its name; the string is static */
	uint32_t operations;       /* the limits in force, as in struct laio_options */
	uint32_t helpers;
	uint32_t ring_entries;
	uint32_t inline_budget;
	uint32_t pending;          /* operations in flight or not yet delivered */
	uint32_t helper_threads;   /* the number of helper threads now */
	uint64_t memory;           /* bytes allocated for operations and descriptors */
	uint32_t carriers;         /* the limit in force */
	uint32_t carrier_threads;  /* the number of kernel threads of "activations" now, without the thread itself */
	uint32_t waiting_helpers;  /* the limit in force */
	uint32_t spin_us;          /* the limit in force */
};

#define LAIO_INFO_INIT { (uint32_t)sizeof(struct laio_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define LAIO_INFO_RING 0x1u           /* operations go to an io_uring */
#define LAIO_INFO_NOWAIT 0x2u         /* file reads can be attempted: the kernel supports RWF_NOWAIT */
#define LAIO_INFO_RESOLVE_CACHED 0x4u /* opens can be attempted: the kernel supports RESOLVE_CACHED */
#define LAIO_INFO_PERF 0x8u           /* "activations" uses LAIO_DETECTOR_PERF ... */
#define LAIO_INFO_IDLE 0x10u          /* ... or LAIO_DETECTOR_IDLE */

/* Writes the properties of a context, as laio_stats() writes its counters. */
int laio_info(struct laio_context *context, struct laio_info *info);

/*
 * Writes a readable report to a descriptor: back end, limits, and the counts of each system call and file
 * system. Blocks like write(2). Returns 0. Errors: those of write(2); EINVAL; EDEADLK.
 */
int laio_report(struct laio_context *context, int fd);

/* Returns the name of the back end with this index: 0 is "sync"; NULL, without errno, after the last. */
const char *laio_strbackend(int index);

/* Returns the version of the library, "0.1.0". Never fails. */
const char *laio_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LAIO_H */
