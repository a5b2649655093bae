"""Waiting in the event loop that runs: asyncio (so also uvloop) or trio (so also anyio on both)."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from . import _laio

# A context that does nothing.
NOTHING: AbstractContextManager[object] = nullcontext()

# The loops that watch the descriptor of their thread, with its number.
_watching: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def wait(descriptor: int) -> tuple[Iterator[Any], Callable[[], None]]:
    """Returns an iterator for the coroutine to pass on, and the function that ends it.

    A call has gone to the background, and finishes when ``descriptor`` becomes readable.
    """
    loop = asyncio._get_running_loop()
    if loop is not None:
        return _wait_in_asyncio(loop, descriptor)
    if _trio_runs():
        return _wait_in_trio(descriptor)
    raise RuntimeError("this call of laio would block, and no event loop runs in this thread")


def let_others_run() -> Iterator[Any]:
    """Returns an iterator for the coroutine to pass on, which lets the event loop run once."""
    if asyncio._get_running_loop() is None and _trio_runs():
        return iter(sys.modules["trio"].lowlevel.checkpoint().__await__())
    return _yield_once()


def _yield_once() -> Generator[None, None, None]:
    yield


def pause() -> tuple[Awaitable[object], Callable[[], object]]:
    """Returns what a coroutine awaits, and the function that ends this, which any thread may call."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        future = loop.create_future()
        return future, partial(_end_pause, loop, future)
    if _trio_runs():
        import trio

        event = trio.Event()
        return event.wait(), partial(_end_pause_in_trio, trio.lowlevel.current_trio_token(), event)
    raise RuntimeError("a call of laio would wait for another one, and no event loop runs in this thread")


def _end_pause(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    if asyncio._get_running_loop() is loop:
        _end(future)
        return
    try:
        loop.call_soon_threadsafe(_end, future)
    except RuntimeError:
        # The loop is closed: nothing waits there.
        pass


def _end_pause_in_trio(token: Any, event: Any) -> None:
    import trio

    if _trio_runs() and trio.lowlevel.current_trio_token() is token:
        event.set()
        return
    try:
        token.run_sync_soon(event.set)
    except trio.RunFinishedError:
        pass


def caller() -> tuple[Callable[[Callable[[], object]], bool], Callable[[], bool]]:
    """Returns two functions for other threads.

    The first makes the event loop that runs call a function in its next turn, and returns whether the loop is
    still open. The second returns whether the loop runs.
    """
    loop = asyncio._get_running_loop()
    if loop is not None:
        return partial(_call_soon, loop), loop.is_running
    if _trio_runs():
        import trio

        return partial(_call_soon_in_trio, trio.lowlevel.current_trio_token()), lambda: True
    raise RuntimeError("no event loop runs in this thread")


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> bool:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        return False
    return True


def _call_soon_in_trio(token: Any, function: Callable[[], object]) -> bool:
    import trio

    try:
        token.run_sync_soon(function)
    except trio.RunFinishedError:
        return False
    return True


def shielded() -> AbstractContextManager[object]:
    """A context whose body trio does not cancel. In asyncio a cancellation is delivered once."""
    if asyncio._get_running_loop() is None and _trio_runs():
        scope: AbstractContextManager[object] = sys.modules["trio"].CancelScope(shield=True)
        return scope
    return nullcontext()


@asynccontextmanager
async def beside(
    function: Callable[[], Coroutine[Any, Any, object]],
) -> AsyncIterator[Callable[[], bool]]:
    """Runs a coroutine beside the body of ``async with``, which gets a function that says if it has ended.

    What it raises is lost. At the end of the body it is cancelled.
    """
    if asyncio._get_running_loop() is not None:
        task = asyncio.ensure_future(function())
        try:
            yield task.done
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return
    import trio

    ended = False

    async def run() -> None:
        nonlocal ended
        try:
            await function()
        except Exception:
            pass
        ended = True

    error = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield lambda: ended
        except Exception as raised:
            # Raised after the nursery, which would put it into a group.
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


def _wait_in_asyncio(
    loop: asyncio.AbstractEventLoop, descriptor: int
) -> tuple[Iterator[Any], Callable[[], None]]:
    first = _watching.get(loop) != descriptor
    if first:
        loop.add_reader(descriptor, _laio.collect)
        _watching[loop] = descriptor
    future = loop.create_future()
    # One submission for all the calls that coroutines start in this turn of the loop.
    _laio.flush_later(loop.call_soon, first)
    return iter(future), partial(_end, future)


def _end(future: asyncio.Future[None]) -> None:
    # The coroutine may be cancelled, or its loop closed, while its call goes on.
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(None)


def _trio_runs() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def _wait_in_trio(descriptor: int) -> tuple[Iterator[Any], Callable[[], None]]:
    import trio

    token = trio.lowlevel.current_trio_token()
    if _watching.get(token) != descriptor:
        trio.lowlevel.spawn_system_task(_watch, descriptor)
        _watching[token] = descriptor
    task = trio.lowlevel.current_task()
    waits = True

    def end() -> None:
        nonlocal waits
        if waits:
            waits = False
            trio.lowlevel.reschedule(task)

    def abort(raise_cancel: Callable[[], Any]) -> Any:
        nonlocal waits
        waits = False
        return trio.lowlevel.Abort.SUCCEEDED

    _laio.flush()
    return trio.lowlevel.wait_task_rescheduled(abort).__await__(), end


async def _watch(descriptor: int) -> None:
    import trio

    while True:
        await trio.lowlevel.wait_readable(descriptor)
        _laio.collect()
