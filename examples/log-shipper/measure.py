"""Compares the versions: measure.py BEFORE AFTER [SLOW-DISK].

Medians of interleaved rounds. SLOW-DISK is the program `target/debug/examples/stalls`, which mounts a file system
that takes 100 ms for each read, as root: `cargo build -p laio-bench --example stalls`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shipping import Collector, start

ROUNDS = 7
LOGS = 20
MEGABYTES = 200
SECONDS = 5
SLOW_LOGS = 6
LINE = b"2026-11-28T12:00:00 web-7 GET /items/7 200 1834 0.004 %s\n" % (b"x" * 60)


def counts(process: int) -> tuple[int, int, float]:
    """The threads, context switches and seconds of processor time of a process."""
    switches = 0
    threads = list(Path(f"/proc/{process}/task").iterdir())
    for thread in threads:
        for line in (thread / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                switches += int(line.split()[1])
    nanoseconds = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)
    return len(threads), switches, nanoseconds / 1e9


def backlog(program: Path) -> tuple[float, ...]:
    """Ships logs that are there, in the page cache; for each MB."""
    with tempfile.TemporaryDirectory() as directory:
        logs = [Path(directory) / f"log{number}" for number in range(LOGS)]
        for log in logs:
            log.write_bytes(LINE * (MEGABYTES * 1_000_000 // LOGS // len(LINE)))
        total = sum(log.stat().st_size for log in logs)
        collector = Collector()
        collector.keeps = False
        shipper = start(program, collector, logs)
        collector.wait_for({str(log): log.stat().st_size for log in logs})
        threads, switches, seconds = counts(shipper.pid)
        shipper.terminate()
        shipper.communicate()
        return threads, switches / total * 1e6, seconds * 1e6 / total * 1e6


def appended(program: Path) -> tuple[float, ...]:
    """Ships 5,000 lines that come one by one; for each line."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        log.write_bytes(b"begins\n")
        collector = Collector()
        shipper = start(program, collector, [log])
        size = 7
        collector.wait_for({str(log): size})
        _, switches, seconds = counts(shipper.pid)
        with log.open("ab", 0) as file:
            for _ in range(5000):
                file.write(LINE)
                size += len(LINE)
                collector.wait_for({str(log): size})
        threads, switches_then, seconds_then = counts(shipper.pid)
        shipper.terminate()
        shipper.communicate()
        return threads, (switches_then - switches) / 5000, (seconds_then - seconds) / 5000 * 1e6


def beside_slow_logs(program: Path, slow: Path) -> tuple[float, ...]:
    """How late the loop's timer is, and how long lines of a fast log take, beside logs on the slow disk; in ms."""
    with tempfile.TemporaryDirectory() as directory:
        fast = Path(directory) / "fast"
        fast.write_bytes(b"begins\n")
        logs = [Path(directory) / f"slow{number}" for number in range(SLOW_LOGS)]
        for log in logs:
            log.symlink_to(slow)
        collector = Collector()
        collector.keeps = False
        shipper = start(program, collector, [fast, *logs], env={**os.environ, "SHIPPER_TIMER": "1"})
        size, took = 7, []
        collector.wait_for({str(fast): size})
        end = time.monotonic() + SECONDS
        with fast.open("ab", 0) as file:
            while time.monotonic() < end:
                began = time.monotonic()
                file.write(LINE)
                size += len(LINE)
                collector.wait_for({str(fast): size})
                took.append((time.monotonic() - began) * 1000)
                time.sleep(0.005)
        threads, _, _ = counts(shipper.pid)
        shipper.terminate()
        _, late = shipper.communicate()
        took.sort()
        return threads, *map(float, late.split()), took[len(took) // 2], took[len(took) * 99 // 100]


def interleaved(title: str, names: list[str], measured: list[list[tuple[float, ...]]]) -> None:
    print(title)
    for number, name in enumerate(names):
        before, after = (statistics.median(row[number] for row in rows) for rows in measured)
        print(f"  {name}: {before:.2f} before, {after:.2f} after")


def main() -> None:
    programs = [Path(argument).absolute() for argument in sys.argv[1:3]]
    for run, names in (
        (backlog, ["threads", "context switches for each MB", "µs of processor time for each MB"]),
        (appended, ["threads", "context switches for each line", "µs of processor time for each line"]),
    ):
        rounds = [[run(program) for program in programs] for _ in range(ROUNDS)]
        interleaved(run.__doc__ or "", names, [list(rows) for rows in zip(*rounds)])
    if len(sys.argv) > 3:
        disk = subprocess.Popen([sys.argv[3], "disk"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert disk.stdin and disk.stdout
        slow = Path(disk.stdout.readline().strip())
        rounds = [[beside_slow_logs(program, slow) for program in programs] for _ in range(ROUNDS)]
        names = ["threads", "timer late, median", "timer late, p99", "a line takes, median", "a line takes, p99"]
        interleaved(beside_slow_logs.__doc__ or "", names, [list(rows) for rows in zip(*rounds)])
        disk.stdin.close()
        disk.wait()


main()
