"""Writes of which only a part fits: the error is raised, until the rest has been written."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FITS = 10_000
PROGRAM = f"""
import asyncio, errno, os, resource, signal, sys
import laio
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
limit = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))

async def fails(call, *arguments):
    try:
        await call(*arguments)
    except OSError as error:
        return error.errno
    return None

async def program(mode, buffering, size, piece):
    limit(unlimited[0])
    open("file", "wb").close()
    data = (b"z" if "b" in mode else "z") * piece
    file = await laio.open("file", mode, buffering)
    limit({FITS})
    written = 0
    errors = []
    for _ in range(size // piece):
        errors.append(await fails(file.write, data))
        if errors[-1] is not None:
            break
        written += piece
    # What was accepted and does not fit is missing as often as one asks.
    for _ in range(3):
        errors.append(await fails(file.flush))
        assert (errors[-1] == errno.EFBIG) == (written > {FITS}), (mode, size, piece, errors)
    assert errno.EFBIG in errors, (mode, size, piece, errors)
    assert os.path.getsize("file") == {FITS}
    limit(unlimited[0])
    # With room for them, those bytes are written.
    await file.close()
    assert os.path.getsize("file") == max({FITS}, written), (mode, size, piece)

async def main():
    for mode in ("wb", "w", "ab", "r+b"):
        for size, piece in ((200_000, 200_000), (11_000, 11_000), (70_000, 1_000), (66_000, 66_000), (65_536, 65_536)):
            await program(mode, -1, size, piece)
    await program("wb", 0, 11_000, 11_000)
    limit({FITS})
    assert await fails(laio.Path("whole").write_bytes, b"y" * 200_000) == errno.EFBIG
    assert await fails(laio.Path("text").write_text, "y" * 200_000) == errno.EFBIG
    limit(unlimited[0])
    open("source", "wb").write(b"s" * 200_000)
    limit({FITS})
    assert await fails(laio.shutil.copyfile, "source", "target") == errno.EFBIG
    async with laio.open("positioned", "w+b") as file:
        assert await fails(file.pwrite, b"p" * 20_000, 0) == errno.EFBIG
asyncio.run(main())
print("all")
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_a_write_of_which_a_part_fits_raises_the_error(directory: Path) -> None:
    command = [sys.executable, "-X", "dev", "-c", PROGRAM]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all\n"), done.stderr


CREATE = """
import asyncio, os, sys
import laio, tempfile
tempfile.tempdir = os.getcwd()

async def make(function):
    async with function():
        await asyncio.sleep(3600)

async def main():
    for function in (laio.tempfile.NamedTemporaryFile, laio.tempfile.TemporaryDirectory, laio.tempfile.TemporaryFile):
        for turns in range(8):
            task = asyncio.ensure_future(make(function))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
asyncio.run(main())
"""


@pytest.mark.parametrize("back_end", ["lazy", "threads", "uring", "hybrid"])
def test_a_creation_that_is_cancelled_leaves_nothing(directory: Path, back_end: str) -> None:
    """Also if the loop and the process end before the creation does."""
    command = ["env", f"LAIO_BACKEND={back_end}", sys.executable, "-c", CREATE]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if back_end == "uring" and "EPERM" in done.stderr:
        pytest.skip("io_uring is not allowed here")
    assert done.returncode == 0, done.stderr
    assert list(directory.iterdir()) == []


def test_detached_files_go_on_where_they_stood(directory: Path) -> None:
    import laio
    from laio.compat import aiofiles

    async def program() -> None:
        path = directory / "file"
        path.write_bytes(b"0123456789")
        file = await laio.open(path, "r+b")
        assert await file.read(3) == b"012"
        raw = await file.detach()
        assert file.closed and await raw.read(2) == b"34"
        await raw.aclose()
        text = await laio.open(path, "r+")
        await text.write("ab")
        buffer = await text.detach()
        with pytest.raises(ValueError, match="detached"):
            await text.read()
        await buffer.aclose()
        assert path.read_bytes() == b"ab23456789"
        async with aiofiles.open(path, "rb+") as other:
            assert await other.read(1) == b"a"
            blocking = other.detach()
            with pytest.raises(ValueError):
                await other.read()
        assert blocking.read(3) == b"b23"
        blocking.close()

    asyncio.run(program())
