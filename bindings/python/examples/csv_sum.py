"""Adds up the numbers of one column in many CSV files, some files at a time.

    python csv_sum.py COLUMN FILE...
"""

import asyncio
import csv
import io
import sys

import laio

AT_ONCE = 32


async def sum_of(path: str, column: str) -> float:
    async with laio.open(path, newline="") as file:
        rows = csv.DictReader(io.StringIO(await file.read()))
        return sum(float(row[column]) for row in rows)


async def main(column: str, paths: list[str]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def limited(path: str) -> float:
        async with limit:
            return await sum_of(path, column)

    sums = await asyncio.gather(*(limited(path) for path in paths))
    for path, value in zip(paths, sums):
        print(f"{value:12g} {path}")
    print(f"{sum(sums):12g} all")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
