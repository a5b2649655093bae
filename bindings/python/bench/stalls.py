"""How late an event loop is beside a disk that takes 100 ms for each read.

    cargo build --release -p laio-bench --example stalls
    python bench/stalls.py DISK [--loop asyncio|uvloop] [--seconds S] [--plot FILE.svg]

DISK is the program ``target/release/examples/stalls``, which serves the disk (a FUSE file system: as root). 200
tasks read from it all the time. Another task measures how late its timer of 1 ms is, a third one how long a
read of 4 KiB of a cached file takes. Prints a row for each package.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
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
    """Writes a picture: over the seconds, how long each cached read took, on a logarithmic axis."""
    left, right, top, bottom = 64, 744, 40, 310
    last = max(second for seen in rows.values() for second, _ in seen.reads)
    taken = [math.log10(value) for seen in rows.values() for _, value in seen.reads]
    low, high = math.floor(min(taken)), math.ceil(max(taken))

    def across(second: float) -> float:
        return left + (right - left) * second / last

    def down(value: float) -> float:
        return bottom - (bottom - top) * (math.log10(value) - low) / (high - low)

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 360" font-family="sans-serif" font-size="12">',
        '<rect width="760" height="360" fill="#fff"/>',
        f'<text x="{(left + right) // 2}" y="350" text-anchor="middle">seconds</text>',
        f'<text x="{left}" y="22">a cached read takes, ms</text>',
    ]
    for exponent in range(low, high + 1):
        y = round(down(10**exponent))
        lines.append(f'<path d="M{left} {y}H{right}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{10**exponent:g}</text>')
    for second in range(0, int(last) + 1, max(1, int(last) // 5)):
        lines.append(f'<text x="{across(second):.0f}" y="{bottom + 18}" text-anchor="middle">{second}</text>')
    for number, (name, seen) in enumerate(rows.items()):
        color = ("#1f77b4", "#d95f02", "#2ca02c")[number % 3]
        lines.append(f'<text x="{left + 300 + 140 * number}" y="22" fill="{color}">{name}</text>')
        points = [(round(across(second)), round(down(value))) for second, value in seen.reads]
        path_of_reads = " ".join(f"{x},{y}" for x, y in dict.fromkeys(points))
        lines.append(f'<polyline points="{path_of_reads}" fill="none" stroke="{color}"/>')
        if len(points) < 100:
            lines += [f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in points]
    Path(path).write_text("\n".join([*lines, "</svg>", ""]))


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
