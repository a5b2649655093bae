/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * context.hpp - the loop of a thread: it delivers operations, and resumes the coroutines that wait for them.
 */
#ifndef LAIO_CONTEXT_HPP
#define LAIO_CONTEXT_HPP

#include <laio.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "result.hpp"

LAIO_BEGIN

class context;
template <class T>
class task;

namespace detail {

class task_promise_base;
template <class T, bool has_tail_calls>
class task_awaiter;

/* A member of a circular list, or a list. */
struct node {
	node *next = this, *previous = this;

	node() noexcept = default;
	node(const node &) = delete;
	node &operator=(const node &) = delete;

	bool empty() const noexcept { return next == this; }

	void unlink() noexcept
	{
		previous->next = next;
		next->previous = previous;
		next = previous = this;
	}

	void append(node &member) noexcept
	{
		member.previous = previous;
		member.next = this;
		previous->next = &member;
		previous = &member;
	}
};

/* A coroutine that the loop can resume. */
struct resumable : node {
	std::coroutine_handle<> coroutine;
};

/* A coroutine that was started and belongs to no awaiter. */
struct spawned_node : node {
	virtual void destroy() noexcept = 0;

protected:
	~spawned_node() = default;
};

inline void destroy_all(node &list) noexcept
{
	while (!list.empty())
		static_cast<spawned_node *>(list.next)->destroy();
}

struct stop_forwarder {
	std::stop_source *source;
	void operator()() const noexcept { source->request_stop(); }
};

/* Returns no time for a duration that is too long for one. */
template <class Rep, class Period>
std::optional<timespec> to_timespec(std::chrono::duration<Rep, Period> duration) noexcept
{
	using namespace std::chrono;
	timespec time = {};

	if (duration >= hours(24 * 365 * 100))
		return std::nullopt;
	if (duration > duration.zero()) {
		nanoseconds ns = ceil<nanoseconds>(duration);
		time.tv_sec = static_cast<time_t>(ns / seconds(1));
		time.tv_nsec = static_cast<long>((ns % seconds(1)).count());
	}
	return time;
}

/* An operation, from its start until its coroutine goes on. The address is the user pointer of its completion. */
class waiter : resumable {
public:
	waiter() noexcept = default;

	/* An operation that has not started is only its description. */
	waiter(waiter &&other) noexcept : resumable() { (void)other; }

	/* Cancels an operation in flight, and waits until the kernel has let go of its buffers. */
	inline ~waiter();

protected:
	/* Makes the call, or begins to read ranges. Returns whether it is done. */
	template <class Request>
	bool begin(Request &request);

	/* The coroutine waits for an operation in flight. */
	void wait(std::coroutine_handle<> awaiting, const std::stop_token *token)
	{
		coroutine = awaiting;
		if (!token || !token->stop_possible())
			return;
		token_ = token;
		stop_.emplace(*token, canceller{this});
	}

	long value_ = 0;
	int error_ = 0;

private:
	friend class laio::context;

	/* Runs in any thread; while it does, the waiter stays in flight. */
	struct canceller {
		waiter *self;
		inline void operator()() const noexcept;
	};

	void finish(long value, int error) noexcept
	{
		stop_.reset();
		value_ = value;
		error_ = error;
		is_in_flight_ = false;
		unlink();
	}

	context *owner_ = nullptr;
	void *handle_ = nullptr;
	bool is_in_flight_ = false;
	const std::stop_token *token_ = nullptr;
	std::optional<std::stop_callback<canceller>> stop_;
};

}

/* Operations, completions and coroutines of one thread, or of one part of a program within a thread. */
class context {
public:
	/* Throws std::system_error for the errors of laio_init(). With options from LAIO_OPTIONS_INIT calls in the
	   background have the rights of the thread; by default of the process (LAIO_PROCESS_RIGHTS). */
	explicit context(const laio_options &options = default_options())
		: raw_(laio_context_new(&options))
	{
		if (!raw_)
			throw std::system_error(errno, std::system_category(), "laio_context_new");
		if (!used())
			used() = this;
	}

	/* Destroys the spawned tasks, cancels what is in flight, and waits until the kernel has let go of the buffers.
	   Tasks that still wait for operations of this context can only be destroyed. */
	~context()
	{
		{
			use scope(*this);
			detail::destroy_all(spawned_);
		}
		while (!in_flight_.empty())
			static_cast<detail::waiter *>(in_flight_.next)->finish(-1, ECANCELED);
		while (!ready_.empty())
			ready_.next->unlink();
		if (used() == this)
			used() = nullptr;
		laio_context_free(raw_);
	}

	context(const context &) = delete;
	context &operator=(const context &) = delete;

	/* Runs a task to its end, together with all else in this context. Returns its value, or throws what it throws.
	   Throws EDEADLK, and destroys the task, if it waits and no operation is in flight. */
	template <class T>
	T run(task<T> root, std::stop_token token = {});

	/* Starts a task that belongs to the context, which resumes it in run() or poll(). An exception that leaves the
	   task ends the program, as it does in a std::thread; laio::task_group collects exceptions. */
	inline void spawn(task<void> body);

	/* Delivers what has finished, and resumes its coroutines; waits for the first, at most the time given (nullopt:
	   without limit). Returns whether a coroutine was resumed. Throws std::system_error if waiting fails. */
	bool poll(std::optional<std::chrono::nanoseconds> timeout = std::nullopt)
	{
		use scope(*this);
		if (resume_ready())
			return true;
		auto time = timeout ? detail::to_timespec(*timeout) : std::nullopt;
		reap(time ? &*time : nullptr);
		return resume_ready();
	}

	/* A descriptor that is readable when poll(0) has work to do, for other event loops. Throws std::system_error. */
	int fd()
	{
		int fd = laio_fd(raw_);
		if (fd == -1)
			throw std::system_error(errno, std::system_category(), "laio_fd");
		return fd;
	}

	/* Whether no coroutine waits for an operation of this context. */
	bool is_idle() const noexcept { return in_flight_.empty() && ready_.empty(); }

	/* Calls `notify(argument)` whenever the context ceases to be idle: other event loops then watch fd(). */
	void on_busy(void (*notify)(void *), void *argument) noexcept
	{
		notify_ = notify;
		argument_ = argument;
	}

	/* Makes poll() return, now or the next time. May be called from any thread and any signal handler. */
	void wake() noexcept { laio_wake(raw_); }

	/* For the functions of laio.h. Its completions belong to this class. */
	laio_context *get() const noexcept { return raw_; }

	/* The context that the thread uses. Throws std::logic_error if there is none. */
	static context &current()
	{
		if (context *now = used()) [[likely]]
			return *now;
		throw std::logic_error("laio: this thread has no laio::context");
	}

	/* The same, or a null pointer. */
	static context *current_or_null() noexcept { return used(); }

	/* The thread uses this context as long as the scope exists. */
	class use {
	public:
		explicit use(context &now) noexcept : before_(std::exchange(used(), &now)) {}
		~use() { used() = before_; }
		use(const use &) = delete;
		use &operator=(const use &) = delete;

	private:
		context *before_;
	};

	static laio_options default_options() noexcept
	{
		laio_options options = LAIO_OPTIONS_INIT;
		options.flags = LAIO_PROCESS_RIGHTS;
		return options;
	}

private:
	friend class detail::waiter;
	friend class detail::task_promise_base;
	template <class T, bool has_tail_calls>
	friend class detail::task_awaiter;

	/* How many coroutines may resume each other, each with stack of its own, before the loop resumes the next. */
	static constexpr unsigned nested_most = 256;

	static context *&used() noexcept
	{
		static constinit thread_local context *now = nullptr;
		return now;
	}

	bool resume_ready()
	{
		if (ready_.empty())
			return false;
		while (!ready_.empty()) {
			auto *first = static_cast<detail::resumable *>(ready_.next);
			first->unlink();
			returned_ = 0;
			first->coroutine.resume();
		}
		return true;
	}

	void resume_later(detail::resumable &it, std::coroutine_handle<> coroutine) noexcept
	{
		it.coroutine = coroutine;
		ready_.append(it);
		wake(); /* for the case that another event loop runs this thread */
	}

	void reap(const timespec *timeout)
	{
		constexpr int most = 64;
		static constexpr timespec now = {};
		laio_completion done[most];
		int count;
		do {
			count = laio_context_poll(raw_, done, most, timeout);
			if (count == -1)
				throw std::system_error(errno, std::system_category(), "laio_poll");
			accept(done, count);
			timeout = &now;
		} while (count == most);
		if (stops_.exchange(false))
			cancel_stopped();
	}

	void accept(const laio_completion *done, int count) noexcept
	{
		for (int i = 0; i < count; i++) {
			auto *it = static_cast<detail::waiter *>(done[i].laio_user);
			if (!it)
				continue;
			it->finish(done[i].laio_return_value, done[i].laio_errno);
			ready_.append(*it);
		}
	}

	/* Another thread has requested a stop, and must not cancel itself. */
	void cancel_stopped() noexcept
	{
		for (detail::node *at = in_flight_.next; at != &in_flight_; at = at->next) {
			auto *it = static_cast<detail::waiter *>(at);
			if (it->token_ && it->token_->stop_requested())
				laio_cancel(raw_, it->handle_);
		}
	}

	/* Coroutines of other operations that end meanwhile are resumed later, by the loop. */
	void cancel_and_wait(detail::waiter &gone) noexcept
	{
		/* In a child after fork(2), the operation is the parent's. */
		if (laio_cancel(raw_, gone.handle_) == -1 && errno == ENOENT)
			return gone.finish(-1, ECANCELED);
		while (gone.is_in_flight_) {
			laio_completion done[16];
			int count = laio_context_poll(raw_, done, 16, nullptr);
			accept(done, count);
			if (count == -1) /* a filter forbids waiting */
				wait_without_sleep(gone);
		}
		gone.unlink();
		if (!ready_.empty())
			wake();
	}

	void wait_without_sleep(detail::waiter &gone) noexcept
	{
		laio_completion done;
		if (laio_take(raw_, gone.handle_, &done) == 0)
			accept(&done, 1);
		else if (errno == ENOENT)
			gone.finish(-1, ECANCELED);
		else
			std::this_thread::yield();
	}

	laio_context *raw_;
	std::thread::id thread_ = std::this_thread::get_id();
	detail::node in_flight_, ready_, spawned_;
	std::atomic<bool> stops_ = false;
	unsigned started_ = 0;  /* tasks that their awaiters have resumed, on the stack now */
	unsigned returned_ = 0; /* tasks that have resumed their awaiters since the loop resumed a coroutine */
	void (*notify_)(void *) = nullptr;
	void *argument_ = nullptr;
};

namespace detail {

inline waiter::~waiter()
{
	stop_.reset();
	if (is_in_flight_)
		owner_->cancel_and_wait(*this);
	else if (!empty())
		unlink(); /* finished, and not yet resumed */
}

inline long submit(laio_context *raw, const laio_call &call, void **handle) noexcept
{
	return laio_submit(raw, &call, handle);
}

inline long submit(laio_context *raw, const laio_ranges &request, void **handle) noexcept
{
	return laio_read_ranges(raw, &request, handle);
}

template <class Request>
bool waiter::begin(Request &request)
{
	context &owner = context::current();
	request.user = this;
	value_ = submit(owner.raw_, request, &handle_);
	if (value_ != -1) [[likely]]
		return true;
	error_ = errno;
	if (error_ != EINPROGRESS)
		return true;
	bool was_idle = owner.is_idle();
	owner_ = &owner;
	is_in_flight_ = true;
	owner.in_flight_.append(*this);
	if (was_idle && owner.notify_)
		owner.notify_(owner.argument_);
	return false;
}

inline void waiter::canceller::operator()() const noexcept
{
	if (std::this_thread::get_id() == self->owner_->thread_) {
		if (self->is_in_flight_)
			laio_cancel(self->owner_->raw_, self->handle_);
	} else {
		self->owner_->stops_ = true;
		self->owner_->wake();
	}
}

}

LAIO_END

#endif
