"""Ranges of a file: whatever `direct` says, plain reads return the same bytes."""

from __future__ import annotations

import asyncio
import io
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

import laio

CHOICES = ["never", "auto", "always"]
SIZES = [0, 1, 4095, 4096, 4097, 3_000_001]


def random_ranges(chance: random.Random, size: int) -> list[tuple[int, int]]:
    """Ranges in and around a file: in any order, overlapping, empty, beyond the end."""
    longest = chance.choice([10, 5000, 100_000, 2 << 20])
    block = chance.choice([1, 4096])
    starts = [chance.randrange(size + size // 8 + 1) // block * block for _ in range(chance.randrange(30))]
    return [(start, start + chance.randrange(longest) // block * block) for start in starts]


@pytest.mark.parametrize("parent", [None, "/dev/shm"])
def test_random_ranges_are_as_plain_reads(run: Any, parent: str | None) -> None:
    async def program(directory: Path) -> None:
        chance = random.Random(7)
        for size in SIZES:
            contents = chance.randbytes(size)
            path = directory / str(size)
            path.write_bytes(contents)
            async with laio.open(path, "rb") as file:
                for _ in range(6):
                    pairs = random_ranges(chance, size)
                    for direct in CHOICES:
                        depth = chance.choice([1, 3, 64])
                        ranges = await file.read_ranges(pairs, direct=direct, depth=depth)
                        expected = [contents[start:stop] for start, stop in pairs]
                        assert [bytes(view) for view in ranges] == expected, (size, direct, pairs)
                        assert (ranges.stats["direct_reads"] == 0) or ranges.stats["direct"]
                        assert ("not direct" in ranges.stats["reason"]) != ranges.stats["direct"]
                assert await file.tell() == 0

    if parent is not None and not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} is not there")
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        run(program, Path(directory))


def test_views_of_one_object(run: Any, tmp_path: Path) -> None:
    async def program() -> None:
        (tmp_path / "file").write_bytes(bytes(range(256)) * 100)
        async with laio.open(tmp_path / "file", "rb", buffering=0) as file:
            ranges = await file.read_ranges(iter([(1, 4), (10_000, 10_100), (2, 2), (25_599, 30_000)]))
            assert isinstance(ranges, list) and len(ranges) == 4
            assert [len(view) for view in ranges] == [3, 100, 0, 1]
            assert all(view.obj is ranges.buffer and view.readonly for view in ranges)
            assert len(ranges.buffer) == 256 and ranges.buffer[64:164] == bytes(ranges[1])
            assert ranges.stats["cached_reads"] >= ranges.stats["reads"] >= 1
            assert (await file.read_ranges([])) == []

    run(program)


def test_numpy_reads_a_range_in_place(run: Any, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")

    async def program() -> None:
        values = numpy.arange(10_000, dtype="<f8")
        values.tofile(tmp_path / "values")
        async with laio.open(tmp_path / "values", "rb") as file:
            ranges = await file.read_ranges([(80, 160), (40_000, 48_000)], direct="always")
        columns = [numpy.frombuffer(view, dtype="<f8") for view in ranges]
        assert (columns[0] == values[10:20]).all() and (columns[1] == values[5000:6000]).all()
        assert all(column.flags.aligned and not column.flags.owndata for column in columns)

    run(program)


def test_what_was_written_before_is_read(run: Any, tmp_path: Path) -> None:
    async def program() -> None:
        async with laio.open(tmp_path / "file", "wb+") as file:
            await file.truncate(1 << 20)
            chance = random.Random(3)
            for _ in range(20):
                start, data = chance.randrange(1 << 20), chance.randbytes(chance.randrange(1, 20_000))
                await file.seek(start)
                # In the buffer of the file, until the request flushes it.
                await file.write(data)
                ranges = await file.read_ranges([(start, start + len(data))], direct="always")
                assert ranges[0] == data

    run(program)


def test_errors(run: Any, tmp_path: Path) -> None:
    async def program() -> None:
        path = tmp_path / "file"
        path.write_bytes(b"contents")
        async with laio.open(path, "rb") as file:
            with pytest.raises(ValueError, match="stops at byte 2"):
                await file.read_ranges([(0, 1), (5, 2)])
            with pytest.raises(ValueError, match="'sometimes'"):
                await file.read_ranges([(0, 1)], direct="sometimes")  # type: ignore[arg-type]
            with pytest.raises(OverflowError):
                await file.read_ranges([(-1, 1)])
            with pytest.raises(TypeError):
                await file.read_ranges([3])  # type: ignore[list-item]
            with pytest.raises(OSError):
                await file.read_ranges([(1 << 63, (1 << 63) + 1)])
            assert (await file.read_ranges([(0, 1 << 40)], direct="always"))[0] == b"contents"
        with pytest.raises(ValueError):
            await file.read_ranges([(0, 1)])
        async with laio.open(tmp_path / "other", "wb") as file:
            with pytest.raises(io.UnsupportedOperation):
                await file.read_ranges([(0, 1)])

    run(program)


def test_many_requests_at_a_time_and_some_cancelled(run_asyncio: Any, tmp_path: Path) -> None:
    async def program() -> None:
        contents = random.Random(5).randbytes(4 << 20)
        (tmp_path / "file").write_bytes(contents)

        async def one(file: laio.BinaryFile, number: int) -> None:
            pairs = [(part * 70_000 + number, part * 70_000 + number + 900 * part) for part in range(50)]
            ranges = await file.read_ranges(pairs, direct="always")
            assert [bytes(view) for view in ranges] == [contents[start:stop] for start, stop in pairs]

        async with laio.open(tmp_path / "file", "rb") as file:
            for turns in range(5):
                tasks = [asyncio.create_task(one(file, number)) for number in range(12)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in tasks[::3]:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                cancelled = [result for result in results if result is not None]
                assert all(isinstance(result, asyncio.CancelledError) for result in cancelled), results
        # The descriptors for direct reads are closed with the file.
        assert not [name for name in os.listdir("/proc/self/fd") if _is_open(name, tmp_path / "file")]

    run_asyncio(program)


def _is_open(name: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}") == str(path)
    except FileNotFoundError:
        return False
