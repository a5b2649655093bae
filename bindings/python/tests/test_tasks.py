"""Many tasks at once, and tasks that are cancelled."""

import os

import pytest
from same import tree
from test_os import fill

import laio.os
import laio.shutil
import laio.tempfile
from laio._path import Path

anyio = pytest.importorskip("anyio")


def descriptors():
    """What the descriptors of the process are of, by number."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            # That of the listing.
            pass
    return found


def test_many_tasks_at_once(run, tmp_path):
    done = []

    async def work(number):
        path = Path(tmp_path, f"d{number % 7}", f"f{number}")
        await path.parent.mkdir(exist_ok=True)
        text = str(number) * number
        await path.write_text(text)
        assert await path.read_text() == text
        assert (await path.stat()).st_size == len(text)
        await laio.shutil.copy2(path, path.with_suffix(".copy"))
        assert await path.with_suffix(".copy").read_text() == text
        await path.rename(path.with_suffix(".new"))
        assert not await path.exists()
        async with path.with_suffix(".new").open() as file:
            assert await file.read() == text
        await path.with_suffix(".new").unlink()
        done.append(number)

    async def main():
        async with anyio.create_task_group() as group:
            for number in range(150):
                group.start_soon(work, number)

    run(main)
    assert sorted(done) == list(range(150))
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) == 150


def test_trees_are_copied_and_removed_side_by_side(run, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    fill(source)
    os.unlink(source / "fifo")

    async def work(number):
        target = tmp_path / f"copy{number}"
        await laio.shutil.copytree(source, target, symlinks=True)
        assert tree(target) == tree(source)
        names = [name async for name, _, _ in laio.os.walk(target)]
        assert len(names) == 4
        await laio.shutil.rmtree(target)

    async def main():
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(work, number)

    run(main)
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("turns", [0, 1, 4, 9])
@pytest.mark.parametrize("call", ["copytree", "rmtree", "walk", "glob", "temporary", "makedirs"])
def test_a_cancelled_call_leaves_no_descriptor(run, tmp_path, call, turns):
    fill(tmp_path)
    for number in range(8):
        (tmp_path / "full" / f"d{number}").mkdir()
        (tmp_path / "full" / f"d{number}" / "file").write_bytes(b"x" * number * 100)

    async def work():
        source, target = str(tmp_path / "full"), str(tmp_path / "target")
        if call == "copytree":
            await laio.shutil.copytree(source, target)
        elif call == "rmtree":
            await laio.shutil.rmtree(source)
        elif call == "walk":
            async for _ in laio.os.walk(tmp_path):
                pass
        elif call == "glob":
            async for _ in Path(tmp_path).rglob("*"):
                pass
        elif call == "temporary":
            async with laio.tempfile.TemporaryFile(dir=tmp_path) as file:
                await file.write(b"x" * 1_000_000)
        else:
            await laio.os.makedirs(os.path.join(target, *"abcdefgh"))

    async def main():
        # The engine of the thread, and what the event loop opens for it.
        await laio.os.mkdir(tmp_path / "warm")
        await anyio.lowlevel.checkpoint()
        before = descriptors()
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        # What was under way in the kernel has ended after further calls.
        while laio._laio.pending():
            await laio.os.utime(tmp_path)
            await anyio.lowlevel.checkpoint()
        assert descriptors().items() <= before.items()
        assert await laio.os.path.isdir(tmp_path)

    run(main)


def test_a_cancelled_task_is_cancelled_in_the_middle_of_calls(run, tmp_path):
    """A loop over calls that never block can be cancelled: the event loop gets its turn."""
    path = tmp_path / "file"
    path.touch()
    counted = []

    async def forever():
        while True:
            await laio.os.stat(path)
            counted.append(None)

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(forever)
            while len(counted) < 100:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    run(main)
    assert len(counted) >= 100


def test_calls_without_an_event_loop_say_so():
    """A coroutine that would have to wait raises, rather than hanging."""
    call = laio.os.mkdir("/proc/no-such-directory")
    try:
        call.send(None)
    except RuntimeError as error:
        assert "no event loop" in str(error)
    except OSError:
        # It did not have to wait.
        pass
    else:
        call.close()
        raise AssertionError("the coroutine waits for nothing")
