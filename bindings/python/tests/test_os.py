"""`laio.os` beside `os`: each call in a directory of its own, with the same names."""

import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile

import pytest
from same import async_outcome, outcome, tree

import laio.os


def fill(root):
    """Makes files of all kinds in a directory."""
    os.makedirs(os.path.join(root, "full", "below"))
    os.mkdir(os.path.join(root, "empty"))
    for name, content in [("file", b"some text"), ("full/file", b""), ("full/below/x", b"x" * 9999)]:
        with open(os.path.join(root, name), "wb") as file:
            file.write(content)
    os.symlink("file", os.path.join(root, "link"))
    os.symlink("full", os.path.join(root, "dirlink"))
    os.symlink("gone", os.path.join(root, "dangling"))
    os.symlink("loop", os.path.join(root, "loop"))
    os.mkfifo(os.path.join(root, "fifo"))
    with open(os.path.join(os.fsencode(root), b"not utf-8 \xff"), "wb"):
        pass


@pytest.fixture
def both(run, tmp_path, monkeypatch):
    """Calls a function of `os` and the coroutine, each in its directory, and compares all."""
    for side in ("os", "laio"):
        (tmp_path / side).mkdir()
        fill(tmp_path / side)

    def compare(name, *args, **kwargs):
        function, coroutine = os, laio.os
        for part in name.split("."):
            function, coroutine = getattr(function, part), getattr(coroutine, part)
        monkeypatch.chdir(tmp_path / "os")
        expected = outcome(function, *args, **kwargs)
        monkeypatch.chdir(tmp_path / "laio")
        assert run(lambda: async_outcome(coroutine, *args, **kwargs)) == expected
        assert tree(tmp_path / "laio") == tree(tmp_path / "os")
        return expected

    return compare


NAMES = [
    "file",
    "link",
    "dirlink",
    "dangling",
    "loop",
    "fifo",
    "full",
    "full/",
    "full/.",
    "full/../file",
    "empty",
    "gone",
    "gone/x",
    "file/x",
    "",
    ".",
    "/",
    "x" * 300,
    "nul\0",
    b"file",
    b"not utf-8 \xff",
    "not utf-8 \udcff",
]


@pytest.mark.parametrize("name", NAMES)
def test_calls_on_one_name(both, name):
    for call in ("stat", "lstat", "readlink"):
        both(call, name)
    both("stat", name, follow_symlinks=False)
    for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK):
        both("access", name, mode)
    if name != "/":
        both("chmod", name, 0o640)
        both("chown", name, -1, -1)
        both("lchown", name, -1, -1)
        both("chown", name, -1, -1, follow_symlinks=False)
    both("mkdir", name)
    both("symlink", "text", name)
    both("rmdir", name) if name != "/" else None
    both("unlink", name)


@pytest.mark.parametrize("name", NAMES[1:])
def test_utime(run, tmp_path, monkeypatch, name):
    if name == "/":
        return
    for side in ("os", "laio"):
        (tmp_path / side).mkdir()
        fill(tmp_path / side)
    for kwargs in ({"times": (1.5, 2.5)}, {"ns": (1, 2), "follow_symlinks": False}, {}):
        monkeypatch.chdir(tmp_path / "os")
        expected = outcome(os.utime, name, **kwargs)
        times = outcome(set_time, name)
        monkeypatch.chdir(tmp_path / "laio")
        found = run(lambda: async_outcome(laio.os.utime, name, **kwargs))
        # Our exceptions have the name of the file, those of `os.utime` have none.
        assert found[:2] == expected[:2]
        assert outcome(set_time, name) == times


def set_time(name):
    """The time of a name, if a test has set it."""
    time = os.lstat(name).st_mtime_ns
    return time if time < 10**10 else None


@pytest.mark.parametrize("name", NAMES)
def test_questions_about_a_path(both, name):
    for call in ("exists", "lexists", "isdir", "isfile", "islink", "ismount", "getsize"):
        both("path." + call, name)


@pytest.mark.parametrize("name", NAMES)
def test_makedirs_and_removedirs(both, name):
    if name in ("", "/"):
        return
    both("makedirs", name)
    both("makedirs", name, exist_ok=True)
    both("makedirs", name + (b"/y/z" if isinstance(name, bytes) else "/y/z"))
    both("removedirs", name + (b"/y/z" if isinstance(name, bytes) else "/y/z"))


@pytest.mark.parametrize("src", ["file", "link", "dangling", "full", "empty", "gone", "fifo", b"file"])
@pytest.mark.parametrize("dst", ["new", "file", "full", "empty", "gone/x", "file/x", "dirlink/new"])
def test_calls_on_two_names(both, src, dst):
    if isinstance(src, bytes):
        dst = os.fsencode(dst)
    both("path.samefile", src, dst)
    both("link", src, dst)
    both("rename", src, dst)
    both("replace", dst, src)
    both("renames", src, os.path.join(dst, dst))


def test_times_are_set_as_os_sets_them(run, tmp_path):
    mine, others = tmp_path / "laio", tmp_path / "os"
    mine.touch()
    others.touch()
    for times in [
        (0, 0),
        (1.25, 2.75),
        (-1.25, -0.000000001),
        (1e9 + 0.1, 123456789.987654321),
        (5, 0.9999999999999),
    ]:
        os.utime(others, times)
        run(laio.os.utime, mine, times)
        assert mine.stat().st_atime_ns == others.stat().st_atime_ns
        assert mine.stat().st_mtime_ns == others.stat().st_mtime_ns
        assert run(laio.os.path.getmtime, mine) == os.path.getmtime(others)
        assert run(laio.os.path.getatime, mine) == os.path.getatime(others)
        assert run(laio.os.path.getctime, others) == os.path.getctime(others)
        assert run(laio.os.stat, others) == os.stat(others)


@pytest.mark.parametrize(
    "arguments",
    [
        {"times": (1, 2), "ns": (1, 2)},
        {"times": 5},
        {"times": (1,)},
        {"ns": (1, 2, 3)},
        {"ns": 7},
        {"times": (float("nan"), 1.0)},
        {"times": (float("inf"), 1.0)},
        {"times": ("1", 1)},
    ],
)
def test_times_that_are_refused(both, arguments):
    assert both("utime", "file", **arguments)[0] == "raises"


@pytest.mark.parametrize("name", ["file", "link", "full", "gone", "dangling", b"file", "nul\0"])
def test_truncate(both, name):
    for length in (4, 0, 5000, -1) if name != "nul\0" else (4,):
        both("truncate", name, length)


@pytest.mark.parametrize("name", [".", "full", "file", "gone", "dirlink", "loop", b".", None, ""])
def test_listing(both, name, run):
    both("listdir", name)

    async def names():
        async with laio.os.scandir(name) as entries:
            return [(entry.name, entry.path, entry.inode()) async for entry in entries]

    expected = outcome(lambda: [(e.name, e.path, e.inode()) for e in os.scandir(name)])
    assert run(async_outcome, names) == expected


def test_entries_know_their_types(both, run):
    both("listdir")

    async def types():
        found = {}
        async for entry in laio.os.scandir():
            found[entry.name] = (
                await entry.is_dir(),
                await entry.is_dir(follow_symlinks=False),
                await async_outcome(entry.is_file),
                await entry.is_file(follow_symlinks=False),
                await entry.is_symlink(),
                await async_outcome(entry.stat),
                await async_outcome(entry.stat, follow_symlinks=False),
                os.fspath(entry),
                repr(entry),
            )
        return found

    os.unlink("loop")
    assert run(types) == {
        entry.name: (
            entry.is_dir(),
            entry.is_dir(follow_symlinks=False),
            outcome(entry.is_file),
            entry.is_file(follow_symlinks=False),
            entry.is_symlink(),
            outcome(entry.stat),
            outcome(entry.stat, follow_symlinks=False),
            os.fspath(entry),
            repr(entry),
        )
        for entry in os.scandir()
    }


def test_an_entry_of_unknown_type_is_looked_up(tmp_path, run, monkeypatch):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)

    async def types(name):
        def entry():
            return laio.os.DirEntry(name, "./" + name, 0, 0, None)

        return (
            await entry().is_symlink(),
            await async_outcome(entry().is_dir),
            await entry().is_dir(follow_symlinks=False),
            await async_outcome(entry().is_file),
            await entry().is_file(follow_symlinks=False),
        )

    entries = {entry.name: entry for entry in os.scandir()}
    for name, entry in entries.items():
        assert run(types, name) == (
            entry.is_symlink(),
            outcome(entry.is_dir),
            entry.is_dir(follow_symlinks=False),
            outcome(entry.is_file),
            entry.is_file(follow_symlinks=False),
        )
    assert run(types, "gone") == (False, ("returns", False), False, ("returns", False), False)


def test_scandir_is_awaited_or_closed(tmp_path, run):
    fill(tmp_path)

    async def use():
        entries = await laio.os.scandir(tmp_path)
        first = await entries.__anext__()
        await entries.close()
        return first.name, [entry async for entry in entries]

    name, rest = run(use)
    assert name in os.listdir(tmp_path) and rest == []


@pytest.mark.parametrize("topdown", [True, False])
@pytest.mark.parametrize("followlinks", [True, False])
@pytest.mark.parametrize("top", [".", "full", b".", "gone", "dirlink", "file"])
def test_walk(both, run, top, topdown, followlinks):
    both("walk", top, topdown=topdown, followlinks=followlinks)

    errors, expected = [], []
    list(os.walk(top, topdown, expected.append, followlinks))

    async def walk():
        async for _ in laio.os.walk(top, topdown, errors.append, followlinks):
            pass

    run(walk)
    assert [repr(e) for e in errors] == [repr(e) for e in expected]


def test_walk_goes_where_the_program_says(tmp_path, run):
    fill(tmp_path)

    async def walk():
        found = []
        async for directory, directories, _ in laio.os.walk(tmp_path):
            found.append(directory)
            directories[:] = [name for name in directories if name != "full"]
        return found

    assert run(walk) == [str(tmp_path), str(tmp_path / "empty")]


@pytest.mark.parametrize("topdown", [True, False])
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("top", [".", "full", b".", "gone", "dirlink", "file"])
def test_fwalk(run, tmp_path, monkeypatch, top, topdown, follow):
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    os.mkdir("full/forbidden", 0)
    errors, expected_errors = [], []

    def walk():
        arguments = {"follow_symlinks": follow}
        for *names, number in os.fwalk(top, topdown, expected_errors.append, **arguments):
            yield (*names, sorted(os.listdir(number)), os.fstat(number).st_ino)

    async def our_walk():
        found = []
        arguments = {"follow_symlinks": follow}
        async for *names, number in laio.os.fwalk(top, topdown, errors.append, **arguments):
            found.append((*names, sorted(os.listdir(number)), os.fstat(number).st_ino))
        return found

    before = len(os.listdir("/proc/self/fd"))
    # An exception of `os.fwalk` names a descriptor's number, which is another one here.
    expected, found = outcome(lambda: list(walk())), run(async_outcome, our_walk)
    assert found[:2] == expected[:2]
    assert found[0] == "returns" or found[2][0] == expected[2][0]
    assert [repr(e) for e in errors] == [repr(e) for e in expected_errors]
    # The engine's own descriptors may have come.
    assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_fwalk_goes_where_the_program_says(tmp_path, run):
    fill(tmp_path)

    async def walk():
        found = []
        parent = os.open(tmp_path.parent, os.O_RDONLY)
        walked = laio.os.fwalk(tmp_path.name, dir_fd=parent)
        async for directory, directories, others, number in walked:
            found.append(directory)
            directories[:] = [name for name in directories if name != "full"]
            for name in others:
                await laio.os.unlink(name, dir_fd=number)
        os.close(parent)
        # Left in the middle, it closes what is open.
        left = laio.os.fwalk(tmp_path)
        async for _, _, _, number in left:
            break
        await left.aclose()
        with pytest.raises(OSError):
            os.fstat(number)
        return found

    name = tmp_path.name
    assert run(walk) == [name, f"{name}/empty"]
    assert sorted(os.listdir(tmp_path)) == ["dirlink", "empty", "full"]


def test_names_relative_to_a_directory(both, tmp_path, run):
    for side in ("os", "laio"):
        (tmp_path / side / "base").mkdir()
        (tmp_path / side / "base" / "f").write_text("f")

    for name, args in [
        ("stat", ["f"]),
        ("lstat", ["f"]),
        ("mkdir", ["d"]),
        ("rmdir", ["d"]),
        ("symlink", ["text", "s"]),
        ("readlink", ["s"]),
        ("access", ["f", os.R_OK]),
        ("chmod", ["f", 0o600]),
        ("chown", ["f", -1, -1]),
        ("utime", ["f", (1, 2)]),
        ("unlink", ["s"]),
        ("stat", ["s"]),
        ("remove", ["f"]),
    ]:
        outcomes = []
        for side, function in (("os", getattr(os, name)), ("laio", getattr(laio.os, name))):
            descriptor = os.open(tmp_path / side / "base", os.O_RDONLY)
            try:
                if side == "os":
                    outcomes.append(outcome(function, *args, dir_fd=descriptor))
                else:
                    call = lambda: async_outcome(function, *args, dir_fd=descriptor)
                    outcomes.append(run(call))
            finally:
                os.close(descriptor)
        assert outcomes[0] == outcomes[1]
    assert tree(tmp_path / "os") == tree(tmp_path / "laio")


def test_renaming_and_linking_between_directories(tmp_path, run):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "f").write_text("text")
    a, b = (os.open(tmp_path / name, os.O_RDONLY) for name in "ab")
    try:
        run(lambda: laio.os.link("f", "g", src_dir_fd=a, dst_dir_fd=b, follow_symlinks=False))
        run(lambda: laio.os.rename("f", "h", src_dir_fd=a, dst_dir_fd=b))
        run(lambda: laio.os.replace("h", "g", src_dir_fd=b, dst_dir_fd=b))
    finally:
        os.close(a)
        os.close(b)
    assert os.listdir(tmp_path / "a") == []
    assert (tmp_path / "b" / "g").read_text() == "text"


def test_calls_on_descriptors(tmp_path, run):
    with open(tmp_path / "file", "w+b") as file:
        number = file.fileno()
        file.write(b"0123456789")
        file.flush()
        run(laio.os.truncate, number, 5)
        assert os.fstat(number).st_size == 5
        run(laio.os.chmod, number, 0o604)
        assert stat.S_IMODE(os.fstat(number).st_mode) == 0o604
        run(laio.os.chown, number, os.getuid(), os.getgid())
        run(laio.os.utime, number, (3, 4))
        assert os.fstat(number).st_mtime == 4
        os.unlink(file.name)
        assert run(laio.os.stat, number) == os.stat(number)
        assert run(laio.os.fstat, number) == os.fstat(number)
        assert run(laio.os.path.exists, number) and run(laio.os.path.isfile, number)
        assert run(laio.os.path.getsize, number) == 5
        assert run(laio.os.path.sameopenfile, number, number)
        assert run(laio.os.fsync, file) is None
        assert run(laio.os.fdatasync, number) is None
    none = 999_999
    for name in ("stat", "fstat", "fsync", "fdatasync", "listdir"):
        expected = outcome(getattr(os, name), none)
        assert run(async_outcome, getattr(laio.os, name), none) == expected
    assert not run(laio.os.path.exists, none)


def test_a_directory_is_listed_by_its_descriptor(tmp_path, run):
    fill(tmp_path)
    descriptor = os.open(tmp_path, os.O_RDONLY)

    async def scan():
        return [
            (entry.name, entry.path, await entry.is_dir(), await async_outcome(entry.stat))
            async for entry in laio.os.scandir(descriptor)
        ]

    try:
        names = run(laio.os.listdir, descriptor)
        assert sorted(names) == sorted(os.listdir(tmp_path))
        # A second time: the position of the descriptor does not count.
        assert run(laio.os.listdir, descriptor) == names
        os.unlink(tmp_path / "loop")
        found = run(scan)
        assert found == [
            (entry.name, entry.path, entry.is_dir(), outcome(entry.stat))
            for entry in os.scandir(descriptor)
        ]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("call", ["stat", "chown", "utime"])
def test_arguments_that_exclude_each_other(both, call):
    rest = [-1, -1] if call == "chown" else []
    assert both(call, 1, *rest, dir_fd=1)[0] == "raises"
    assert both(call, 1, *rest, follow_symlinks=False)[0] == "raises"


@pytest.mark.parametrize("argument", [None, 1.5, object(), ["file"]])
@pytest.mark.parametrize("call", ["stat", "lstat", "mkdir", "unlink", "readlink", "path.getsize"])
def test_arguments_of_the_wrong_type(both, call, argument):
    assert both(call, argument)[:2] == ("raises", TypeError)


def test_sendfile(tmp_path, run):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    left, right = socket.socketpair()
    with left, right, open(path, "rb") as file:
        assert run(laio.os.sendfile, left.fileno(), file.fileno(), 2, 5) == 5
        assert right.recv(100) == b"23456"
        assert run(laio.os.sendfile, left, file, 8, 100) == 2
        assert right.recv(100) == b"89"
        assert run(laio.os.sendfile, left, file, 10, 100) == 0
        assert run(laio.os.sendfile, left, file, None, 4) == 4
        assert run(laio.os.sendfile, left, file, None, 4) == 4
        assert right.recv(100) == b"01234567"


def test_access_with_options(both):
    for name in ("file", "dangling", "gone", "link", "full"):
        for mode in (os.F_OK, os.R_OK, os.X_OK):
            both("access", name, mode, effective_ids=True)
            both("access", name, mode, follow_symlinks=False)


def test_statvfs(run, tmp_path):
    def steady(status):
        return status.f_bsize, status.f_frsize, status.f_blocks, status.f_files, status.f_namemax

    expected = os.statvfs(tmp_path)
    assert steady(run(laio.os.statvfs, tmp_path)) == steady(expected)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert steady(run(laio.os.statvfs, descriptor)) == steady(expected)
    finally:
        os.close(descriptor)
    assert run(async_outcome, laio.os.statvfs, "gone") == outcome(os.statvfs, "gone")


def test_a_path_object_names_a_file(tmp_path, run):
    (tmp_path / "file").write_text("text")
    assert run(laio.os.path.getsize, tmp_path / "file") == 4
    assert run(laio.os.listdir, tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError) as caught:
        run(laio.os.stat, tmp_path / "gone")
    assert caught.value.filename == str(tmp_path / "gone")


def test_realpath_of_temporary_directory(run):
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/a")
        os.symlink("a", root + "/b")
        os.symlink("../b/../x", root + "/a/c")
        for name in ("b/c", "b", "a/c/d", "b//./..", "gone/../a", os.fsencode("b/c")):
            path = os.path.join(os.fsencode(root) if isinstance(name, bytes) else root, name)
            assert run(laio.os.path.realpath, path) == os.path.realpath(path)


@pytest.mark.parametrize("call", ["fsync", "fdatasync", "truncate", "sendfile"])
def test_locks_are_kept(tmp_path, run, call):
    path = tmp_path / "locked"
    path.write_bytes(b"0123456789")
    with open(path, "r+b") as file, open(tmp_path / "other", "w+b") as other:
        fcntl.lockf(file, fcntl.LOCK_EX)
        arguments = {
            "truncate": (file.fileno(), 10),
            "sendfile": (other.fileno(), file.fileno(), 0, 10),
        }
        run(getattr(laio.os, call), *arguments.get(call, (file.fileno(),)))
        if call == "sendfile":
            run(laio.os.sendfile, file.fileno(), other.fileno(), 0, 5)
        program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
        assert "BlockingIOError" in done.stderr


@pytest.mark.parametrize("follow_symlinks", [True, False])
@pytest.mark.parametrize("source", ["link", "dangling", "file", "full"])
def test_link_with_a_directory(tmp_path, run, source, follow_symlinks):
    fill(tmp_path)
    directory = os.open(tmp_path, os.O_RDONLY)
    descriptors = {"src_dir_fd": directory, "dst_dir_fd": directory}

    def link(function, name):
        return function(source, name, **descriptors, follow_symlinks=follow_symlinks)

    expected = outcome(link, os.link, "plain")
    found = run(lambda: async_outcome(link, laio.os.link, "ours"))
    os.close(directory)
    assert found[:2] == expected[:2]
    if expected[0] == "returns":
        plain, ours = os.lstat(tmp_path / "plain"), os.lstat(tmp_path / "ours")
        assert os.path.samestat(plain, ours)
