/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * laio.h - lazy asynchronous I/O: any system call from an event-driven program, without ever stalling.
 *
 *     cc program.c $(pkg-config --cflags --libs laio)
 *
 * Three calls are all that an event loop needs; laio(7) tells the whole story in one page:
 *
 *     laio_syscall()    makes a system call: done at once if it does not block, else in the background
 *     laio_gethandle()  the handle of the call just made, if it went to the background
 *     laio_poll()       delivers the operations that have finished
 *
 * Conventions, for every function here:
 *
 *   Errors.     Functions that return a number return -1 and set errno; functions that return a pointer
 *               return NULL and set errno. Without an error errno has no meaning. Nothing is written
 *               through a pointer when a function fails, unless it says so.
 *   Threads.    A context belongs to the thread that made it; every function acts on contexts of the
 *               calling thread only, except laio_wake(). Threads share nothing and need no locks.
 *   Contexts.   A parameter `struct laio_context *context` may be NULL: the context that the calling
 *               thread uses (see laio_context_use()), which is made on first use.
 *   Buffers.    When a call goes to the background, everything it points to (buffers, names, structs)
 *               belongs to the operation until its completion has been delivered, cancelled or not.
 *   Signals.    Only laio_wake(), laio_peek(), laio_sigaction() and laio_version() may be called from a signal handler.
 *               Another function that finds itself inside a call which the handler has interrupted fails
 *               with EDEADLK and changes nothing.
 *   fork.       A child begins with empty contexts; the operations are the parent's.
 *   Limits.     Every queue has one; see struct laio_options.
 */
#ifndef LAIO_H
#define LAIO_H

#include <stdint.h>
#include <time.h> /* struct timespec, if the program asks for POSIX */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; laio_version() tells that of the library. */
#define LAIO_VERSION_MAJOR 0
#define LAIO_VERSION_MINOR 1
#define LAIO_VERSION_PATCH 0

struct timespec;
struct sigaction;

/* Operations, completions and helpers of one thread, or of one part of a program within a thread. */
struct laio_context;

/* An operation that has finished. */
struct laio_completion {
	void *laio_handle;       /* the handle that laio_gethandle() gave; it is no longer live */
	long laio_return_value;  /* what the system call returns, -1 for an error */
	int laio_errno;          /* 0, or the error of the system call; ECANCELED, ETIME: see laio_cancel() */
	int laio_reserved;       /* 0 */
	void *laio_user;         /* what laio_set_user() or laio_submit() gave; else NULL */
};

/* ---- The three calls ---- */

/*
 * Makes the system call `number` with the arguments that follow, as syscall(2) does.
 *
 * Returns what the system call returns. If it would block, returns -1 with errno EINPROGRESS: it goes on
 * in the background, laio_gethandle() names it, and laio_poll() delivers what it comes to. What the
 * arguments point to belongs to the operation until then.
 *
 * Errors: those of the system call, and
 *   EINPROGRESS  it goes on in the background
 *   EAGAIN       a limit is reached (struct laio_options), or the descriptor is in non-blocking mode and
 *                the call would block; nothing has been done. A write of which a part had been done
 *                at once returns that part instead
 *   ENOSYS       no such system call, or one that makes no sense here (fork and its kind, ...)
 *   EOPNOTSUPP   a system call that waits for a signal (pause, rt_sigsuspend, ...); laio(7) lists both
 *   EDEADLK      called from a signal handler that interrupted laio
 *   EINVAL, EMFILE, ENFILE, ENOMEM, EPERM  also those of laio_init(), at the first use in a thread
 *   ESRCH        the thread is ending, and its contexts have ended
 *
 * EINTR does not surface: calls go on after a signal handler, with the back end "sync" too.
 *
 * As with syscall(2), a pointer or a size must be passed in its full width: cast the literal 0 to
 * (void *) or (size_t) where one is meant.
 */
long laio_syscall(long number, ...);

/*
 * The handle of the last laio_syscall() or laio_submit() of the calling thread: NULL if that call did not
 * go to the background. It stays live until its completion
 * has been delivered, and is not used for another operation before. Never fails.
 */
void *laio_gethandle(void);

/*
 * Delivers up to `ncompletions` operations that have finished, each exactly once, and returns how many.
 * Waits at most `timeout` for the first (NULL: for ever; zero: not at all).
 *
 * Returns 0 when the time is up, after laio_wake(), and when a signal handler has run in this thread (one
 * that runs just before the wait is not noticed: let it call laio_wake()). It may come early without a
 * reason, too: the kernel interrupts waits for its own purposes. With nothing in flight a finite
 * `timeout` is waited for all the same, and NULL returns 0 at once: nothing would ever come.
 *
 * Errors:
 *   EFAULT   `completions` is NULL
 *   EINVAL   `ncompletions` is not positive, or `timeout` is not a time
 *   EDEADLK  called from a signal handler that interrupted laio
 *   EPERM, EACCES, ...  waiting itself was forbidden after the start (seccomp); the operations stay
 *   and, at the first use in a thread, those of laio_init()
 */
int laio_poll(struct laio_completion *completions, int ncompletions, const struct timespec *timeout);

/* ---- Contexts and their options ---- */

/*
 * How a context is made. Start from LAIO_OPTIONS_INIT; 0 and NULL stand for the default everywhere.
 * `size` lets a program and a library of different versions work together: fields that the library does
 * not know must be 0.
 */
struct laio_options {
	uint32_t size;            /* sizeof(struct laio_options) */
	uint32_t flags;           /* LAIO_WAIT_AT_LIMIT, ... */
	const char *backend;      /* a name, see laio_strbackend(); NULL: $LAIO_BACKEND, else "lazy" */
	uint32_t operations;      /* in flight or not yet delivered, at most; default 65,536 */
	uint32_t helpers;         /* helper threads for calls that end by themselves, at most; default 64 */
	uint32_t ring_entries;    /* of the submission queue of io_uring; default 128, at most 4,096 */
	uint32_t inline_budget;   /* calls done at once between two polls while operations are in flight,
	                             before one is delivered through laio_poll() so that the program gets to
	                             its completions; default 256, UINT32_MAX: no bound */
	int32_t cancel_signal;    /* interrupts helpers; default: the highest free real-time signal */
	uint32_t short_transfer;  /* for tests: bytes moved by one step of a transfer, at most */
	uint32_t carriers;        /* kernel threads of "activations" for the calling thread, at most; default 256 */
	uint32_t detector;        /* how "activations" notices that a call blocks: LAIO_DETECTOR_*;
	                             0: $LAIO_DETECTOR, else what works here */
	uint32_t waiting_helpers; /* further ones, for calls that may wait without a bound, at most; default 1,024;
	                             beyond it such a call fails with EAGAIN. Never less than `helpers` */
	uint32_t reserved;        /* 0 */
};

#define LAIO_OPTIONS_INIT { (uint32_t)sizeof(struct laio_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* By records of context switches, perf_event_open(2). */
#define LAIO_DETECTOR_PERF 0x1u
/* By a thread for each processor that runs when nothing else does, SCHED_IDLE. */
#define LAIO_DETECTOR_IDLE 0x2u

/* At the limit of operations a call waits for one to finish, rather than fail with EAGAIN; at the limit of
   waiting_helpers it is in progress, and begins when a call that waits is over. */
#define LAIO_WAIT_AT_LIMIT 0x1u
/* "lazy" does without io_uring even where the machine has it. */
#define LAIO_WITHOUT_RING 0x2u
/* Names that are opened never lead to a FIFO or a device that waits in open(2): an open then costs one
   system call instead of three. If that is not so, it blocks the caller. */
#define LAIO_TRUST_NAMES 0x4u
/* "activations" carries calls on streams too: a kernel thread for each that blocks, as liblaio did. */
#define LAIO_PURE 0x8u
/* "linux-aio" hands to io_submit also what that waits for (buffered I/O, writes that make a file longer), and
   so blocks the caller: to compare with programs that do. By default helpers do it. */
#define LAIO_AIO_BLOCKING 0x20u
/* The thread's rights (credentials, capabilities, namespaces, root, filters, Landlock) do not change after the
   context was made, or only by calls through it. Calls in the background then cost less; if it is not so,
   they are made with rights that the thread has given up. See laio(7), RIGHTS. */
#define LAIO_SETTLED_RIGHTS 0x40u
/* For tests of event loops. None changes a result; they change the way to it: all inline, blocking; all
   in the background; attempts meet a false end of file; attempts always fail. */
#define LAIO_INJECT_INLINE 0x100u
#define LAIO_INJECT_BACKGROUND 0x200u
#define LAIO_INJECT_FALSE_EOF 0x400u
#define LAIO_INJECT_ATTEMPTS_FAIL 0x800u

/*
 * Makes the calling thread's own context, with options (NULL: the defaults). Not needed: the first use
 * makes it with the defaults. Useful to choose, and to learn of errors early. Returns 0.
 *
 * Errors:
 *   EEXIST   the thread has its context already
 *   EINVAL   a value, a flag or `size` is not valid; `backend` (or $LAIO_BACKEND) names no back end
 *   E2BIG    a field that this library does not know is not 0
 *   EPERM, EACCES, ENOSYS, ENOMEM, EOPNOTSUPP  the back end "uring" was asked for and io_uring is not to
 *            be had; "lazy" needs no io_uring and does not fail for the lack of it
 *   ENOSYS, EOPNOTSUPP, EACCES, ENOENT, ETIME, EBUSY  the back end "activations" was asked for, and cannot
 *            be had: see laio_init(3)
 *   EMFILE, ENFILE  no descriptors are left
 *   EDEADLK  called from a signal handler that interrupted laio
 */
int laio_init(const struct laio_options *options);

/*
 * Ends the calling thread's own context: cancels its operations, waits until the last has let go of its
 * buffers, and delivers nothing. A thread that exits does the same for all its contexts. The next use
 * makes a new one. Returns 0, also if there is none. Errors: EDEADLK.
 */
int laio_finish(void);

/*
 * Makes a further context for the calling thread; contexts of one thread share nothing. Errors: those of
 * laio_init() without EEXIST.
 */
struct laio_context *laio_context_new(const struct laio_options *options);

/*
 * Ends a context as laio_finish() does. If the thread uses it, it uses its own from now on. NULL is
 * allowed and does nothing. Returns 0. Errors: EINVAL, not a context that the calling thread made with
 * laio_context_new(); EDEADLK.
 */
int laio_context_free(struct laio_context *context);

/*
 * Makes laio_syscall(), laio_gethandle(), laio_poll() and NULL stand for this context in the calling
 * thread; NULL: for the thread's own. Returns 0. Errors: EINVAL, not a context of the calling thread;
 * EDEADLK.
 */
int laio_context_use(struct laio_context *context);

/* The context that the calling thread uses. Errors: at the first use in a thread those of laio_init(). */
struct laio_context *laio_context_current(void);

/* ---- Operations ---- */

/*
 * A word that tells when an operation has finished, for programs that watch a variable. The helper that
 * makes the call writes it, whatever this thread is doing; a cancellation or a time-out, which this
 * thread brings about, is written by laio_poll(). laio_peek() reads it.
 */
struct laio_status {
	int32_t laio_state;      /* EINPROGRESS; when finished 0, or the error of the system call */
	int32_t laio_reserved;
	long laio_return_value;  /* what the system call returns; valid when laio_state is not EINPROGRESS */
};

/* A system call with all that can be said of it. Start from LAIO_CALL_INIT. */
struct laio_call {
	uint32_t size;                    /* sizeof(struct laio_call) */
	uint32_t flags;                   /* 0 */
	long number;                      /* SYS_read, ... */
	uintptr_t args[6];                /* as for syscall(2); pointers as (uintptr_t)pointer */
	void *user;                       /* handed back with the completion */
	const struct timespec *timeout;   /* NULL, or the time after which it is cancelled, from now; read by
	                                     laio_submit() only */
	struct laio_status *status;       /* NULL, or a word to watch; belongs to the operation */
};

#define LAIO_CALL_INIT(number) \
	{ (uint32_t)sizeof(struct laio_call), 0, (number), { 0, 0, 0, 0, 0, 0 }, 0, 0, 0 }

/*
 * Makes a system call as laio_syscall() does, in any context of the calling thread, with a user pointer,
 * a time-out, or a word to watch. What `args` point to and `status` belong to the operation until its
 * completion has been delivered; `call` itself does not.
 *
 * Returns as laio_syscall(). If `handle` is not NULL, `*handle` is always set: NULL unless the call went
 * to the background.
 *
 * With `status`, a call that would block is made by a helper thread, in every back end but "sync", which
 * blocks as ever, since something must write the word while this thread does something else; it counts to the limit of helpers as long
 * as it lasts. If an earlier operation on the same descriptor must end first, the call starts when this
 * thread comes to know of that, in laio_poll(). Its completion is delivered as well, by laio_poll() or
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
 * Delivers the completion of one operation, if it has finished. Does not wait, but looks for news.
 * Returns 0. Errors: EINPROGRESS, it has not finished; ENOENT, no live handle of this context;
 * EFAULT, `completion` is NULL; EINVAL; EDEADLK.
 */
int laio_take(struct laio_context *context, void *handle, struct laio_completion *completion);

/*
 * The state of a word to watch: EINPROGRESS, then 0 or the error. When it is no longer EINPROGRESS the
 * buffers have been written and laio_return_value is valid. From any thread, while the word lives.
 * Returns EINVAL for NULL.
 */
int laio_peek(const struct laio_status *status);

/*
 * Cancels an operation. Its completion still comes, and until then the buffers are the operation's: with
 * ECANCELED if nothing had been done, with the bytes moved if some were, with its result if it was
 * faster. A close is not cancelled. Returns 0. Errors: ENOENT, no live handle of this context (also if
 * its completion has been delivered); EALREADY, it has finished, and laio_poll() will deliver it;
 * EINVAL; EDEADLK. To cancel twice is no error.
 */
int laio_cancel(struct laio_context *context, void *handle);

/* Sets the pointer that the completion of an operation carries. Errors: ENOENT, EINVAL, EDEADLK. */
int laio_set_user(struct laio_context *context, void *handle, void *user);

/*
 * Cancels an operation when `timeout` from now has passed (NULL: no longer). It then completes as if
 * cancelled, with ETIME instead of ECANCELED: ETIMEDOUT stays what the network says; and with the bytes
 * moved, if some were, so a send that completes short has met its time-out. Returns 0.
 * Errors: ENOENT; EALREADY, it has finished; EINVAL, also if `timeout` is not a time; EDEADLK.
 */
int laio_set_timeout(struct laio_context *context, void *handle, const struct timespec *timeout);

/*
 * Makes all calls on a descriptor complete in the order in which they were made, positioned reads and
 * writes too (`on` not 0), or no longer. Lasts until the descriptor is closed through laio. Returns 0.
 * Errors: EBADF, EINVAL, EDEADLK.
 */
int laio_set_ordered(struct laio_context *context, int fd, int on);

/*
 * Forgets what was learnt about a descriptor. Needed only when it was closed other than through laio
 * and its number may come to mean a file where it meant a stream. Returns 0. Errors: EINVAL, EDEADLK.
 */
int laio_forget(struct laio_context *context, int fd);

/* Operations in flight or not yet delivered. Errors: EINVAL, EDEADLK. */
int laio_pending(struct laio_context *context);

/* ---- Learning of completions elsewhere ---- */

/*
 * A descriptor that is readable when laio_poll() has something to do: for epoll, poll, GLib, libuv. When
 * it is, call laio_poll() with a zero time-out until it returns less than asked for. It belongs to the
 * context: do not read from it, and do not close it. From the first call of this function on,
 * operations are given to the kernel one by one, not in batches. Errors: ENOMEM, EINVAL, EDEADLK.
 */
int laio_fd(struct laio_context *context);

/*
 * Sends signal `number` to the calling thread whenever laio_poll() may have something to do, with
 * si_code SI_QUEUE and `value` in si_value; at most one between two polls. 0 ends it. A small thread
 * watches laio_fd() for this. Returns 0. Errors: EINVAL, not a signal or one that cannot be caught;
 * EAGAIN, ENOMEM: no thread can be started; EDEADLK.
 */
int laio_set_signal(struct laio_context *context, int number, void *value);

/*
 * Makes laio_poll() of the context's thread return, now or the next time it is called. From any thread
 * and any signal handler, as long as the context lives. NULL: the context that the calling thread uses,
 * if it has one. Returns 0. Errors: ESRCH, the thread has no context; nothing else.
 */
int laio_wake(struct laio_context *context);

/*
 * Gives the kernel what is queued for it. laio_poll() does this itself; call it before a long
 * computation. Returns 0. Errors: those of waiting, see laio_poll(); EINVAL; EDEADLK.
 */
int laio_flush(struct laio_context *context);

/*
 * As sigaction(2), and to be called instead of it in programs with the back end "activations". There a
 * signal may come to a kernel thread from which the program has been taken; a handler would then run beside
 * the program, with its thread-local variables. Handlers installed by this always run where the program runs:
 * the signal is sent on, with si_code SI_QUEUE where it was one that only the kernel may give. `old` is what
 * was there before, as it was given. With other back ends it makes no difference. From any thread and any
 * signal handler. Returns 0. Errors: those of sigaction(2).
 */
int laio_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* ---- Looking ---- */

/* How calls went. */
struct laio_counts {
	uint64_t inline_done;  /* done at once */
	uint64_t background;   /* would have blocked: finished in the background */
	uint64_t fallback;     /* could not be tried: finished in the background */
	uint64_t latched;      /* of those, not tried because the file system had refused before */
};

/* Of the back ends "posix-aio" and "linux-aio": their requests for files. */
struct laio_aio_counts {
	uint64_t requests;     /* made; an operation may take several */
	uint64_t declined;     /* left to helpers, because Linux AIO would have had the caller wait */
	uint64_t refused;      /* or came back undone: done by helpers */
	uint64_t bounced;      /* direct I/O through aligned memory of the library */
	uint64_t submissions;  /* calls of io_submit, of one or more requests each */
	uint64_t blocked;      /* requests that io_submit waited for (LAIO_AIO_BLOCKING) */
	uint64_t blocked_ns;   /* nanoseconds in calls of io_submit with such requests */
};

/* What a context has counted since it was made. */
struct laio_stats {
	uint32_t size;            /* sizeof(struct laio_stats), set by the caller */
	uint32_t operations_max;  /* in flight or not yet delivered at once, at most */
	struct laio_counts calls; /* all calls */
	uint64_t operations;      /* calls that went to the background */
	uint64_t completions;     /* delivered */
	uint64_t cancelled;       /* cancelled on request */
	uint64_t timed_out;       /* cancelled by their time-outs */
	uint64_t limited;         /* calls that met the limit of operations */
	uint64_t over_budget;     /* done at once, but delivered by laio_poll() (inline_budget) */
	uint64_t sleeps;          /* waits in laio_poll() */
	uint64_t submissions;     /* to io_uring, of one or more operations each */
	struct laio_aio_counts aio;
	uint64_t handoffs;        /* of "activations", all contexts of the thread: times the program was taken on */
	uint64_t false_wakeups;  /* times the call had returned, or its thread was ready to run */
};

#define LAIO_STATS_INIT { (uint32_t)sizeof(struct laio_stats), 0, { 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0, 0, 0, \
	{ 0, 0, 0, 0, 0, 0, 0 }, 0, 0 }

/*
 * Fills in what has been counted, of the fields that `size` covers and the library knows. Returns 0.
 * Errors: EFAULT, `stats` is NULL; EINVAL, also if `size` is too small; EDEADLK.
 */
int laio_stats(struct laio_context *context, struct laio_stats *stats);

/* The counts of one system call. Returns 0. Errors: EFAULT, `counts` is NULL; EINVAL; EDEADLK. */
int laio_call_stats(struct laio_context *context, long number, struct laio_counts *counts);

/* What a context is made of. */
struct laio_info {
	uint32_t size;             /* sizeof(struct laio_info), set by the caller */
	uint32_t flags;            /* LAIO_INFO_* */
	const char *backend;       /* its name; valid for ever */
	uint32_t operations;       /* the limits in force, as in struct laio_options */
	uint32_t helpers;
	uint32_t ring_entries;
	uint32_t inline_budget;
	uint32_t pending;          /* operations in flight or not yet delivered */
	uint32_t helper_threads;   /* alive now */
	uint64_t memory;           /* bytes held for operations and descriptors */
	uint32_t carriers;         /* the limit in force */
	uint32_t carrier_threads;  /* kernel threads of "activations" alive now, beside the thread itself */
	uint32_t waiting_helpers;  /* the limit in force */
	uint32_t reserved;         /* 0 */
};

#define LAIO_INFO_INIT { (uint32_t)sizeof(struct laio_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define LAIO_INFO_RING 0x1u           /* operations go to an io_uring */
#define LAIO_INFO_NOWAIT 0x2u         /* reads of files can be tried: RWF_NOWAIT is there */
#define LAIO_INFO_RESOLVE_CACHED 0x4u /* opens can be tried: RESOLVE_CACHED is there */
#define LAIO_INFO_PERF 0x8u           /* "activations" notices by LAIO_DETECTOR_PERF ... */
#define LAIO_INFO_IDLE 0x10u          /* ... or LAIO_DETECTOR_IDLE */

/* As laio_stats(), for what the context is made of. */
int laio_info(struct laio_context *context, struct laio_info *info);

/*
 * Writes a page for people to a descriptor: back end, limits, and how each system call and file system
 * went. Blocks like write(2). Returns 0. Errors: those of write(2); EINVAL; EDEADLK.
 */
int laio_report(struct laio_context *context, int fd);

/* The name of the back end with this index: 0 is "sync"; NULL, without errno, after the last. */
const char *laio_strbackend(int index);

/* The version of the library, "0.1.0". Never fails. */
const char *laio_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LAIO_H */
