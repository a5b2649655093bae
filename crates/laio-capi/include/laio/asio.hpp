/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * asio.hpp - laio.hpp in an Asio loop (standalone Asio; with LAIO_BOOST_ASIO defined, Boost.Asio).
 *
 *     asio::io_context io(1);
 *     laio::context context;
 *     laio::asio_loop loop(io, context);
 *     laio::async_run(loop, copy(0, 1), [](std::exception_ptr failure) { ... });
 *     io.run();  // ends when no task is in flight, as for all operations of Asio
 *
 * A coroutine of Asio awaits a task with `co_await laio::async_run(loop, size_of(name), asio::use_awaitable)`.
 * The thread that has created the context is the only one that runs the io_context.
 */
#ifndef LAIO_ASIO_HPP
#define LAIO_ASIO_HPP

#ifdef LAIO_BOOST_ASIO
#include <boost/asio.hpp>
#else
#include <asio.hpp>
#endif

#include <laio.hpp>

#include <exception>
#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

LAIO_BEGIN

#ifdef LAIO_BOOST_ASIO
namespace asio_is = ::boost::asio;
#else
namespace asio_is = ::asio;
#endif

/* Delivers the operations of a context from an io_context. It must end before the context. */
class asio_loop {
public:
	asio_loop(asio_is::io_context &io, laio::context &context)
		: context_(context), readable_(io, context.fd())
	{
		context.on_busy([](void *self) { static_cast<asio_loop *>(self)->watch(); }, this);
		if (!context.is_idle())
			watch();
	}

	~asio_loop()
	{
		context_.on_busy(nullptr, nullptr);
		*is_alive_ = false;
		readable_.release(); /* the descriptor belongs to laio */
	}

	asio_loop(const asio_loop &) = delete;
	asio_loop &operator=(const asio_loop &) = delete;

	laio::context &context() const noexcept { return context_; }
	auto get_executor() { return readable_.get_executor(); }

private:
	/* Only while an operation is in flight, so that the io_context can end. */
	void watch()
	{
		if (std::exchange(is_watching_, true))
			return;
		readable_.async_wait(readable_.wait_read, [this, alive = is_alive_](auto error) {
			if (!*alive)
				return;
			is_watching_ = false;
			if (error)
				return;
			watch_again after{*this, *alive};
			context_.poll(std::chrono::nanoseconds(0));
		});
	}

	/* Also if a coroutine throws into the loop. */
	struct watch_again {
		asio_loop &loop;
		const bool &is_alive;

		~watch_again()
		{
			if (is_alive && !loop.context_.is_idle())
				loop.watch();
		}
	};

	laio::context &context_;
	asio_is::posix::stream_descriptor readable_;
	std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
	bool is_watching_ = false;
};

namespace detail {

/* Runs a task, and gives what comes of it to a completion handler, on the handler's executor. */
template <class T, class Handler, class Executor>
task<void> run_for(task<T> body, Handler handler, Executor executor, std::shared_ptr<std::stop_source> stop)
{
	auto work = asio_is::make_work_guard(asio_is::get_associated_executor(handler, executor));
	std::exception_ptr failure;
	slot<T> value;
	try {
		if constexpr (std::is_void_v<T>)
			co_await with_stop_token(std::move(body), stop->get_token());
		else
			value.emplace(co_await with_stop_token(std::move(body), stop->get_token()));
	} catch (...) {
		failure = std::current_exception();
	}
	auto slot = asio_is::get_associated_cancellation_slot(handler);
	if (slot.is_connected())
		slot.clear();
	asio_is::post(work.get_executor(),
		      [handler = std::move(handler), failure, value = std::move(value)]() mutable {
			      if constexpr (std::is_void_v<T>)
				      std::move(handler)(failure);
			      else
				      std::move(handler)(failure, value ? std::move(*value) : T());
		      });
}

}

/* Starts a task, and completes as an asynchronous operation of Asio: void(std::exception_ptr, T), or
   void(std::exception_ptr) for a task without a value. T has a default constructor. A cancellation of the operation, of
   any type, asks the task to stop. */
template <class T, class Token>
auto async_run(asio_loop &loop, task<T> body, Token &&token)
{
	using without_value = std::type_identity<void(std::exception_ptr)>;
	using with_value = std::type_identity<void(std::exception_ptr, detail::nonvoid<T>)>;
	using signature = typename std::conditional_t<std::is_void_v<T>, without_value, with_value>::type;
	return asio_is::async_initiate<Token, signature>(
		[&loop](auto handler, task<T> body) {
			auto stop = std::make_shared<std::stop_source>();
			auto slot = asio_is::get_associated_cancellation_slot(handler);
			if (slot.is_connected())
				slot.assign([stop](asio_is::cancellation_type) { stop->request_stop(); });
			loop.context().spawn(detail::run_for(std::move(body), std::move(handler), loop.get_executor(),
							     std::move(stop)));
		},
		token, std::move(body));
}

LAIO_END

#endif
