"""Random programs on files, compared with the module ``io``."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import laio

MODES = ["r", "w", "a", "x", "r+", "w+", "a+"]
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", "é".encode(), "€".encode(), b"xyz"]), max_size=60).map(
        b"".join
    ),
    st.integers(8000, 200_000).map(lambda size: bytes(range(256)) * (size // 256) + b"end\n"),
)
SIZE = st.one_of(st.integers(-1, 20), st.sampled_from([1000, 8192, 70_000, 300_000]))
BINARY_STEPS = st.one_of(
    st.tuples(st.sampled_from(["read", "read1", "readline"]), SIZE),
    st.tuples(st.sampled_from(["readlines", "readline", "tell", "flush", "truncate", "readall", "next", "peek"])),
    st.tuples(st.just("readinto"), st.sampled_from([0, 1, 7, 9000, 100_000])),
    st.tuples(st.just("write"), CONTENTS),
    st.tuples(st.just("writelines"), st.lists(CONTENTS, max_size=3)),
    st.tuples(st.just("truncate"), st.integers(-1, 300)),
    st.tuples(st.just("seek"), st.integers(-5, 300), st.sampled_from([0, 1, 2, 9])),
)
TEXTS = st.lists(st.sampled_from(["a", "\n", "\r", "\r\n", "é", "€", "😀", "xyz " * 30]), max_size=40).map("".join)
TEXT_STEPS = st.one_of(
    st.tuples(st.sampled_from(["read", "readline"]), SIZE),
    st.tuples(st.sampled_from(["readlines", "readline", "flush", "next", "mark", "return", "start", "end"])),
    st.tuples(st.just("write"), TEXTS),
    st.tuples(st.just("writelines"), st.lists(TEXTS, max_size=3)),
)
FEW = settings(
    max_examples=int(os.environ.get("LAIO_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


async def attempt(call: Any, *arguments: Any) -> Any:
    """The value of a call, or a description of its exception."""
    try:
        value = call(*arguments)
        if inspect.isawaitable(value):
            value = await value
    except (StopIteration, StopAsyncIteration):
        return "end"
    except OSError as error:
        return type(error), error.errno
    except (ValueError, TypeError) as error:
        return type(error)
    return value


async def binary_step(file: Any, step: tuple[Any, ...]) -> Any:
    name, *arguments = step
    if name == "readinto":
        memory = bytearray(arguments[0])
        return await attempt(file.readinto, memory), bytes(memory)
    if name == "peek":
        # How much it returns is not promised.
        return None
    if name == "readall":
        return await attempt(file.read)
    if name == "next":
        return await attempt(file.__next__ if hasattr(file, "__next__") else file.__anext__)
    return await attempt(getattr(file, name), *arguments)


def both(tmp_path: Path, contents: bytes | None) -> tuple[Path, Path]:
    paths = tmp_path / "plain", tmp_path / "laio"
    for path in paths:
        path.unlink(missing_ok=True)
        if contents is not None:
            path.write_bytes(contents)
    return paths


@FEW
@given(
    mode=st.sampled_from(MODES),
    buffering=st.sampled_from([-1, -1, 1, 2, 16, 5000]),
    contents=st.none() | CONTENTS,
    steps=st.lists(BINARY_STEPS, max_size=14),
)
def test_binary_files_do_what_io_does(run: Any, tmp_path: Path, mode, buffering, contents, steps) -> None:
    plain_path, our_path = both(tmp_path, contents)

    async def program() -> None:
        plain = await attempt(lambda: open(plain_path, mode + "b", buffering if buffering != 1 else -1))
        ours = await attempt(lambda: laio.open(our_path, mode + "b", buffering))
        if isinstance(plain, tuple):
            assert ours == plain
            return
        last = ""
        for step in steps:
            # A file that is appended to has one position for reads and another for writes, which `io`
            # mixes up without a seek.
            direction = "write" if step[0] in ("write", "writelines", "truncate") else "read"
            if mode == "a+" and step[0] not in ("tell", "flush"):
                if last and direction != last and step[0] != "seek":
                    continue
                last = "" if step[0] == "seek" else direction
            if step == ("readline", 0) and mode in ("w", "a", "x"):
                # `io` returns nothing, rather than refusing.
                continue
            if step[0] == "read1" and "+" in mode:
                # `io` does not write first what waits in the buffer.
                continue
            if step[0] == "tell" and "a" in mode:
                # Before, the position depends on how much `io` has written by itself.
                assert await attempt(ours.flush) == await attempt(plain.flush)
            expected = await binary_step(plain, step)
            assert await binary_step(ours, step) == expected, step
        plain.close()
        await ours.close()
        assert our_path.read_bytes() == plain_path.read_bytes()
        assert await attempt(ours.read) is ValueError
        assert await attempt(ours.write, b"x") is ValueError

    run(program)


@FEW
@given(
    mode=st.sampled_from(MODES),
    newline=st.sampled_from([None, "", "\n", "\r", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-16", "latin-1", "utf-8-sig"]),
    contents=st.none() | TEXTS,
    steps=st.lists(TEXT_STEPS, max_size=14),
)
def test_text_files_do_what_io_does(run: Any, tmp_path: Path, mode, newline, encoding, contents, steps) -> None:
    encoded = None if contents is None else contents.encode(encoding, "replace")
    plain_path, our_path = both(tmp_path, encoded)

    async def program() -> None:
        settings = {"encoding": encoding, "newline": newline, "errors": "replace"}
        plain = await attempt(lambda: open(plain_path, mode, **settings))
        ours = await attempt(lambda: laio.open(our_path, mode, **settings))
        if isinstance(plain, tuple):
            assert ours == plain
            return
        marks: list[tuple[Any, Any]] = []
        # What `io` reads after a write, or writes after a read, without a seek is not defined for text.
        last = ""
        for step in steps:
            name, *arguments = step
            direction = {"write": "write", "writelines": "write", "flush": last, "mark": last}.get(name, "read")
            if name in ("start", "end") or name == "return" and marks:
                direction = ""
            elif name == "return" or last and direction != last:
                continue
            last = direction
            if name == "mark":
                marks.append((await attempt(plain.tell), await attempt(ours.tell)))
                if not isinstance(marks[-1][0], int):
                    # Not while lines are iterated over; ours can.
                    marks.pop()
            elif name == "return" and marks:
                mark = marks.pop()
                assert isinstance(await attempt(plain.seek, mark[0]), int)
                assert isinstance(await attempt(ours.seek, mark[1]), int)
            elif name == "start":
                assert await attempt(ours.seek, 0) == await attempt(plain.seek, 0)
            elif name == "end":
                assert await attempt(ours.seek, 0, 2) == await attempt(plain.seek, 0, 2)
            elif name == "next":
                expected = await attempt(plain.__next__)
                assert await attempt(ours.__anext__) == expected
            elif name != "return":
                expected = await attempt(getattr(plain, name), *arguments)
                assert await attempt(getattr(ours, name), *arguments) == expected, step
        plain.close()
        await ours.close()
        assert our_path.read_bytes() == plain_path.read_bytes()

    run(program)


def test_arguments_of_open_are_checked_as_by_open(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    cases = [
        ("q",), ("rw",), ("",), ("rr",), ("rbt",), ("b",), ("r", 0),
        ("rb", -1, "utf-8"), ("rb", -1, None, "strict"), ("rb", -1, None, None, "\n"),
        ("r", -1, "utf-8", None, "x"), ("r", -1, "no such encoding"),
        ("r", -1, None, None, None, False),
    ]  # fmt: skip

    async def program() -> None:
        for arguments in cases:
            with pytest.raises((ValueError, LookupError)) as plain:
                open(path, *arguments)
            with pytest.raises((ValueError, LookupError)) as ours:
                await laio.open(path, *arguments)
            assert type(ours.value) is type(plain.value), arguments
        with pytest.raises(IsADirectoryError):
            await laio.open(tmp_path)
        with pytest.raises(FileNotFoundError) as missing:
            await laio.open(tmp_path / "missing")
        assert missing.value.filename == str(tmp_path / "missing")

    run(program)


def test_pipes_are_read_as_data_comes(run: Any) -> None:
    async def program() -> None:
        read_end, write_end = os.pipe()
        file = await laio.open(read_end, "rb")
        os.write(write_end, b"one\ntw")
        assert await file.readline() == b"one\n"
        assert await file.read1(100) == b"tw"
        os.write(write_end, b"o\nthree")
        os.close(write_end)
        assert await file.readlines() == [b"o\n", b"three"]
        assert await file.read() == b""
        assert not file.seekable()
        with pytest.raises(OSError):
            await file.seek(0)
        await file.close()

    run(program)


def test_positioned_calls_leave_the_position(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def program() -> None:
        async with laio.open(path, "w+b") as file:
            await file.write(b"0123456789")
            assert await file.pread(3, 4) == b"456"
            assert await file.pwrite(b"XY", 8) == 2
            assert await file.tell() == 10
            memory = bytearray(4)
            assert await file.preadinto(memory, 7) == 3 and memory == b"7XY\0"
            await file.seek(2)
            assert await file.read(2) == b"23"
            assert (await file.stat()).st_size == 10
            await file.sync()
            await file.sync(data_only=True)
            read_end, write_end = os.pipe()
            assert await file.sendfile(write_end, 5, 3) == 3
            assert os.read(read_end, 10) == b"567"
            assert await file.sendfile(write_end) == 10
            os.close(read_end), os.close(write_end)

    run(program)


def test_unbuffered_files_make_each_call(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def program() -> None:
        async with laio.open(path, "wb", buffering=0) as file:
            assert isinstance(file, laio.RawFile) and not isinstance(file, laio.BinaryFile)
            assert await file.write(b"written at once") == 15
            assert path.read_bytes() == b"written at once"
            with pytest.raises(io.UnsupportedOperation):
                await file.read()
        async with laio.open(path, "rb", 0) as file:
            assert await file.read(7) == b"written"
            assert await file.readall() == b" at once"
            assert await file.read(1) == b""
        lines = [b"a\n", b"\n", b"x" * 10_000 + b"\n", b"the end"]
        path.write_bytes(b"".join(lines))
        async with laio.open(path, "rb", 0) as file:
            assert await file.readline() == lines[0]
            assert await file.tell() == 2
            assert await file.readlines() == lines[1:]
            await file.seek(3)
            assert await file.readline(5) == b"xxxxx"
            await file.seek(0)
            assert [line async for line in file] == lines
        read_end, write_end = os.pipe()
        os.write(write_end, b"one\ntwo")
        os.close(write_end)
        async with laio.open(read_end, "rb", 0) as file:
            assert await file.readline() == b"one\n"
            assert await file.read(10) == b"two"

    run(program)


def test_a_descriptor_number_stays_open_if_so_asked(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")

    async def program() -> None:
        number = os.open(path, os.O_RDONLY)
        async with laio.open(number, "rb", closefd=False) as file:
            assert await file.read() == b"contents"
        os.fstat(number)
        async with laio.open(number, "rb") as file:
            assert await file.read(3) == b"con"
        with pytest.raises(OSError):
            os.fstat(number)

    run(program)


def test_an_opener_opens(run: Any, tmp_path: Path) -> None:
    async def program() -> None:
        made: list[tuple[str, int]] = []

        def opener(name: str, flags: int) -> int:
            made.append((name, flags))
            return os.open(name, flags, 0o600)

        async with laio.open(tmp_path / "file", "w", opener=opener) as file:
            await file.write("x")
        assert made == [(str(tmp_path / "file"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)]

    run(program)


@pytest.mark.parametrize("size", [0, 1, 4096, 65_535, 65_536, 1024 * 1024 - 1, 1024 * 1024, 5_000_001])
def test_whole_files_of_each_size(run: Any, tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    contents = (bytes(range(256)) * (size // 256 + 1))[:size]
    path.write_bytes(contents)

    async def program() -> None:
        assert await laio.Path(path).read_bytes() == contents
        async with laio.open(path, "rb") as file:
            assert await file.read() == contents
        assert await laio.Path("/proc/self/status").read_text() != ""

    run(program)


def test_a_large_read_lets_others_run(run_asyncio: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open(path, "wb") as sparse:
        sparse.truncate(200 * 1024 * 1024)

    async def program() -> None:
        turns = 0
        reads = True

        async def other() -> None:
            nonlocal turns
            while reads:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        assert len(await laio.Path(path).read_bytes()) == 200 * 1024 * 1024
        reads = False
        await task
        assert turns > 1

    run_asyncio(program)
