"""Compares laio with plain calls and with other packages, in interleaved rounds.

    python bench/compare.py [--loop asyncio|uvloop] [--rounds N] [--seconds S] [--directory DIR] [--cold]

Prints a row for each kind of work: the time of a plain call in µs, and the time of each package in
multiples of it (medians of the rounds). Packages that are not installed are left out. ``--cold`` adds
files that are not in memory, for which it empties the page cache, as root.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import laio
import laio.os

SIZE = 4096
COLD_FILES = 1000
COLD_AT_ONCE = 64
Work = Callable[[], Awaitable[object]]


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class Setting:
    """The files on which the packages work."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "cached"
        self.path.write_bytes(bytes(SIZE))
        self.name = str(self.path)
        self.number = os.open(self.path, os.O_RDONLY)


def plain_work(setting: Setting) -> dict[str, Callable[[], object]]:
    def read() -> bytes:
        with open(setting.name, "rb") as file:
            return file.read()

    return {
        "read a file of 4 KiB": read,
        "pread of 4 KiB": lambda: os.pread(setting.number, SIZE, 0),
        "stat": lambda: os.stat(setting.name),
    }


async def laio_work(setting: Setting) -> dict[str, Work]:
    file = await laio.open(setting.name, "rb")

    async def read() -> bytes:
        async with laio.open(setting.name, "rb") as file:
            return await file.read()

    return {
        "read a file of 4 KiB": read,
        "pread of 4 KiB": lambda: file.pread(SIZE, 0),
        "stat": lambda: laio.os.stat(setting.name),
    }


async def to_thread_work(setting: Setting) -> dict[str, Work]:
    plain = plain_work(setting)
    return {name: (lambda call=call: asyncio.to_thread(call)) for name, call in plain.items()}


async def aiofiles_work(setting: Setting) -> dict[str, Work]:
    import aiofiles
    import aiofiles.os

    file = await aiofiles.open(setting.name, "rb")

    async def read() -> bytes:
        async with aiofiles.open(setting.name, "rb") as file:
            return await file.read()

    async def pread() -> bytes:
        await file.seek(0)
        return await file.read(SIZE)

    return {
        "read a file of 4 KiB": read,
        "pread of 4 KiB": pread,
        "stat": lambda: aiofiles.os.stat(setting.name),
    }


async def anyio_work(setting: Setting) -> dict[str, Work]:
    import anyio

    file = await anyio.open_file(setting.name, "rb")
    path = anyio.Path(setting.name)

    async def read() -> bytes:
        async with await anyio.open_file(setting.name, "rb") as file:
            return await file.read()

    async def pread() -> bytes:
        await file.seek(0)
        return await file.read(SIZE)

    return {"read a file of 4 KiB": read, "pread of 4 KiB": pread, "stat": path.stat}


async def aiofile_work(setting: Setting) -> dict[str, Work]:
    import aiofile

    file = aiofile.AIOFile(setting.name, "rb")
    await file.open()

    async def read() -> bytes:
        async with aiofile.async_open(setting.name, "rb") as file:
            return await file.read()

    return {"read a file of 4 KiB": read, "pread of 4 KiB": lambda: file.read(SIZE, 0)}


PACKAGES = {
    "laio": laio_work,
    "to_thread": to_thread_work,
    "aiofiles": aiofiles_work,
    "anyio": anyio_work,
    "aiofile": aiofile_work,
}


async def time_of(work: Work, seconds: float) -> float:
    """How long one call takes, in seconds."""
    count = 1
    while True:
        begun = time.perf_counter()
        for _ in range(count):
            await work()
        taken = time.perf_counter() - begun
        if taken >= seconds:
            return taken / count
        count = max(count * 2, int(count * seconds / max(taken, 1e-9)))


def plain_time_of(work: Callable[[], object], seconds: float) -> float:
    count = 1
    while True:
        begun = time.perf_counter()
        for _ in range(count):
            work()
        taken = time.perf_counter() - begun
        if taken >= seconds:
            return taken / count
        count = max(count * 2, int(count * seconds / max(taken, 1e-9)))


async def compare_cached(setting: Setting, rounds: int, seconds: float) -> None:
    packages = {
        name: await work(setting)
        for name, work in PACKAGES.items()
        if name == "to_thread" or is_installed(name)
    }
    print(f"{'':24}{'plain':>9}", *(f"{name:>10}" for name in packages))
    for kind, call in plain_work(setting).items():
        plain: list[float] = []
        taken: dict[str, list[float]] = {name: [] for name in packages}
        for _ in range(rounds):
            plain.append(plain_time_of(call, seconds))
            for name, work in packages.items():
                if kind in work:
                    taken[name].append(await time_of(work[kind], seconds) / plain[-1])
        cells = [f"{statistics.median(values):10.2f}" if values else f"{'':>10}" for values in taken.values()]
        print(f"{kind:24}{statistics.median(plain) * 1e6:6.2f} µs", *cells, flush=True)


async def read_cold(names: list[str], read: Callable[[str], Awaitable[bytes]]) -> float:
    """Empties the page cache, and reads all files, some at a time. Returns the seconds it took."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    left = iter(names)

    async def reader() -> None:
        for name in left:
            await read(name)

    begun = time.perf_counter()
    await asyncio.gather(*(reader() for _ in range(COLD_AT_ONCE)))
    return time.perf_counter() - begun


async def compare_cold(setting: Setting, rounds: int) -> None:
    names = []
    for index in range(COLD_FILES):
        path = setting.directory / f"cold{index}"
        path.write_bytes(os.urandom(SIZE))
        names.append(str(path))
    # `to_thread` has one call for a file, as `read_bytes`; the others have one each to open, read and close it.
    readers: dict[str, Callable[[str], Awaitable[bytes]]] = {
        "laio": read_with_laio,
        "read_bytes": lambda name: laio.Path(name).read_bytes(),
    }

    def plain_read(name: str) -> bytes:
        with open(name, "rb") as file:
            return file.read()

    readers["to_thread"] = lambda name: asyncio.to_thread(plain_read, name)
    if is_installed("aiofiles"):
        readers["aiofiles"] = read_with_aiofiles
    if is_installed("anyio"):
        readers["anyio"] = read_with_anyio
    if is_installed("aiofile"):
        readers["aiofile"] = read_with_aiofile
    taken: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, read in readers.items():
            taken[name].append(await read_cold(names, read))
    print(f"\n{COLD_FILES} cold files of 4 KiB, {COLD_AT_ONCE} at a time, ms")
    for name, values in taken.items():
        print(f"{name:>12} {statistics.median(values) * 1e3:8.1f}")


async def read_with_laio(name: str) -> bytes:
    async with laio.open(name, "rb") as file:
        return await file.read()


async def read_with_aiofiles(name: str) -> bytes:
    import aiofiles

    async with aiofiles.open(name, "rb") as file:
        return await file.read()


async def read_with_anyio(name: str) -> bytes:
    import anyio

    async with await anyio.open_file(name, "rb") as file:
        return await file.read()


async def read_with_aiofile(name: str) -> bytes:
    import aiofile

    async with aiofile.async_open(name, "rb") as file:
        return await file.read()


async def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        setting = Setting(Path(directory))
        await compare_cached(setting, arguments.rounds, arguments.seconds)
        if arguments.cold:
            await compare_cold(setting, arguments.rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each measurement, at least")
    parser.add_argument("--directory", help="where the files are made")
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    if arguments.loop == "uvloop":
        import uvloop

        uvloop.run(main(arguments))
    else:
        asyncio.run(main(arguments))
    sys.stdout.flush()
