"""Warnings about an event loop that does not turn."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from . import _laio, _loops

# How many stalls are reported in so many seconds. `Stall.unreported` counts the others.
MAX_REPORTS = 10
REPORT_INTERVAL = 60.0

# The shortest time between two looks, in seconds.
SHORTEST_PERIOD = 0.001

_logger = logging.getLogger("laio")


@dataclass(frozen=True)
class Stall:
    """An event loop that has not turned. It has not yet turned when this is reported."""

    #: For how many seconds at least.
    lasted: float
    #: What the loop's thread was doing, the outermost function first.
    stack: traceback.StackSummary
    #: The system call in which it is blocked, or what takes its place; empty if it computes.
    call: str
    #: The file, the peer or the child of the call.
    subject: str
    #: What laio would do with the call.
    remedy: str
    #: How many stalls before this one were not reported, because of the limit.
    unreported: int

    def __str__(self) -> str:
        place = f"{self.call} {self.subject}".strip() or "running"
        lines = [f"the event loop has not turned for {self.lasted * 1000:.0f} ms: {place}\n"]
        lines += self.stack.format()
        if self.remedy:
            lines.append(f"  → {self.remedy}\n")
        if self.unreported:
            lines.append(f"  {self.unreported} stalls before this one were not reported\n")
        return "".join(lines).rstrip("\n")


class Detector:
    """Watches an event loop until it is stopped, or the loop is closed. A context manager."""

    def __init__(self, over: float, callback: Callable[[Stall], object] | None) -> None:
        self._call, self._loop_runs = _loops.caller()
        self._callback = callback
        self._thread_ident = threading.get_ident()
        self._loop_thread = _laio.LoopThread()
        self._turns = Turns(over)
        self._reports = Reports()
        self._end = threading.Event()
        # What the loop's thread did when it was late.
        self._before: _laio.ThreadLook | None = None
        self._looks = 0
        self._stalls = 0
        self._thread = threading.Thread(target=self._run, name="laio-detect", daemon=True)
        self._thread.start()

    @property
    def looks(self) -> int:
        """How often it has looked whether the loop turns."""
        return self._looks

    @property
    def stalls(self) -> int:
        """How many stalls it has seen, with those that were not reported."""
        return self._stalls

    def stop(self) -> None:
        """Ends the watch. A callback that runs goes on."""
        self._end.set()

    def __enter__(self) -> Detector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        turns = self._turns
        last = time.monotonic()
        while not self._end.wait(turns.period):
            now = time.monotonic()
            if not self._loop_runs():
                # Between two runs of the loop no task waits for it.
                turns.restart()
            elif turns.look(now - last):
                self._stalls += 1
                self._report()
            elif turns.is_late:
                self._before = self._loop_thread.look()
            last = now
            if turns.is_answered:
                turns.ask()
                if not self._call(turns.answer):
                    return
            self._looks += 1

    def _report(self) -> None:
        unreported = self._reports.admit(time.monotonic())
        if unreported is None:
            return
        frame = sys._current_frames().get(self._thread_ident)
        stack = traceback.extract_stack(frame)
        del frame
        call, subject, remedy = self._loop_thread.place(self._before)
        if self._turns.is_answered:
            # The stall has ended meanwhile, and this is another call.
            call = subject = remedy = ""
        stall = Stall(self._turns.time, _of_callback(stack), call, subject, remedy, unreported)
        self._tell(stall)

    def _tell(self, stall: Stall) -> None:
        if self._callback is None:
            _logger.warning("%s", stall)
            return
        try:
            self._callback(stall)
        except Exception:
            _logger.exception("the callback of laio.detect failed")


class Turns:
    """Decides whether a loop turns: it is asked again and again to call a function."""

    def __init__(self, over: float) -> None:
        self.over = over
        self.period = max(over / 2, SHORTEST_PERIOD)
        self.is_answered = True
        #: For how long the loop has not answered, in seconds.
        self.time = 0.0
        self._is_reported = False

    def ask(self) -> None:
        self.is_answered = False
        self.restart()

    def restart(self) -> None:
        self.time = 0.0
        self._is_reported = False

    def answer(self) -> None:
        self.is_answered = True

    @property
    def is_late(self) -> bool:
        """Whether it has not answered for at least one period, and this is not reported."""
        return not self.is_answered and not self._is_reported

    def look(self, elapsed: float) -> bool:
        """Takes a look, so long after the last one. Returns whether a stall has to be reported."""
        if self.is_answered:
            return False
        # While this thread had no processor or not the interpreter's lock, the loop may not have run either.
        self.time += min(elapsed, 2 * self.period)
        if self._is_reported or self.time < self.over:
            return False
        self._is_reported = True
        return True


class Reports:
    """Limits the number of reports."""

    def __init__(self) -> None:
        self._began = float("-inf")
        self._reported = 0
        self._unreported = 0

    def admit(self, now: float) -> int | None:
        """Whether a stall may be reported now, and how many were not since the last one that was."""
        if now - self._began >= REPORT_INTERVAL:
            self._began = now
            self._reported = 0
        if self._reported == MAX_REPORTS:
            self._unreported += 1
            return None
        self._reported += 1
        unreported, self._unreported = self._unreported, 0
        return unreported


def detect(over: float = 0.1, callback: Callable[[Stall], object] | None = None) -> Detector:
    """Warns when the event loop that runs has not turned for ``over`` seconds, until the loop is closed.

    A warning goes to the logger ``laio``, or to ``callback``, which is called in a thread of its own. As a
    context manager it ends with the ``with`` statement.
    """
    return Detector(over, callback)


def _of_callback(stack: traceback.StackSummary) -> traceback.StackSummary:
    """The part of a stack that belongs to a callback of asyncio's loop."""
    starts = [
        index
        for index, frame in enumerate(stack)
        if frame.name == "_run" and frame.filename.endswith("asyncio/events.py")
    ]
    return traceback.StackSummary.from_list(stack[starts[-1] + 1 :]) if starts else stack
