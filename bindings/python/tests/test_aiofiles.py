"""`laio.compat.aiofiles` beside `aiofiles`: one program with each of them, in two directories."""

import asyncio
import io
import os
import subprocess
import sys

import pytest
from same import plain, raised, tree
from test_os import fill

import laio.compat.aiofiles as ours

theirs = pytest.importorskip("aiofiles")
import aiofiles.os  # noqa: E402
import aiofiles.tempfile  # noqa: E402

MODES = ["r", "w", "x", "a", "r+", "w+", "a+", "rb", "wb", "ab", "rb+", "wb+", "ab+"]


async def attempt(awaitable):
    """What a coroutine does: ("returns", value) or ("raises", class, details)."""
    try:
        return "returns", plain(await awaitable)
    except Exception as error:
        return raised(error)


@pytest.fixture
def both(run, tmp_path, monkeypatch):
    """Runs a coroutine function with each of the modules, and compares what it returns and leaves."""

    def compare(program, *arguments):
        results = []
        for module in (theirs, ours):
            root = tmp_path / module.__name__
            root.mkdir()
            fill(root)
            monkeypatch.chdir(root)
            start = asyncio.run if module is theirs else lambda main: run(lambda: main)
            results.append(start(program(module, *arguments)))
        assert results[1] == results[0]
        assert tree(tmp_path / ours.__name__) == tree(tmp_path / theirs.__name__)
        return results[0]

    return compare


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("buffering", [-1, 0])
def test_methods_of_files(both, mode, buffering):
    if buffering == 0 and "b" not in mode:
        return

    async def program(module):
        data = b"first\nsecond\nthird" if "b" in mode else "first\nsecond\nthird"
        found = []
        name = "new" if "x" in mode else "file"
        async with module.open(name, mode, buffering) as file:
            for method in ("readable", "seekable", "writable", "isatty"):
                value = getattr(file, method)()
                if method == "readable" and not hasattr(value, "__await__"):
                    found.append(value)
                else:
                    found.append(await value)
            found += [file.name, file.closed, isinstance(file.fileno(), int)]
            found.append(await attempt(file.write(data)))
            found.append(await attempt(file.flush()))
            found.append(await attempt(file.tell()))
            found.append(await attempt(file.seek(0)))
            found.append(await attempt(file.read(3)))
            if buffering != 0:
                found.append(await attempt(file.readline()))
                found.append(await attempt(file.readlines()))
            found.append(await attempt(file.seek(2)))
            found.append(await attempt(file.read()))
            found.append(await attempt(file.truncate(7)))
            if buffering != 0:
                found.append(await attempt(file.writelines([data, data])))
            if mode == "rb" and buffering != 0:
                await file.seek(0)
                found.append((await file.peek(1))[:1])
                memory = bytearray(4)
                found += [await file.readinto(memory), bytes(memory), await file.read1(2)]
            if "b" not in mode:
                found += [file.encoding.upper(), file.errors, file.line_buffering]
        found.append(file.closed)
        found.append(await attempt(file.tell()))
        return found

    both(program)


@pytest.mark.parametrize("name", ["file", "full", "gone", "gone/x", "dangling", "loop"])
def test_opening(both, name):
    async def program(module):
        found = []
        for mode in ("r", "w", "x", "rb", "nonsense", "rw"):

            async def use(mode=mode):
                async with module.open(name, mode) as file:
                    return file.closed, type(file).__name__

            found.append(await attempt(use()))
        return found

    both(program)


def test_classes(both):
    async def program(module):
        found = []
        for mode, buffering in [("r", -1), ("rb", -1), ("wb", -1), ("rb+", -1), ("rb", 0)]:
            async with module.open("file", mode, buffering) as file:
                found.append(type(file).__name__)
                assert " wrapping <" in repr(file)
        return found

    both(program)


def test_lines_are_iterated(both):
    async def program(module):
        found = []
        async with module.open("lines", "w", newline="\r\n") as file:
            await file.write("one\ntwo\n\nthree")
        for mode, newline in [("r", None), ("r", ""), ("rb", None)]:
            async with module.open("lines", mode, newline=newline) as file:
                found.append([line async for line in file])
        return found

    both(program)


def test_a_file_is_awaited_and_closed(both):
    async def program(module):
        file = await module.open("file", mode="r", loop=None, executor=None)
        found = [await file.read(), await file.close(), file.closed, await attempt(file.read())]
        opening = module.open("file")
        first = await opening
        found += [first is await opening, await first.close()]
        return found

    both(program)


def test_descriptors_and_openers(both):
    async def program(module):
        number = os.open("file", os.O_RDONLY)
        async with module.open(number, closefd=False) as file:
            found = [await file.read()]
        os.close(number)

        def opener(path, flags):
            return os.open(path, flags | os.O_NOFOLLOW)

        async def use(name):
            async with module.open(name, opener=opener) as file:
                return await file.read()

        return [*found, await attempt(use("file")), await attempt(use("link"))]

    both(program)


NAMES = ["file", "full", "gone", "link", "dangling", "empty"]


@pytest.mark.parametrize("name", NAMES)
def test_os(both, name):
    async def program(module):
        found = []
        calls = [
            ("stat", name),
            ("access", name, os.R_OK),
            ("listdir", name),
            ("readlink", name),
            ("path.exists", name),
            ("path.isfile", name),
            ("path.isdir", name),
            ("path.islink", name),
            ("path.ismount", name),
            ("path.getsize", name),
            ("path.samefile", name, "file"),
            ("link", name, "hard"),
            ("symlink", name, "soft"),
            ("mkdir", name),
            ("makedirs", name + "/a/b"),
            ("rename", name, "renamed"),
            ("replace", "renamed", name),
            ("renames", name, "deep/down/" + name),
            ("removedirs", "deep/down/" + name),
            ("unlink", "deep/down/" + name),
            ("rmdir", "empty"),
            ("remove", "soft"),
        ]
        for call, *arguments in calls:
            function = module.os
            for part in call.split("."):
                function = getattr(function, part)
            found.append((call, await attempt(function(*arguments))))
        return found

    both(program)


def test_os_takes_and_ignores_an_executor(both):
    async def program(module):
        found = [await module.os.stat("file", loop=None, executor=None) is not None]
        found.append(await module.os.path.exists("file", executor=None))
        found.append(os.path.basename(await module.os.path.abspath("full/../x")))
        found.append(os.path.samefile(await module.os.getcwd(), "."))
        found.append((await module.os.statvfs(".")).f_frsize)
        found.append((await module.os.path.getmtime("file")) == os.path.getmtime("file"))
        found.append((await module.os.path.getatime("file")) == os.path.getatime("file"))
        found.append((await module.os.path.getctime("file")) == os.path.getctime("file"))
        with open("file") as file:
            found.append(await module.os.path.sameopenfile(file.fileno(), file.fileno()))
            with open("copy", "wb") as copy:
                sent = await module.os.sendfile(copy.fileno(), file.fileno(), 2, 100)
                found.append(sent)
        return found

    both(program)


def test_scandir(both):
    async def program(module):
        os.unlink("loop")
        with await module.os.scandir(".") as entries:
            found = [
                (
                    entry.name,
                    entry.path,
                    os.fspath(entry),
                    repr(entry),
                    entry.is_dir(),
                    entry.is_file(),
                    entry.is_dir(follow_symlinks=False),
                    entry.is_symlink(),
                    entry.inode() == os.lstat(entry).st_ino,
                    plain(entry.stat(follow_symlinks=False)),
                )
                for entry in entries
            ]
        found.append(list(entries))
        return sorted(found, key=str)

    both(program)


def test_scandir_fails_when_awaited(both):
    async def program(module):
        return await attempt(module.os.scandir("gone")), await attempt(module.os.scandir("file"))

    both(program)


def test_wrap(run_asyncio, both):
    async def main():
        return await ours.os.wrap(os.path.join)("a", "b")

    assert run_asyncio(main) == "a/b"


@pytest.mark.parametrize("mode", ["w+", "w+b"])
@pytest.mark.parametrize("kind", ["TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile"])
def test_temporary_files(both, mode, kind):
    async def program(module):
        data = b"one\ntwo\n" if "b" in mode else "one\ntwo\n"
        async with getattr(module.tempfile, kind)(mode=mode) as file:
            found = [await file.write(data), await file.flush(), await file.seek(0)]
            found += [[line async for line in file], await file.tell(), file.closed]
            if kind == "NamedTemporaryFile":
                found += [os.path.exists(file.name), file.delete]
        if kind == "NamedTemporaryFile":
            found.append(os.path.exists(file.name))
        return [*found, file.closed]

    if kind == "NamedTemporaryFile" and sys.version_info >= (3, 12):
        pytest.skip("aiofiles has no attribute delete there")
    both(program)


def test_a_spooled_file_rolls_over(both):
    async def program(module):
        async with module.tempfile.SpooledTemporaryFile(max_size=4) as file:
            await file.write(b"1234")
            found = [file.name]
            await file.write(b"5")
            found.append(file.name == await file.fileno())
            await file.seek(0)
            return [*found, await file.read(), await file.isatty(), file.closed]

    both(program)


def test_temporary_directories(both):
    async def program(module):
        async with module.tempfile.TemporaryDirectory(suffix="end") as path:
            found = [isinstance(path, str), path.endswith("end"), os.path.isdir(path)]
            os.mkdir(path + "/below")
        found.append(os.path.exists(path))
        directory = await module.tempfile.TemporaryDirectory()
        found.append(os.path.isdir(directory.name))
        await directory.close()
        return [*found, os.path.exists(directory.name)]

    both(program)


def test_standard_streams_that_were_replaced(run, monkeypatch):
    text, raw = io.StringIO(), io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", text)
    monkeypatch.setattr(sys, "stderr", raw)
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))

    async def use():
        await ours.stdout.write("text")
        await ours.stdout.writelines([" and", " more"])
        await ours.stderr_bytes.write(b"bytes")
        await ours.stdout.flush()
        return [await ours.stdin.readline()] + [line async for line in ours.stdin]

    assert run(use) == ["one\n", "two\n"]
    assert text.getvalue() == "text and more"
    assert raw.buffer.getvalue() == b"bytes"


PROGRAM = """
import asyncio, sys
from {package} import {name} as aiofiles

async def main():
    print("printed")
    await aiofiles.stdout.write("h\\u00e9llo\\n")
    await aiofiles.stdout_bytes.write(b"bytes\\n")
    print("again")
    await aiofiles.stdout.writelines(["x", "y\\n"])
    await aiofiles.stderr.write("error\\n")
    await aiofiles.stdout.flush()
    line = await aiofiles.stdin.readline()
    rest = [line async for line in aiofiles.stdin]
    print(repr(line), rest, aiofiles.stdout.name, await aiofiles.stdin.readable())

asyncio.run(main())
"""


@pytest.mark.parametrize("module", ["ours", "theirs"])
def test_standard_streams(module):
    package, name = ("laio.compat", "aiofiles") if module == "ours" else ("aiofiles", "threadpool")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(package=package, name=name)],
        input="eins\nzwei\ndrei".encode(),
        capture_output=True,
        # Without a buffer for text, before which aiofiles would write the bytes.
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"},
        check=False,
    )
    assert done.stderr == b"error\n"
    assert done.stdout.decode().splitlines() == [
        "printed",
        "h\u00e9llo",
        "bytes",
        "again",
        "xy",
        "'eins\\n' ['zwei\\n', 'drei'] <stdout> True",
    ]


def test_all_names_are_there():
    for suffix in ("", ".os", ".ospath", ".tempfile", ".threadpool"):
        mine = __import__("laio.compat.aiofiles" + suffix, fromlist=["x"])
        other = __import__("aiofiles" + suffix, fromlist=["x"])
        assert set(other.__all__) <= set(mine.__all__)
        assert all(hasattr(mine, name) for name in mine.__all__)
