"""Reads that are cancelled, at each point between their start and the delivery of their result."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from stepped import LONG, SteppedLoop

import laio
from laio import _laio

# One line end in each piece, and characters of several bytes that the pieces divide.
PIECES = ["aé\nb€".encode()[:5], "aé\nb€".encode()[5:], b"\nsecond \xf0\x9f", b"\x98\x80 line\n"]
WHOLE = b"".join(PIECES)


async def opened(kind: str, source: Any) -> Any:
    if kind == "text":
        return await laio.open(source, "r", encoding="utf-8")
    return await laio.open(source, "rb", 0 if kind == "raw" else -1)


async def read(kind: str, file: Any, how: str) -> bytes:
    """Reads in one of several ways. Returns the bytes."""
    if how == "readinto":
        memory = bytearray(6)
        return bytes(memory[: await file.readinto(memory)])
    if how == "readlines":
        found: Any = await file.readlines(3)
        return b"".join(found) if kind != "text" else "".join(found).encode()
    size = {"read": 6, "readline": -1, "all": -1, "read1": 6}[how]
    found = await getattr(file, "read" if how == "all" else how)(size)
    return bytes(found) if kind != "text" else found.encode()


def make_turn_due() -> None:
    """Makes the next call wait for a turn of the event loop."""
    _laio.collect()
    for _ in range(31):
        _laio.stat("/")
    time.sleep(0.0015)


class Scene:
    """A file, and a task that reads from it, in a loop that goes step by step."""

    def __init__(self, kind: str, source: Any, pieces: list[bytes], wait: float) -> None:
        self.kind, self.pieces, self.wait = kind, list(pieces), wait
        self.loop = SteppedLoop()
        self.write_end = -1
        if source is None:
            source, self.write_end = os.pipe()
        self.file = self.loop.finish(self.loop.task(opened(kind, source)))
        self.got = b""

    def write(self) -> None:
        if self.pieces and self.write_end >= 0:
            os.write(self.write_end, self.pieces.pop(0))

    def play(self, how: str, actions: str, is_due: bool) -> None:
        """Begins a read, takes the actions, and ends the read: by its result, or cancelled."""
        if is_due:
            make_turn_due()
        task = self.loop.task(read(self.kind, self.file, how))
        for action in actions:
            if action == "w":
                self.write()
            elif action == "s":
                self.loop.step()
            elif action == "l":
                # Waits if a call on a file must end; a pipe may have nothing yet.
                self.loop.look(self.wait if _laio.pending() else 0.0)
            elif action == "c":
                task.cancel()
        task.cancel()
        try:
            self.got += self.loop.finish(task)
        except asyncio.CancelledError:
            pass

    def end(self) -> bytes:
        """Reads what is left, and returns all that was read."""
        while self.pieces and self.write_end >= 0:
            self.write()
        if self.write_end >= 0:
            os.close(self.write_end)
        while piece := self.loop.finish(self.loop.task(read(self.kind, self.file, "read"))):
            self.got += piece
        self.loop.finish(self.loop.task(self.file.close()))
        return self.got


WAYS = [(kind, how) for kind in ("raw", "binary", "text") for how in ("read", "readline", "all", "readlines")] + [
    ("raw", "readinto"), ("binary", "readinto"), ("binary", "read1"),
]  # fmt: skip


@pytest.mark.parametrize("is_due", [False, True])
@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_a_read_of_a_pipe_may_be_cancelled_at_each_point(kind: str, how: str, is_due: bool) -> None:
    lengths = range(3) if is_due else range(5)
    for length in lengths:
        for actions in itertools.product("wslc", repeat=length):
            scene = Scene(kind, None, PIECES, 0.0)
            scene.play(how, "".join(actions), is_due)
            # Once more, for what the first read has left.
            scene.play(how, "w" + "".join(actions), False)
            assert scene.end() == WHOLE, actions


def in_back_end(name: str, function: Any) -> None:
    """Calls a function in a thread of its own, whose engine has this back end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            assert _laio.backend()[0] == name
            function()
        except BaseException as error:
            failures.append(error)

    before = os.environ.get("LAIO_BACKEND")
    os.environ["LAIO_BACKEND"] = name
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        del os.environ["LAIO_BACKEND"]
        if before is not None:
            os.environ["LAIO_BACKEND"] = before
    if failures:
        raise failures[0]


@pytest.mark.parametrize("back_end", ["threads", "hybrid"])
@pytest.mark.parametrize(("kind", "how"), WAYS)
def test_a_read_of_a_file_may_be_cancelled_at_each_point(
    tmp_path: Path, kind: str, how: str, back_end: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE * 3)

    def program() -> None:
        for length in range(5):
            for actions in itertools.product("slc", repeat=length):
                scene = Scene(kind, path, [], LONG)
                scene.play(how, "".join(actions), False)
                scene.play(how, "".join(actions), False)
                assert scene.end() == WHOLE * 3, actions

    in_back_end(back_end, program)


@pytest.mark.parametrize("back_end", ["threads", "hybrid"])
def test_a_read_of_a_terminal_may_be_cancelled_at_each_point(back_end: str) -> None:
    """A terminal has no non-blocking reads: its bytes are there before the coroutine continues."""

    def program() -> None:
        for length in range(5):
            for actions in itertools.product("wslc", repeat=length):
                controller, terminal = os.openpty()
                os.set_blocking(controller, True)
                scene = Scene("raw", terminal, [b"one\n", b"two\n", b"three\n"], 0.0)
                scene.write_end = controller
                scene.play("read", "".join(actions), False)
                scene.play("read", "w" + "".join(actions), False)
                while scene.pieces:
                    scene.write()
                while len(scene.got) < len(b"one\ntwo\nthree\n"):
                    scene.got += scene.loop.finish(scene.loop.task(read("raw", scene.file, "read")))
                assert scene.got == b"one\ntwo\nthree\n", actions
                scene.loop.finish(scene.loop.task(scene.file.close()))
                os.close(controller)

    in_back_end(back_end, program)


@pytest.mark.parametrize("kind", ["raw", "binary", "text"])
def test_reads_with_time_limits_lose_nothing(run: Any, kind: str) -> None:
    async def program() -> None:
        for seed in range(10):
            rng = random.Random(seed)
            whole = "".join(rng.choice(["a", "é", "😀", "\n"]) for _ in range(1000)).encode()
            read_end, write_end = os.pipe()

            def feed(rng: random.Random = rng, whole: bytes = whole, write_end: int = write_end) -> None:
                at = 0
                while at < len(whole):
                    at += os.write(write_end, whole[at : at + rng.randrange(1, 200)])
                    time.sleep(0 if rng.random() < 0.7 else 0.0003)
                os.close(write_end)

            feeder = threading.Thread(target=feed)
            feeder.start()
            got = b""
            async with await opened(kind, read_end) as file:
                while True:
                    how = rng.choice(["read", "readline", "readlines"] if kind != "raw" else ["read", "readinto"])
                    with anyio.move_on_after(rng.choice([0, 0.0001, 0.001])):
                        if not (piece := await read(kind, file, how)):
                            break
                        got += piece
            feeder.join()
            assert got == whole, seed

    run(program)


def test_several_readers_of_one_pipe_lose_nothing() -> None:
    """One of them is cancelled when there is something for it: another one gets that."""
    for cancelled in range(3):
        for steps in range(5):
            scene = Scene("raw", None, [b"x", b"y", b"z"], 0.0)
            tasks = [scene.loop.task(scene.file.read(1)) for _ in range(3)]
            while scene.loop.step():
                pass
            scene.write()
            scene.loop.look()
            for _ in range(steps):
                scene.loop.step()
            tasks[cancelled].cancel()
            scene.write()
            scene.write()
            for task in tasks:
                try:
                    scene.got += scene.loop.finish(task)
                except asyncio.CancelledError:
                    assert task is tasks[cancelled]
            assert sorted(scene.end()) == sorted(b"xyz"), (cancelled, steps)
