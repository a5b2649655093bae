"""Waiting, cancellation, ends of loops and threads, forks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import laio
from laio import _laio


class Pipe:
    """A pipe of which laio reads."""

    def __init__(self) -> None:
        self.number, self.write_end = os.pipe()

    async def open(self) -> laio.BinaryFile:
        return await laio.open(self.number, "rb")

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def close(self) -> None:
        os.close(self.write_end)


def test_other_tasks_run_while_a_read_waits() -> None:
    async def program() -> None:
        pipe = Pipe()
        file = await pipe.open()
        read = asyncio.create_task(file.read1(100))
        await asyncio.sleep(0)
        assert not read.done()
        pipe.write(b"data")
        assert await read == b"data"
        pipe.close()
        await file.close()

    asyncio.run(program())


def test_a_cancelled_read_loses_nothing() -> None:
    async def program() -> None:
        pipe = Pipe()
        file = await pipe.open()
        for _ in range(50):
            read = asyncio.create_task(file.read1(100))
            await asyncio.sleep(0)
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read
        pipe.write(b"all of it")
        assert await file.read1(100) == b"all of it"
        pipe.close()
        await file.close()

    asyncio.run(program())


def test_cancelled_in_trio() -> None:
    trio = pytest.importorskip("trio")

    async def program() -> None:
        pipe = Pipe()
        file = await pipe.open()
        with trio.CancelScope() as scope:
            scope.cancel()
            await file.read1(100)
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.read1, 100)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        pipe.write(b"still there")
        assert await file.read1(100) == b"still there"
        pipe.close()
        await file.close()

    import trio.testing

    trio.run(program)


def test_calls_that_never_wait_let_others_run(run_asyncio: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")

    async def program() -> None:
        stopped = False

        async def other() -> None:
            nonlocal stopped
            stopped = True

        task = asyncio.create_task(other())
        async with laio.open(path, "rb") as file:
            # Without a turn of the loop this would go on for ever.
            while not stopped:
                await file.pread(1, 0)
        await task

    run_asyncio(program)


def test_ten_thousand_cancelled_calls_leave_nothing() -> None:
    async def program() -> None:
        pipe = Pipe()
        file = await pipe.open()
        for _ in range(100):
            reads = [asyncio.create_task(file.read1(10)) for _ in range(100)]
            await asyncio.sleep(0)
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
        pipe.close()
        assert await file.read1(10) == b""
        await file.close()
        while _laio.pending():
            await asyncio.sleep(0)

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(program())
    gc.collect()
    # The engine's own descriptors stay with the thread.
    assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_a_loop_may_end_before_its_calls() -> None:
    pipe = Pipe()

    async def abandon() -> laio.BinaryFile:
        file = await pipe.open()
        read = file.read1(10)
        task = asyncio.get_running_loop().create_task(read)
        await asyncio.sleep(0)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        return file

    loop = asyncio.new_event_loop()
    abandoned = loop.run_until_complete(abandon())
    loop.close()
    gc.collect()

    async def again() -> None:
        other = Pipe()
        file = await other.open()
        read = asyncio.create_task(file.read1(10))
        await asyncio.sleep(0)
        other.write(b"works")
        assert await read == b"works"
        other.close()
        await file.close()

    for _ in range(3):
        asyncio.run(again())
    pipe.close()
    asyncio.run(abandoned.close())


def test_each_thread_has_its_own_engine() -> None:
    results: list[bytes] = []

    async def program(index: int) -> None:
        pipe = Pipe()
        file = await pipe.open()
        read = asyncio.create_task(file.read1(10))
        await asyncio.sleep(0)
        pipe.write(b"%d" % index)
        results.append(await read)
        pipe.close()
        await file.close()

    threads = [threading.Thread(target=lambda i=i: asyncio.run(program(i))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [b"%d" % index for index in range(8)]


@pytest.mark.skipif(_laio.backend()[0] != "lazy", reason="in other back ends to open a file would block, too")
def test_a_call_that_would_block_needs_a_loop() -> None:
    pipe = Pipe()
    file = laio.open(pipe.number, "rb")
    with pytest.raises(StopIteration) as opened:
        file.send(None)
    read = opened.value.value.read1(10)
    with pytest.raises(RuntimeError, match="no event loop"):
        read.send(None)
    pipe.close()
    asyncio.run(opened.value.value.close())


def test_a_forked_child_begins_anew() -> None:
    async def program() -> None:
        pipe = Pipe()
        file = await pipe.open()
        read = asyncio.create_task(file.read1(10))
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = in_child()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        pipe.write(b"parent")
        assert await read == b"parent"
        pipe.close()
        await file.close()

    def in_child() -> int:
        signal.alarm(60)
        asyncio.events._set_running_loop(None)
        results: list[bytes] = []

        async def child_program() -> None:
            pipe = Pipe()
            file = await pipe.open()
            read = asyncio.create_task(file.read1(10))
            await asyncio.sleep(0)
            pipe.write(b"child")
            results.append(await read)
            await file.close()

        asyncio.run(child_program())
        return 0 if results == [b"child"] else 1

    asyncio.run(program())


def in_python(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_ten_thousand_cancelled_calls_keep_no_memory() -> None:
    done = in_python(
        "import asyncio, gc, os, tracemalloc, laio\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as file:\n"
        "        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')\n"
        "async def cancel(file):\n"
        "    for _ in range(100):\n"
        "        reads = [asyncio.create_task(file.read1(10)) for _ in range(100)]\n"
        "        await asyncio.sleep(0)\n"
        "        for read in reads:\n"
        "            read.cancel()\n"
        "        await asyncio.gather(*reads, return_exceptions=True)\n"
        "    del read, reads\n"
        "    while laio._laio.pending():\n"
        "        await asyncio.sleep(0)\n"
        "    gc.collect()\n"
        "async def main():\n"
        "    async with laio.open(os.pipe()[0], 'rb') as file:\n"
        # Until all buffers have their size.
        "        await cancel(file)\n"
        "        before = resident()\n"
        "        await cancel(file)\n"
        "        grown = resident() - before\n"
        "        tracemalloc.start()\n"
        "        await cancel(file)\n"
        "        sizes = [tracemalloc.get_traced_memory()[0]]\n"
        # What is kept grows each time; what the loop still holds at the end does not.
        "        for _ in range(3):\n"
        "            await cancel(file)\n"
        "            sizes.append(tracemalloc.get_traced_memory()[0])\n"
        "        growth = min(after - before for before, after in zip(sizes, sizes[1:]))\n"
        # A byte for each call.
        "        print(grown < 2_000_000, growth < 10_000)\n"
        "asyncio.run(main())\n"
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_a_process_may_end_with_calls_in_flight() -> None:
    done = in_python(
        "import asyncio, os, laio\n"
        "async def main():\n"
        "    file = await laio.open(os.pipe()[0], 'rb')\n"
        "    task = asyncio.create_task(file.read1(10))\n"
        "    await asyncio.sleep(0)\n"
        "    print('reached')\n"
        "    raise SystemExit(7)\n"
        "asyncio.run(main())\n"
    )
    assert (done.returncode, done.stdout) == (7, "reached\n"), done.stderr


def test_a_process_may_end_with_open_files() -> None:
    done = in_python(
        "import asyncio, warnings, laio\n"
        "warnings.simplefilter('ignore')\n"
        "async def main():\n"
        "    return await laio.open('/proc/self/status')\n"
        "file = asyncio.run(main())\n"
        "print('reached')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")


def test_a_keyboard_interrupt_reaches_the_program() -> None:
    done = in_python(
        "import asyncio, os, signal, laio\n"
        # Ignored, if the shell runs the tests in the background.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def main():\n"
        "    file = await laio.open(os.pipe()[0], 'rb')\n"
        "    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)\n"
        "    await file.read1(10)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_subinterpreters_are_refused() -> None:
    done = in_python(
        "import sys, laio\n"
        "try:\n"
        "    import _interpreters as interpreters\n"
        "    other = interpreters.create('legacy')\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "    shared = {'isolated': False} if sys.version_info >= (3, 12) else {}\n"
        "    other = interpreters.create(**shared)\n"
        "program = (\n"
        "    f'import sys; sys.path[:] = {sys.path!r}\\n'\n"
        "    'try:\\n'\n"
        "    '    import laio\\n'\n"
        "    'except ImportError as error:\\n'\n"
        "    '    print(error, flush=True)\\n'\n"
        ")\n"
        "interpreters.run_string(other, program)\n"
    )
    if "No module named" in done.stderr:
        pytest.skip("Python has no module for subinterpreters")
    assert "laio does not support subinterpreters" in done.stdout, done.stderr


def test_an_unclosed_file_warns(run_asyncio: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    async def program() -> None:
        file = await laio.open(tmp_path / "file", "rb")
        assert await file.read() == b"x"
        del file

    with pytest.warns(ResourceWarning, match="unclosed file"):
        run_asyncio(program)
        gc.collect()


def test_statistics_count_the_calls_of_the_thread() -> None:
    async def use() -> None:
        await laio.os.stat("/")

    def calls() -> int:
        stats = laio.stats()
        return stats["inline"] + stats["background"] + stats["fallback"]

    asyncio.run(use())
    before = calls()
    asyncio.run(use())
    assert calls() > before
    assert laio.stats()["hung_mounts"] == 0
    others: list[dict[str, int]] = []
    thread = threading.Thread(target=lambda: others.append(laio.stats()))
    thread.start()
    thread.join()
    assert others == [{}]
