"""Compares the versions of the server in control groups: measure.py PROGRAM ARCHIVE [--rate N] [--rounds N] …

Needs root, and control groups of version 1; without them it says so, and measures without limits. ARCHIVE is made by
`PROGRAM archive FILE 8 16384`: 1 GiB. Four of five requests are for one of 1,024 tiles (16 MiB), the others for any.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import time
from pathlib import Path

VERSIONS = ("before", "after", "direct")
ZOOM = 8
HOT = 1024
CONNECTIONS = 64
GROUPS = [Path(f"/sys/fs/cgroup/{controller}/laio-tiles") for controller in ("cpu", "memory")]
TICK = os.sysconf("SC_CLK_TCK")


class Group:
    """A control group with so much of a processor and so many bytes of memory: no limit if they are None."""

    def __init__(self, processors: float | None, memory: int | None) -> None:
        for group in GROUPS:
            group.mkdir(exist_ok=True)
        self.cpu, self.memory = GROUPS
        # Before other programs of the machine, as the client (`os.nice`).
        (self.cpu / "cpu.shares").write_text("100000")
        quota = -1 if processors is None else int(processors * 100_000)
        (self.cpu / "cpu.cfs_quota_us").write_text(str(quota))
        (self.memory / "memory.limit_in_bytes").write_text(str(memory or -1))

    @staticmethod
    def is_there() -> bool:
        return os.geteuid() == 0 and all((group.parent / "tasks").exists() for group in GROUPS)

    def enter(self) -> list[str]:
        files = " ".join(f"{group}/cgroup.procs" for group in GROUPS)
        return ["sh", "-c", f'for group in {files}; do echo $$ >"$group"; done; exec "$@"', "sh"]

    def throttled(self) -> tuple[int, int]:
        """The periods in which the group could run, and those in which it was stopped at its limit."""
        lines = dict(line.split() for line in (self.cpu / "cpu.stat").read_text().splitlines())
        return int(lines["nr_periods"]), int(lines["nr_throttled"])

    def remove(self) -> None:
        for group in GROUPS:
            group.rmdir()


class Connection(asyncio.Protocol):
    """One request at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    async def get(self, path: str) -> None:
        self.reply = b""
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await self.done

    def data_received(self, data: bytes) -> None:
        self.reply += data
        head, end, body = self.reply.partition(b"\r\n\r\n")
        if end:
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0])
            if len(body) == length:
                self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server has closed the connection"))


async def requests(port: int, rate: float, seconds: float, seed: int) -> list[float]:
    """How long each request took, in ms, from the time at which it was due."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(CONNECTIONS)]
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _, connection in made:
        free.put_nowait(connection)
    choice = random.Random(seed)
    side = 1 << ZOOM
    tiles = [(x, y) for x in range(side) for y in range(side)]
    hot = random.Random(0).sample(tiles, HOT)
    took = []

    async def one(due: float) -> None:
        x, y = choice.choice(hot if choice.random() < 0.8 else tiles)
        connection = await free.get()
        await connection.get(f"/{ZOOM}/{x}/{y}")
        took.append((loop.time() - due) * 1000)
        free.put_nowait(connection)

    begin = loop.time()
    running = []
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        running.append(loop.create_task(one(due)))
    await asyncio.gather(*running)
    for transport, _ in made:
        transport.close()
    return took


def counts(process: int) -> tuple[int, float, int]:
    """Major faults, seconds of processor time, and bytes read from the device."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    read = dict(line.split(": ") for line in Path(f"/proc/{process}/io").read_text().splitlines())
    return int(fields[9]), (int(fields[11]) + int(fields[12])) / TICK, int(read["read_bytes"])


def read_ahead(file: str) -> str:
    """What the kernel reads from the device of a file around a page that is not in memory."""
    device = os.stat(file).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    # A partition has none of its own.
    queue = next((folder / "queue" for folder in (block, block.parent) if (folder / "queue").exists()), None)
    return f"{(queue / 'read_ahead_kb').read_text().strip()} KiB" if queue else "unknown"


def run(version: str, group: Group | None, warm: bool, seed: int, options: argparse.Namespace) -> list[float]:
    """The figures of `NAMES`."""
    file = os.open(options.archive, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    if warm:
        while os.read(file, 1 << 20):
            pass
    os.close(file)
    command = [options.program, version, options.archive, "127.0.0.1:0"]
    server = subprocess.Popen((group.enter() if group else []) + command, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        port = int(server.stdout.readline().strip().strip("/").rpartition(":")[2])
        # Fills memory, or what the group may have of it.
        asyncio.run(requests(port, options.rate, options.seconds / 2, seed + 1000))
        before, periods = counts(server.pid), group.throttled() if group else (0, 0)
        took = sorted(asyncio.run(requests(port, options.rate, options.seconds, seed)))
        after, periods_then = counts(server.pid), group.throttled() if group else (0, 0)
    finally:
        server.kill()
        server.wait()
    faults, seconds, read = (then - now for now, then in zip(before, after))
    could, throttled = (then - now for now, then in zip(periods, periods_then))
    return [
        *(took[int(len(took) * share)] for share in (0.5, 0.99, 0.999)),
        throttled / max(could, 1) * 100,
        faults / len(took),
        seconds / len(took) * 1e6,
        read / len(took) / 1024,
    ]


NAMES = [
    "p50, ms",
    "p99, ms",
    "p99.9, ms",
    "throttled periods, %",
    "major faults for each request",
    "processor time for each request, µs",
    "read from the device for each request, KiB",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("archive")
    parser.add_argument("--rate", type=float, default=800, help="requests in a second")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--versions", nargs="*", default=VERSIONS)
    options = parser.parse_args()
    print(f"read-ahead of the device: {read_ahead(options.archive)}")
    if os.geteuid() == 0:
        os.nice(-20)
    limited = [(processors, 64 << 20, False) for processors in (0.2, 0.5, 1.0)]
    if not Group.is_there():
        print("skipped: limits need root and control groups of version 1 (/sys/fs/cgroup/cpu, /sys/fs/cgroup/memory)")
        limited = []
    for processors, memory, warm in [*limited, (None, None, True)]:
        group = Group(processors, memory) if Group.is_there() else None
        name = f"{processors} of a processor, {memory >> 20} MiB" if memory else "no limit, the archive in memory"
        print(f"\n{name}; {options.rate:g} requests a second, {time.strftime('%H:%M')}", flush=True)
        rounds: dict[str, list[list[float]]] = {version: [] for version in options.versions}
        for number in range(options.rounds):
            for version in options.versions:
                rounds[version].append(run(version, group, warm, number, options))
        print("| | " + " | ".join(options.versions) + " |\n| --- |" + " ---: |" * len(options.versions))
        for row, title in enumerate(NAMES):
            values = [statistics.median(figures[row] for figures in rounds[version]) for version in options.versions]
            print(f"| {title} | " + " | ".join(f"{value:.4g}" for value in values) + " |", flush=True)
        if group:
            group.remove()


main()
