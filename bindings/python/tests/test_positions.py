"""Random programs on text files and buffered files, beside `io`: what they read and write, and where.

A program follows from its number, so a failure names all that is needed to repeat it. LAIO_EXAMPLES is how many
run, LAIO_FIRST the number of the first.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import laio

EXAMPLES = int(os.environ.get("LAIO_EXAMPLES", "400"))
FIRST = int(os.environ.get("LAIO_FIRST", "0"))
ENCODINGS = ["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be", "latin-1", "cp1252"] + [
    "ascii", "shift_jis", "gb18030", "big5", "euc_kr", "utf-7"
]  # fmt: skip
NEWLINES = [None, "", "\n", "\r", "\r\n"]
MODES = ["r", "r+", "r+", "w+", "w", "a", "a+"]
WORDS = ["a", "xyz ", "\n", "\r", "\r\n", "\n\n", "é", "ü", "€", "日本", "한국", "😀", "+", "-", "\ufeff", "~" * 60]
# Places in a text that are smaller are positions in bytes.
IN_BYTES = 1 << 64
SIZES = [-1, 0, 1, 2, 3, 7, 20, 100, 1000, 8191, 8192, 8193, 20_000, 70_000]


async def attempt(call: Any, *arguments: Any) -> Any:
    """The value of a call, or the class and number of its exception."""
    try:
        value = call(*arguments)
        return await value if inspect.isawaitable(value) else value
    except Exception as error:
        return type(error), getattr(error, "errno", None)


def text_of(rng: random.Random, words: int) -> str:
    return "".join(rng.choice(WORDS) for _ in range(words))


def contents(rng: random.Random, encoding: str) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return rng.randbytes(rng.choice([3, 100, 20_000]))
    words = rng.choice([0, 1, 5, 30, 300]) if kind < 0.8 else rng.choice([3000, 9000, 30_000])
    if words > 300 and rng.random() < 0.5:
        return (text_of(rng, 40) * (words // 40)).encode(encoding, "replace")
    return text_of(rng, words).encode(encoding, "replace")


def text_steps(rng: random.Random) -> list[tuple[Any, ...]]:
    steps: list[tuple[Any, ...]] = []
    for _ in range(rng.randrange(1, 16)):
        kind = rng.choice(["read"] * 4 + ["readline"] * 4 + ["tell", "mark", "mark", "return", "return", "seek", "write"])
        kind = rng.choice([kind] * 9 + ["readlines", "truncate", "flush"])
        if kind in ("read", "readline"):
            steps.append((kind, rng.choice(SIZES)))
        elif kind == "readlines":
            steps.append((kind, rng.choice([-1, 1, 50, 10_000])))
        elif kind == "seek":
            steps.append((kind, 0, rng.choice([0, 1, 2])))
        elif kind == "write":
            steps.append((kind, text_of(rng, rng.choice([0, 1, 3, 40])) * rng.choice([1, 1, 1, 500])))
        elif kind == "truncate":
            steps.append((kind, rng.choice([None, None, 0, 5, 9000])))
        else:
            steps.append((kind,))
    return steps


def binary_steps(rng: random.Random) -> list[tuple[Any, ...]]:
    steps: list[tuple[Any, ...]] = []
    for _ in range(rng.randrange(1, 16)):
        kind = rng.choice(["read", "read", "readline", "readinto", "write", "write", "seek", "seek", "tell", "readlines"])
        kind = rng.choice([kind] * 9 + ["truncate", "flush"])
        if kind in ("read", "readline"):
            steps.append((kind, rng.choice(SIZES)))
        elif kind == "readinto":
            steps.append((kind, rng.choice(SIZES[1:])))
        elif kind == "readlines":
            steps.append((kind, rng.choice([-1, 1, 50])))
        elif kind == "seek":
            steps.append((kind, rng.choice([0, 1, -1, 5, -3, 100, 8192, 65_536]), rng.choice([0, 0, 1, 2])))
        elif kind == "write":
            steps.append((kind, rng.randbytes(rng.choice([0, 1, 3, 100, 8192, 70_000]))))
        elif kind == "truncate":
            steps.append((kind, rng.choice([None, None, 0, 5, 9000])))
        else:
            steps.append((kind,))
    return steps


class Pair:
    """A file of `io`, and one of laio with the same contents."""

    def __init__(self, root: Path, plain: Any, ours: Any) -> None:
        self.root, self.plain, self.ours = root, plain, ours
        self.marks: list[tuple[int, int]] = []
        self.has_written = False
        # Whether `io` has filled its buffer while it sought, so that how far it then reads ahead, and where it
        # writes after that, depends on the size of that.
        self.is_filled = False

    async def step(self, name: str, *arguments: Any) -> None:
        if name == "readline" and arguments == (0,):
            # Of a file that is not readable `io` returns nothing, rather than refusing.
            return
        reads = name.startswith("read")
        if reads and self.has_written:
            # What `io` reads after a write without a flush is not defined: Python 3.11 mixes up the buffers.
            self.plain.flush()
            await self.ours.flush()
            self.has_written = False
        if self.is_filled and (name == "write" or (name, *arguments) == ("truncate", None)):
            return
        if name == "write":
            self.has_written = True
        if name == "mark":
            plain, ours = await attempt(self.plain.tell), await attempt(self.ours.tell)
            assert type(plain) is type(ours), (plain, ours)
            if isinstance(plain, int):
                self.marks.append((plain, ours))
            return
        if name == "return":
            if self.marks:
                plain, ours = self.marks[len(self.marks) // 2]
                mine = await attempt(self.ours.seek, ours)
                theirs = await attempt(self.plain.seek, plain)
                assert (mine == ours) == (theirs == plain), (mine, theirs)
                self.is_filled = max(plain, ours) >= IN_BYTES
            return
        if name == "readinto":
            plain, ours = bytearray(arguments[0]), bytearray(arguments[0])
            assert await attempt(self.ours.readinto, ours) == await attempt(self.plain.readinto, plain)
            assert ours == plain
            return
        expected = await attempt(getattr(self.plain, name), *arguments)
        found = await attempt(getattr(self.ours, name), *arguments)
        if name == "readlines" and hasattr(self.plain, "encoding"):
            # It iterates, and `io` does not know then where the text stands.
            await attempt(self.plain.seek, 0)
            await attempt(self.ours.seek, 0)
        if name == "seek" and isinstance(expected, tuple):
            # Python 3.11 returns a wrong place from the next relative one.
            assert found == expected
            await attempt(self.plain.seek, 0)
            await attempt(self.ours.seek, 0)
            return
        if name == "seek":
            self.is_filled = isinstance(expected, int) and expected >= IN_BYTES
        if name in ("tell", "seek") and isinstance(expected, int) and max(expected, found) >= IN_BYTES:
            # The same place, described by another state of the decoder.
            return
        assert found == expected, f"{name}{arguments}: {found!r:.300} in place of {expected!r:.300}"

    async def run(self, steps: list[tuple[Any, ...]]) -> None:
        for index, step in enumerate(steps):
            try:
                await self.step(*step)
            except AssertionError as error:
                raise AssertionError(f"step {index} of {steps!r:.2000}: {error}") from error
        assert await attempt(self.ours.close) == await attempt(self.plain.close)
        ours, plain = (self.root / "ours").read_bytes(), (self.root / "plain").read_bytes()
        assert ours == plain, (steps, len(ours), len(plain))


async def play(root: Path, number: int) -> None:
    rng = random.Random(number)
    is_text = rng.random() < 0.75
    mode = rng.choice(MODES)
    encoding = rng.choice(ENCODINGS)
    data = contents(rng, encoding)
    for name in ("plain", "ours"):
        (root / name).write_bytes(data)
    if is_text:
        errors = rng.choice(["strict", "replace", "ignore", "surrogateescape"])
        settings: dict[str, Any] = {"encoding": encoding, "newline": rng.choice(NEWLINES), "errors": errors}
        steps = text_steps(rng)
    else:
        mode += "b"
        settings = {"buffering": rng.choice([-1, -1, 2, 16, 5000])}
        steps = binary_steps(rng)
        if "a" in mode:
            # Where such a file stands before it has written depends on the size of the buffer.
            steps = [step for step in steps if step[0] not in ("tell", "seek")]
    plain = await attempt(lambda: open(root / "plain", mode, **settings))
    ours = await attempt(lambda: laio.open(root / "ours", mode, **settings))
    if isinstance(plain, tuple):
        assert plain == ours
        return
    await Pair(root, plain, ours).run(steps)


def test_programs_are_those_of_io() -> None:
    # In memory, if it is there: nothing of this is about the disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    root = Path(tempfile.mkdtemp(dir=memory))

    async def program() -> None:
        for number in range(FIRST, FIRST + EXAMPLES):
            try:
                await play(root, number)
            except BaseException as error:
                pytest.fail(f"LAIO_FIRST={number} LAIO_EXAMPLES=1: {error!r:.4000}")

    try:
        asyncio.run(program())
    finally:
        shutil.rmtree(root)
