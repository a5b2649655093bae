"""Warnings about a loop that does not turn. What holds it up ends only after the warning."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from pathlib import Path
from typing import Any

import pytest

import laio
from laio._detect import MAX_REPORTS, REPORT_INTERVAL, Reports, Turns

OVER = 0.02


def held_up_by_a_call(path: Path) -> None:
    with open(path, "rb") as file:
        file.read()


def test_a_call_is_named_with_its_file_and_its_function(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    os.mkfifo(path)
    found: queue.Queue[laio.Stall] = queue.Queue()

    def release(stall: laio.Stall) -> None:
        found.put(stall)
        path.write_bytes(b"end")

    async def program() -> laio.Stall:
        # On a loaded machine the warning can come before the call.
        while True:
            with laio.detect(OVER, release):
                held_up_by_a_call(path)
            stall = found.get()
            if stall.call.startswith("open") and stall.stack[-1].name == "held_up_by_a_call":
                return stall

    stall = run(program)
    assert stall.lasted >= OVER
    assert stall.subject == str(path)
    assert stall.remedy.startswith("laio attempts it")
    text = str(stall)
    assert f"{stall.call} {path}" in text, text
    assert "with open(path" in text, text


def test_a_loop_that_computes_is_running(run: Any) -> None:
    found: queue.Queue[laio.Stall] = queue.Queue()

    async def program() -> laio.Stall:
        ends = threading.Event()

        def end(stall: laio.Stall) -> None:
            found.put(stall)
            ends.set()

        with laio.detect(OVER, end):
            while not ends.is_set():
                pass
        return found.get()

    stall = run(program)
    assert stall.stack[-1].name in ("program", "is_set")
    assert stall.call in ("", "no processor"), stall
    assert stall.subject == ""
    assert str(stall).splitlines()[0].endswith(stall.call or "running")


def test_a_loop_that_sleeps_is_not_reported(run: Any) -> None:
    async def program() -> None:
        if run.__name__ == "_run_in_trio":
            import trio

            sleep: Any = trio.sleep
        else:
            sleep = asyncio.sleep
        with laio.detect(0.2, lambda stall: None) as detector:
            # A loaded machine can hold it up; a sleep that counted would be reported every second look.
            while True:
                looks, stalls = detector.looks, detector.stalls
                while detector.looks < looks + 4:
                    await sleep(OVER)
                if detector.stalls == stalls:
                    return

    run(program)


def test_warnings_go_to_the_logger() -> None:
    found: queue.Queue[logging.LogRecord] = queue.Queue()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.put(record)

    handler = Handler()
    logger = logging.getLogger("laio")
    logger.addHandler(handler)

    async def program() -> logging.LogRecord:
        with laio.detect(over=OVER):
            return found.get()

    record = asyncio.run(program())
    logger.removeHandler(handler)
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("the event loop has not turned for")


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()

    def fail(stall: laio.Stall) -> None:
        called.set()
        raise ValueError("of the callback")

    async def program() -> laio.Detector:
        detector = laio.detect(OVER, fail)
        called.wait()
        return detector

    detector = asyncio.run(program())
    # The loop is closed, which ends the watch.
    detector._thread.join()
    assert "of the callback" in caplog.text
    assert detector.stalls >= 1


def test_a_loop_that_does_not_run_is_not_reported() -> None:
    async def program() -> laio.Detector:
        return laio.detect(OVER, lambda stall: None)

    loop = asyncio.new_event_loop()
    detector = loop.run_until_complete(program())
    looks = detector.looks
    while detector.looks < looks + 10:
        threading.Event().wait(OVER)
    stalls = detector.stalls
    while detector.looks < looks + 20:
        threading.Event().wait(OVER)
    assert detector.stalls == stalls
    detector.stop()
    detector._thread.join()
    loop.close()


def test_no_loop() -> None:
    with pytest.raises(RuntimeError, match="no event loop runs"):
        laio.detect()


def test_turns_and_the_limit() -> None:
    turns = Turns(0.4)
    assert not turns.look(9)
    turns.ask()
    # Time in which the watch did not run counts at most two periods.
    assert [turns.look(0.1), turns.look(0.2), turns.look(9), turns.look(9)] == [False, False, True, False]
    turns.answer()
    assert not turns.look(9)
    turns.ask()
    assert turns.look(9)
    reports = Reports()
    assert [reports.admit(0) for _ in range(MAX_REPORTS + 5)] == [0] * MAX_REPORTS + [None] * 5
    assert reports.admit(REPORT_INTERVAL) == 5
