"""`laio.tempfile`: what is made, who may use it, and that nothing is left."""

import gc
import os
import stat
import tempfile
import warnings

import pytest
from same import async_outcome

import laio.tempfile


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """All temporary files are made in a directory of the test, which is empty in the end."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield str(path)
    assert os.listdir(path) == []


def test_mkstemp(run, directory):
    number, path = run(lambda: laio.tempfile.mkstemp(".end", "begin"))
    assert os.path.dirname(path) == directory
    assert os.path.basename(path).startswith("begin") and path.endswith(".end")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not os.get_inheritable(number)
    assert os.path.samestat(os.fstat(number), os.stat(path))
    assert os.write(number, b"text") == 4
    os.close(number)
    os.unlink(path)


def test_names_may_be_bytes(run, directory):
    number, path = run(lambda: laio.tempfile.mkstemp(b".end"))
    assert isinstance(path, bytes) and path.endswith(b".end")
    os.close(number)
    os.unlink(path)
    path = run(lambda: laio.tempfile.mkdtemp(dir=os.fsencode(directory)))
    assert isinstance(path, bytes)
    os.rmdir(path)
    for arguments in [(b"x", "y"), ("x", None, b"/tmp")]:
        with pytest.raises(TypeError):
            run(laio.tempfile.mkstemp, *arguments)


def test_names_that_exist_are_not_used(run, directory, monkeypatch):
    values = iter([b"aaaaa", b"aaaaa", b"bbbbb"])
    monkeypatch.setattr(os, "urandom", lambda size: next(values))
    first = run(laio.tempfile.mkdtemp)
    second = run(laio.tempfile.mkdtemp)
    monkeypatch.undo()
    assert first != second
    os.rmdir(first)
    os.rmdir(second)


def test_mkdtemp(run, directory):
    path = run(lambda: laio.tempfile.mkdtemp("end", "begin", directory))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    os.rmdir(path)
    gone = os.path.join(directory, "gone")
    assert run(lambda: async_outcome(laio.tempfile.mkdtemp, dir=gone))[:2] == (
        "raises",
        FileNotFoundError,
    )


@pytest.mark.parametrize("mode", ["w+b", "w+", "wb", "r+"])
@pytest.mark.parametrize("buffering", [-1, 0, 100])
def test_files_without_a_name(run, directory, mode, buffering):
    if buffering == 0 and "b" not in mode:
        return
    data = b"one\ntwo\n" if "b" in mode else "one\ntwo\n"

    async def use():
        async with laio.tempfile.TemporaryFile(mode, buffering) as file:
            assert os.listdir(directory) == []
            assert isinstance(file.name, int)
            assert await file.write(data) == 8
            if "+" in mode:
                await file.seek(0)
                assert await file.read() == data
                if buffering != 0:
                    await file.seek(0)
                    assert [line async for line in file] == data.splitlines(True)
        assert file.closed

    run(use)


def test_a_file_system_without_unnamed_files(run, directory, monkeypatch):
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)

    async def use():
        file = await laio.tempfile.TemporaryFile()
        assert os.listdir(directory) == []
        await file.write(b"text")
        await file.close()

    run(use)


@pytest.mark.parametrize("mode", ["w+b", "w+", "r+b"])
def test_files_with_a_name(run, directory, mode):
    data = b"one\ntwo\n" if "b" in mode else "one\ntwo\n"

    async def use():
        async with laio.tempfile.NamedTemporaryFile(mode, suffix=".end") as file:
            assert file.name.endswith(".end") and os.path.exists(file.name)
            await file.write(data)
            await file.flush()
            assert os.path.getsize(file.name) == 8
            await file.seek(0)
            assert await file.readline() == data[:4]
            assert [line async for line in file] == [data[4:]]
            assert not file.closed
        assert file.closed and not os.path.exists(file.name)
        file = await laio.tempfile.NamedTemporaryFile(mode)
        await file.close()
        assert not os.path.exists(file.name)
        await file.close()

    run(use)


@pytest.mark.parametrize("name", ["TemporaryFile", "NamedTemporaryFile"])
def test_an_unknown_encoding_leaves_no_file(run, directory, name):
    async def use():
        with pytest.raises(LookupError):
            await getattr(laio.tempfile, name)("w+", encoding="unknown", dir=directory)

    run(use)
    assert os.listdir(directory) == []


def test_a_named_file_stays_if_the_program_says_so(run):
    async def use():
        async with laio.tempfile.NamedTemporaryFile(delete=False) as file:
            await file.write(b"text")
        assert os.path.getsize(file.name) == 4
        os.unlink(file.name)
        async with laio.tempfile.NamedTemporaryFile(delete_on_close=False) as file:
            await file.write(b"text")
            await file.close()
            assert os.path.getsize(file.name) == 4
        assert not os.path.exists(file.name)
        async with laio.tempfile.NamedTemporaryFile(delete_on_close=False) as file:
            os.unlink(file.name)

    run(use)


def test_a_named_file_that_is_gone_is_closed(run):
    async def use():
        async with laio.tempfile.NamedTemporaryFile() as file:
            os.unlink(file.name)
        assert file.closed

    run(use)


def test_what_is_forgotten_is_removed(run, directory):
    async def forget():
        await laio.tempfile.NamedTemporaryFile()
        await laio.tempfile.TemporaryDirectory()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(forget)
        gc.collect()
    warned = [w for w in caught if "Implicitly cleaning up" in str(w.message)]
    assert len(warned) == 2
    assert os.listdir(directory) == []


@pytest.mark.parametrize("mode", ["w+b", "w+"])
@pytest.mark.parametrize("max_size", [0, 5, 10, 1000])
@pytest.mark.parametrize("newline", [None, "\r\n"])
def test_files_in_memory(run, mode, max_size, newline):
    if "b" in mode and newline:
        return
    lines = [b"eins\n", b"zwei\n", b"drei\n"]
    if "b" not in mode:
        lines = ["eins\n", "zw\u00f6lf\n", "drei\n"]

    def theirs():
        found = []
        with tempfile.SpooledTemporaryFile(max_size, mode, newline=newline) as file:
            found.append((file.write(lines[0]), file._rolled))
            file.writelines(lines[1:])
            found.append((file.tell(), file._rolled))
            file.seek(0)
            found.append(file.readline())
            file.rollover()
            found += [file.readline(), file.readlines(), file.read(), file.tell()]
            file.seek(0)
            found += list(file)
            file.truncate(3)
            file.seek(0)
            found += [file.read(), file.closed]
        return [*found, file.closed]

    async def ours():
        found = []
        async with laio.tempfile.SpooledTemporaryFile(max_size, mode, newline=newline) as file:
            found.append((await file.write(lines[0]), file._rolled))
            await file.writelines(lines[1:])
            found.append((await file.tell(), file._rolled))
            await file.seek(0)
            found.append(await file.readline())
            await file.rollover()
            found += [await file.readline(), await file.readlines(), await file.read()]
            found.append(await file.tell())
            await file.seek(0)
            found += [line async for line in file]
            await file.truncate(3)
            await file.seek(0)
            found += [await file.read(), file.closed]
        return [*found, file.closed]

    assert run(ours) == theirs()


def test_a_file_in_memory_gets_a_descriptor(run):
    async def use():
        async with laio.tempfile.SpooledTemporaryFile() as file:
            assert file.name is None and file.mode == "w+b"
            assert file.readable() and file.writable() and file.seekable() and not file.isatty()
            await file.write(b"text")
            number = await file.fileno()
            assert file.name == number
            await file.flush()
            assert os.fstat(number).st_size == 4
            await file.seek(0)
            memory = bytearray(4)
            assert await file.readinto(memory) == 4 and memory == b"text"
        async with laio.tempfile.SpooledTemporaryFile(10) as file:
            await file.truncate(100)
            assert os.fstat(await file.fileno()).st_size == 100

    run(use)


def test_directories(run, directory):
    async def use():
        async with laio.tempfile.TemporaryDirectory("end", "begin") as path:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
            os.makedirs(path + "/a/b")
            os.symlink("/", path + "/a/root")
            os.chmod(path + "/a/b", 0)
        assert not os.path.exists(path)
        made = await laio.tempfile.TemporaryDirectory()
        assert os.path.dirname(made.name) == directory
        assert repr(made) == f"<TemporaryDirectory {made.name!r}>"
        await made.cleanup()
        assert not os.path.exists(made.name)
        await made.cleanup()
        async with laio.tempfile.TemporaryDirectory(delete=False) as path:
            pass
        os.rmdir(path)
        async with laio.tempfile.TemporaryDirectory() as path:
            os.rmdir(path)

    run(use)


def test_an_unreadable_directory_is_opened_first(run, tmp_path):
    from laio.tempfile._directory import _Removal

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch(0)
    (tmp_path / "a" / "below").mkdir(0)

    async def use():
        removal = _Removal(False)
        for name in ("file", "below", "gone"):
            path = str(tmp_path / "a" / name)
            await removal.on_exception(os.unlink, path, PermissionError(13, "denied"))
        with pytest.raises(PermissionError):
            await removal.on_exception(os.unlink, path, PermissionError(13, "denied"))
        await _Removal(True).on_exception(os.unlink, "x", OSError(5, "I/O"))

    (tmp_path / "a" / "gone").touch()
    run(use)
    assert os.listdir(tmp_path / "a") == []
