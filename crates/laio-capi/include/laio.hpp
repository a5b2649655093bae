/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * laio.hpp - C++20 coroutines over laio.h: any system call is awaited, and costs a suspension only if it blocks.
 *
 *     c++ -std=c++20 program.cpp $(pkg-config --cflags --libs laio)
 *
 *     laio::task<> copy(int from, int to)
 *     {
 *         char buffer[65536];
 *         while (auto count = co_await laio::read(from, buffer).or_throw())
 *             co_await laio::write(to, {buffer, count}).or_throw();
 *     }
 *
 *     int main()
 *     {
 *         laio::context context;
 *         context.run(copy(0, 1));
 *     }
 *
 * Conventions:
 *
 *   Results.     `co_await laio::read(...)` is a laio::result<std::size_t>: std::expected where the library has it, else
 *                a small class with the same members. `.or_throw()` is the value, or throws std::system_error.
 *   Contexts.    An operation belongs to the laio::context that its thread uses, and ends there. The first context of a
 *                thread is used from its construction; any other one while its run() or poll() is on the stack.
 *   Rights.      Calls in the background have the rights of the process, as with a pool of threads, unless the options of
 *                the context say otherwise: context(laio_options(LAIO_OPTIONS_INIT)) is for single threads that give
 *                up rights.
 *   Inline.      A call that does not block completes in await_ready: no suspension, no allocation, no lock.
 *   Buffers.     Everything that a call points to must live until the co_await is over. An operation that is destroyed
 *                in flight, because its coroutine is, is cancelled, and its destructor waits until the kernel has let
 *                go of the buffers; so they may live in the same coroutine.
 *   Stop.        A task hands its stop token to the tasks and operations that it awaits. A request to stop, from any
 *                thread, cancels the operation in flight (ECANCELED). It does not affect calls that do not block.
 *   Exceptions.  What a task throws, its awaiter catches.
 */
#ifndef LAIO_HPP
#define LAIO_HPP

#include "laio/calls.hpp"
#include "laio/context.hpp"
#include "laio/operation.hpp"
#include "laio/ranges.hpp"
#include "laio/result.hpp"
#include "laio/task.hpp"
#include "laio/task_group.hpp"
#include "laio/when.hpp"

#endif
