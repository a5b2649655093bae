"""How late an event loop is beside a disk that takes 100 ms for each read.

    cargo build --release -p laio-bench --example stalls
    python bench/stalls.py DISK [--loop asyncio|uvloop] [--seconds S] [--plot FILE.svg]

DISK is the program ``target/release/examples/stalls``, which serves the disk (a FUSE file system: as root). 200
tasks read from it all the time. Another task measures how late its timer of 1 ms is, a third one how long a
read of 4 KiB of a cached file takes. Prints a row for each package; the plot needs matplotlib.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import laio

TASKS = 200
PAGE = 4096
Read = Callable[[int], Awaitable[bytes]]
Open = Callable[[str], Awaitable[Read]]


@contextlib.contextmanager
def slow_disk(program: str) -> Iterator[str]:
    """Starts the disk. Returns the name of its file."""
    disk = subprocess.Popen([program, "disk"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert disk.stdin is not None and disk.stdout is not None
    name = disk.stdout.readline().strip()
    if not name:
        raise SystemExit("the disk could not be mounted: that needs root and /dev/fuse")
    try:
        yield name
    finally:
        disk.stdin.close()
        disk.wait()


async def open_laio(name: str) -> Read:
    file = await laio.open(name, "rb", 0)
    return lambda offset: file.pread(PAGE, offset)


async def open_threads(name: str) -> Read:
    number = await asyncio.to_thread(os.open, name, os.O_RDONLY)
    return lambda offset: asyncio.to_thread(os.pread, number, PAGE, offset)


async def open_aiofiles(name: str) -> Read:
    import aiofiles

    file = await aiofiles.open(name, "rb", 0)

    async def read(offset: int) -> bytes:
        await file.seek(offset)
        return await file.read(PAGE)

    return read


class Seen:
    """What one event loop has seen, in milliseconds."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.reads: list[tuple[float, float]] = []
        self.slow = 0


async def measure(opens: Open, slow_name: str | None, cached_name: str, seconds: float) -> Seen:
    seen = Seen()
    begun = time.perf_counter()
    cached = await opens(cached_name)

    async def timer() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            seen.late.append((time.perf_counter() - before - 0.001) * 1e3)

    async def cached_reads() -> None:
        while True:
            before = time.perf_counter()
            await cached(0)
            seen.reads.append((before - begun, (time.perf_counter() - before) * 1e3))
            await asyncio.sleep(0.005)

    async def slow_reads(name: str) -> None:
        read = await opens(name)
        while True:
            await read(PAGE * random.randrange(4096))
            seen.slow += 1

    tasks = [asyncio.create_task(timer()), asyncio.create_task(cached_reads())]
    if slow_name is not None:
        tasks += [asyncio.create_task(slow_reads(slow_name)) for _ in range(TASKS)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise RuntimeError("a task has ended early") from ended
    return seen


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def describe(values: list[float]) -> str:
    if not values:
        return "none"
    return ", ".join(f"{quantile(values, share):.2f}" for share in (0.5, 0.999, 1.0))


def draw(rows: dict[str, Seen], path: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for name, seen in rows.items():
        style = ".-" if len(seen.reads) < 100 else "-"
        axes.plot(*zip(*seen.reads), style, label=name, markersize=4, linewidth=0.8)
    axes.set(xlabel="seconds", ylabel="a cached read takes, ms", yscale="log")
    axes.legend(loc="upper right")
    axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("disk", help="the program that serves the disk")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--plot", metavar="FILE.svg")
    arguments = parser.parse_args()
    factory = None
    if arguments.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop

    print("| calls by | a timer of 1 ms is late, ms: median, p99.9, most | a cached read takes, ms | slow reads in a second |")
    print("| --- | --- | --- | ---: |")
    rows: dict[str, Seen] = {}
    ways: list[tuple[str, Open, bool]] = [
        ("nothing slow (laio)", open_laio, False),
        ("laio", open_laio, True),
        ("asyncio.to_thread", open_threads, True),
        ("aiofiles", open_aiofiles, True),
    ]
    with tempfile.TemporaryDirectory() as directory:
        cached = Path(directory) / "cached"
        cached.write_bytes(bytes(PAGE))
        for name, opens, is_slow in ways:
            with slow_disk(arguments.disk) as slow, asyncio.Runner(loop_factory=factory) as runner:
                seen = runner.run(measure(opens, slow if is_slow else None, str(cached), arguments.seconds))
            reads = [taken for _, taken in seen.reads]
            print(f"| {name} | {describe(seen.late)} | {describe(reads)} | {seen.slow / arguments.seconds:.0f} |", flush=True)
            if is_slow:
                rows[name] = seen
    if arguments.plot:
        draw(rows, arguments.plot)


if __name__ == "__main__":
    main()
