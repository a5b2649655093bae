"""An event loop of which a test takes each step, so that it decides what happens between them."""

from __future__ import annotations

import asyncio
import collections
import select
from collections.abc import Coroutine
from typing import Any

# How long a call on a file may take in the background, in seconds.
LONG = 60.0


class SteppedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as a task and laio need."""

    def __init__(self) -> None:
        self.ready: collections.deque[asyncio.Handle] = collections.deque()
        self.readers: dict[int, Any] = {}

    def get_debug(self) -> bool:
        return False

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def call_soon(self, callback: Any, *arguments: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self.ready.append(handle)
        return handle

    def add_reader(self, descriptor: int, callback: Any, *arguments: Any) -> None:
        self.readers[descriptor] = callback

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def step(self) -> bool:
        """Runs one callback. Returns whether there was one."""
        if not self.ready:
            return False
        handle = self.ready.popleft()
        if not handle.cancelled():
            self._inside(handle._run)
        return True

    def look(self, timeout: float = 0.0) -> None:
        """Calls what is due to be called because a descriptor is readable."""
        for descriptor in select.select(list(self.readers), [], [], timeout)[0]:
            self._inside(self.readers[descriptor])

    def task(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._inside(lambda: asyncio.Task(coroutine, loop=self))

    def finish(self, task: asyncio.Task[Any]) -> Any:
        """Goes on until a task is over. Returns its result."""
        while not task.done():
            if not self.step():
                self.look(LONG)
        return task.result()

    def _inside(self, function: Any) -> Any:
        asyncio._set_running_loop(self)
        try:
            return function()
        finally:
            asyncio._set_running_loop(None)
