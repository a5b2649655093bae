"""Compares the stores: measure.py PROGRAM DIRECTORY [ROUNDS]. DIRECTORY is made by `PROGRAM data DIRECTORY SCALE`.

Rounds are interleaved. Each runs all queries once, after the tables were removed from the page cache (cold), or read
into it (warm).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

NAMES = ["seconds of all queries", "processor time, s", "context switches", "read from the device, MB"]


def prepare(tables: Path, warm: bool) -> None:
    for table in tables.glob("*.parquet"):
        with table.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while warm and file.read(1 << 20):
                pass


def run(program: str, version: str, tables: Path) -> list[float]:
    child = subprocess.Popen([program, version, tables], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    seconds = sum(float(line.split()[1]) for line in child.stdout)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0
    return [
        seconds,
        usage.ru_utime + usage.ru_stime,
        usage.ru_nvcsw + usage.ru_nivcsw,
        usage.ru_inblock * 512 / 1e6,
    ]


def main() -> None:
    program, tables = sys.argv[1], Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    for warm in (False, True):
        rows: dict[str, list[list[float]]] = {"before": [], "after": []}
        for _ in range(rounds):
            for version, figures in rows.items():
                prepare(tables, warm)
                figures.append(run(program, version, tables))
        print("warm" if warm else "cold")
        for number, name in enumerate(NAMES):
            before, after = ([row[number] for row in figures] for figures in rows.values())
            ratio = statistics.median(b / a for a, b in zip(before, after)) if all(before) else 1
            print(f"  {name}: {statistics.median(before):.4g} before, {statistics.median(after):.4g} after; ratio {ratio:.3f}")


main()
