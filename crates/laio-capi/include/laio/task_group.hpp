/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * task_group.hpp - tasks that run beside each other, and end together: context::spawn() and task_group.
 */
#ifndef LAIO_TASK_GROUP_HPP
#define LAIO_TASK_GROUP_HPP

#include <coroutine>
#include <cstddef>
#include <exception>
#include <stop_token>
#include <utility>

#include "context.hpp"
#include "task.hpp"

LAIO_BEGIN

class task_group;

namespace detail {

/* A coroutine that destroys itself at its end; before that its list can. */
class spawned {
public:
	struct promise_type final : spawned_node {
		task_group *group = nullptr;
		const std::stop_token *token = nullptr;

		~promise_type() { unlink(); }
		spawned get_return_object() noexcept
		{
			return spawned(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_always initial_suspend() const noexcept { return {}; }
		struct final_awaiter {
			bool await_ready() const noexcept { return false; }
			inline std::coroutine_handle<>
			await_suspend(std::coroutine_handle<promise_type> ended) const noexcept;
			void await_resume() const noexcept {}
		};
		final_awaiter final_suspend() const noexcept { return {}; }
		void return_void() const noexcept {}
		inline void unhandled_exception() noexcept;
		const std::stop_token *laio_stop_token() const noexcept { return token; }
		void destroy() noexcept override
		{
			std::coroutine_handle<promise_type>::from_promise(*this).destroy();
		}
	};

	static spawned make(task<void> body) { co_await std::move(body); }

	void start(node &list, task_group *group, const std::stop_token *token)
	{
		body_.promise().group = group;
		body_.promise().token = token;
		list.append(body_.promise());
		body_.resume();
	}

private:
	explicit spawned(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}

	std::coroutine_handle<promise_type> body_;
};

}

/* Any number of tasks, started at any time. The first exception asks all to stop, and join() throws it. */
class task_group {
public:
	/* `outer` is usually `co_await laio::current_stop_token()`. */
	explicit task_group(const std::stop_token &outer = {}) : forward_(outer, detail::stop_forwarder{&source_}) {}

	/* Destroys the tasks that still run. */
	~task_group() { detail::destroy_all(tasks_); }

	task_group(const task_group &) = delete;
	task_group &operator=(const task_group &) = delete;

	/* Starts a task immediately: it runs until it first waits. */
	void spawn(task<void> body)
	{
		detail::spawned::make(std::move(body)).start(tasks_, this, &token_);
	}

	void request_stop() noexcept { source_.request_stop(); }
	bool is_empty() const noexcept { return tasks_.empty(); }

	/* Waits until no task runs, and throws the first exception. */
	auto join() noexcept
	{
		struct awaiter {
			task_group &group;
			bool await_ready() const noexcept { return group.is_empty(); }
			void await_suspend(std::coroutine_handle<> joiner) const noexcept { group.joiner_ = joiner; }
			void await_resume() const
			{
				if (group.failure_)
					std::rethrow_exception(std::exchange(group.failure_, nullptr));
			}
		};
		return awaiter{*this};
	}

private:
	friend struct detail::spawned::promise_type;

	detail::node tasks_;
	std::stop_source source_;
	std::stop_token token_ = source_.get_token();
	std::coroutine_handle<> joiner_;
	std::exception_ptr failure_;
	std::stop_callback<detail::stop_forwarder> forward_;
};

namespace detail {

inline std::coroutine_handle<>
spawned::promise_type::final_awaiter::await_suspend(std::coroutine_handle<promise_type> ended) const noexcept
{
	task_group *group = ended.promise().group;
	ended.destroy();
	if (group && group->is_empty() && group->joiner_)
		return std::exchange(group->joiner_, nullptr);
	return std::noop_coroutine();
}

inline void spawned::promise_type::unhandled_exception() noexcept
{
	if (!group)
		std::terminate();
	if (!group->failure_)
		group->failure_ = std::current_exception();
	group->request_stop();
}

}

inline void context::spawn(task<void> body)
{
	use scope(*this);
	detail::spawned::make(std::move(body)).start(spawned_, nullptr, nullptr);
}

LAIO_END

#endif
