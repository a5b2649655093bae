"""`laio.shutil` beside `shutil`, in two directories."""

import os
import shutil
import stat

import pytest
from same import async_outcome, outcome, tree
from test_os import fill

import laio.shutil


def result(value):
    """An outcome in which only what both modules promise counts."""
    if value[0] == "raises" and issubclass(value[1], OSError) and len(value) > 2:
        details = value[2]
        # Names in exceptions: relative to a descriptor in one, joined in the other.
        return value[:2] + (details[0] if isinstance(details, tuple) else None,)
    return value


def times(root):
    """When the files in a tree were changed, unless that was during the test."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            changed = os.lstat(path).st_mtime_ns
            if changed < 10**18:
                found[os.path.relpath(path, root)] = changed
    return found


@pytest.fixture
def both(run, tmp_path, monkeypatch):
    """Calls a function of `shutil` and the coroutine, each in its directory, and compares all."""
    for side in ("shutil", "laio"):
        (tmp_path / side).mkdir()
        fill(tmp_path / side)
        for number, name in enumerate(["file", "full/file", "full/below/x", "full", "empty"]):
            os.utime(tmp_path / side / name, ns=(number + 1, 1000 + number))
        os.chmod(tmp_path / side / "full" / "file", 0o604)
        os.symlink("x", tmp_path / side / "full" / "below" / "here")

    def compare(name, *args, **kwargs):
        monkeypatch.chdir(tmp_path / "shutil")
        theirs = {
            key: getattr(shutil, value) if key == "copy_function" else value
            for key, value in kwargs.items()
        }
        expected = result(outcome(getattr(shutil, name), *args, **theirs))
        if name == "move" and expected == ("returns", None):
            # What `shutil.move` forgets to return.
            expected = "returns", args[1]
        monkeypatch.chdir(tmp_path / "laio")
        ours = {
            key: getattr(laio.shutil, value) if key == "copy_function" else value
            for key, value in kwargs.items()
        }
        call = lambda: async_outcome(getattr(laio.shutil, name), *args, **ours)
        assert result(run(call)) == expected
        assert tree(tmp_path / "laio") == tree(tmp_path / "shutil")
        assert times(tmp_path / "laio") == times(tmp_path / "shutil")
        return expected

    return compare


SOURCES = ["file", "full/file", "link", "dirlink", "dangling", "full", "gone", "fifo", "loop"]
TARGETS = ["new", "full/file", "full", "gone/", "gone/x", "link", "fifo", "file", "/dev/null"]


@pytest.mark.parametrize("src", SOURCES)
@pytest.mark.parametrize("dst", TARGETS)
def test_one_file(both, src, dst):
    names = ["copyfile", "copy", "copy2", "copymode", "copystat"]
    if dst == "/dev/null":
        names = ["copyfile"]
    for follow in (True, False):
        for name in names:
            both(name, src, dst, follow_symlinks=follow)


@pytest.mark.parametrize("size", [0, 1, 4096, 100_000, 3_000_000])
def test_data_of_any_size(run, tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    assert run(laio.shutil.copyfile, tmp_path / "a", tmp_path / "b") == tmp_path / "b"
    assert (tmp_path / "b").read_bytes() == data


def test_a_file_with_holes(run, tmp_path):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(10_000_000)
        file.seek(5_000_000)
        file.write(b"in between")
    run(laio.shutil.copyfile, tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_files_that_the_kernel_does_not_copy(run, tmp_path):
    # It has data, and the size 0.
    run(laio.shutil.copyfile, "/proc/self/limits", tmp_path / "limits")
    with open("/proc/self/limits", "rb") as file:
        assert (tmp_path / "limits").read_bytes() == file.read()
    run(laio.shutil.copyfile, "/dev/null", tmp_path / "limits")
    assert (tmp_path / "limits").read_bytes() == b""


def test_other_file_systems(run, tmp_path):
    other = "/dev/shm"
    if not os.path.isdir(other) or os.stat(other).st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    data = os.urandom(2_500_000)
    (tmp_path / "a").write_bytes(data)
    fill(tmp_path)
    os.unlink(tmp_path / "fifo")
    before = tree(tmp_path)
    inner = os.path.join(other, "laio-test-%d" % os.getpid())
    try:
        run(laio.shutil.move, str(tmp_path), inner)
        assert not tmp_path.exists()
        assert tree(inner) == before
        run(laio.shutil.move, os.path.join(inner, "a"), str(tmp_path))
        assert tmp_path.read_bytes() == data
        os.unlink(tmp_path)
        run(laio.shutil.move, os.path.join(inner, "link"), str(tmp_path))
        assert os.readlink(tmp_path) == "file"
        os.unlink(tmp_path)
    finally:
        shutil.rmtree(inner, ignore_errors=True)


def test_extended_attributes(run, tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    for path in (source, target):
        path.touch()
    try:
        os.setxattr(source, "user.one", b"1")
    except OSError:
        pytest.skip("needs extended attributes")
    os.setxattr(source, "user.two", b"\0" * 100)
    (tmp_path / "link").symlink_to("b")
    run(laio.shutil.copystat, source, tmp_path / "link")
    assert {name: os.getxattr(target, name) for name in os.listxattr(target)} == {
        "user.one": b"1",
        "user.two": b"\0" * 100,
    }


def test_a_descriptor_is_not_left_open(run, tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100_000)

    async def use():
        await laio.shutil.copyfile(tmp_path / "a", tmp_path / "b")
        before = os.listdir("/proc/self/fd")
        for _ in range(5):
            await laio.shutil.copyfile(tmp_path / "a", tmp_path / "b")
            await async_outcome(laio.shutil.copyfile, tmp_path / "a", tmp_path)
            await async_outcome(laio.shutil.rmtree, tmp_path / "a")
        return len(before), len(os.listdir("/proc/self/fd"))

    before, after = run(use)
    assert after <= before


@pytest.mark.parametrize("src", ["full", "empty", "gone", "file", "dirlink"])
@pytest.mark.parametrize("dst", ["new", "new/a/b", "empty", "file"])
@pytest.mark.parametrize("exist", [True, False])
def test_trees(both, src, dst, exist):
    both("copytree", src, dst, dirs_exist_ok=exist)
    both("copytree", src, dst, True, dirs_exist_ok=exist)
    both("rmtree", dst)


@pytest.mark.parametrize("function", ["copy", "copy2", "copyfile"])
def test_trees_with_options(both, function):
    both("copytree", "full", "new", copy_function=function)
    both("copytree", "full", "new2", ignore=shutil.ignore_patterns("b*"))
    both("copytree", "full", "new3", ignore=lambda directory, names: {"file"})


def test_what_could_not_be_copied_is_told(run, tmp_path):
    root = tmp_path / "a"
    root.mkdir()
    fill(root)
    shutil.rmtree(root / "full")
    for name in ("loop", "dirlink"):
        os.unlink(root / name)

    async def copy(target, **options):
        try:
            await laio.shutil.copytree(str(root), str(tmp_path / target), **options)
        except shutil.Error as error:
            return [(os.path.basename(src), os.path.basename(dst)) for src, dst, _ in error.args[0]]
        return None

    assert sorted(run(copy, "b")) == [("dangling", "dangling"), ("fifo", "fifo")]
    assert run(lambda: copy("c", ignore_dangling_symlinks=True)) == [("fifo", "fifo")]
    os.unlink(root / "fifo")
    assert run(lambda: copy("d", ignore_dangling_symlinks=True)) is None
    assert run(lambda: copy("e", symlinks=True)) is None
    assert tree(tmp_path / "e") == tree(root)
    # The target of this link is beside the link, not in the working directory.
    assert (tmp_path / "d" / "link").read_text() == "some text"


def test_functions_of_the_program_may_be_coroutines(run, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / "a" / "y").touch()
    seen = []

    async def ignore(directory, names):
        return [name for name in names if name == "y"]

    async def copy(src, dst):
        seen.append((os.path.basename(src), os.path.basename(dst)))

    async def work():
        await laio.shutil.copytree(
            tmp_path / "a", tmp_path / "b", ignore=ignore, copy_function=copy
        )

    run(work)
    assert seen == [("x", "x")]


@pytest.mark.parametrize("name", ["full", "empty", "gone", "file", "dirlink", b"full"])
def test_removal(both, name):
    both("rmtree", name, True)
    both("copytree", "full", "again")
    both("rmtree", name)


@pytest.mark.parametrize("name", ["gone", "dirlink"])
def test_removal_reports(both, run, name):
    both("rmtree", name, True)
    theirs, ours, awaited = [], [], []

    def keep(found):
        return lambda function, path, info: found.append((function, path, info[0]))

    async def on_exception(function, path, error):
        awaited.append((function, path, type(error)))

    shutil.rmtree(name, onerror=keep(theirs))
    run(lambda: laio.shutil.rmtree(name, onerror=keep(ours)))
    run(lambda: laio.shutil.rmtree(name, onexc=on_exception))
    assert ours == theirs == awaited


def test_removal_goes_on_after_an_exception(run, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    reported = []

    def on_exception(function, path, error):
        reported.append((function, path, type(error), error.filename))
        if function is os.rmdir and path.endswith("b"):
            os.unlink(os.path.join(path, "late"))
            os.rmdir(path)

    class Late(laio.shutil._remove._Removal):
        """Finds a file that another process has made meanwhile."""

        async def enter(self, name, path, dir_fd):
            await super().enter(name, path, dir_fd)
            if name == "b":
                open(os.path.join(path, "late"), "w").close()

    run(lambda: Late(on_exception, None).run(str(tmp_path / "a"), None))
    path = str(tmp_path / "a" / "b")
    assert reported == [(os.rmdir, path, OSError, path)]
    assert not (tmp_path / "a").exists()


def test_removal_does_not_follow_a_link_that_came_late(run, tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()

    class Raced(laio.shutil._remove._Removal):
        """Another process replaces the directory by a link, after it was listed."""

        async def enter(self, name, path, dir_fd):
            if name == "b":
                os.rmdir(path)
                os.symlink(tmp_path / "precious", path)
            await super().enter(name, path, dir_fd)

    reported = []
    removal = Raced(lambda *arguments: reported.append(arguments), None)
    run(lambda: removal.run(str(tmp_path / "a"), None))
    assert os.listdir(tmp_path / "precious") == ["file"]
    # The link is left, and so the directory.
    assert [function for function, _, _ in reported] == [os.scandir, os.rmdir]


def test_a_deep_tree_is_removed(run, tmp_path):
    path = tmp_path / "a"
    names = ["d" * 40] * 60
    path.joinpath(*names).mkdir(parents=True)
    path.joinpath(*names, "file").touch()
    run(laio.shutil.rmtree, path)
    assert not path.exists()


def test_removal_relative_to_a_directory(run, tmp_path):
    fill(tmp_path)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        run(lambda: laio.shutil.rmtree("full", dir_fd=descriptor))
        assert not (tmp_path / "full").exists()
        found = run(lambda: async_outcome(laio.shutil.rmtree, "gone", dir_fd=descriptor))
        assert found == ("raises", FileNotFoundError, (2, "gone", None))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("src", ["file", "full", "full/", "link", "dangling", "gone", "empty"])
@pytest.mark.parametrize("dst", ["new", "full", "full/below", "empty", "file", "gone/x", "dirlink"])
def test_moves(both, src, dst):
    both("move", src, dst)


def test_moving_into_a_directory_that_has_the_name(both):
    assert both("move", "file", "full")[:2] == ("raises", shutil.Error)


def test_disk_usage(run, tmp_path):
    ours, theirs = run(laio.shutil.disk_usage, tmp_path), shutil.disk_usage(tmp_path)
    assert ours._fields == theirs._fields and ours.total == theirs.total


def test_open_files_are_copied(run, tmp_path):
    (tmp_path / "a").write_text("line\n" * 1000)

    async def copy(mode, length):
        async with laio.open(tmp_path / "a", "r" + mode) as source:
            async with laio.open(tmp_path / "b", "w" + mode) as target:
                await laio.shutil.copyfileobj(source, target, length)

    for mode in ("", "b"):
        for length in (0, 7):
            run(copy, mode, length)
            assert (tmp_path / "b").read_text() == "line\n" * 1000


def test_permissions_of_a_new_file(run, tmp_path):
    (tmp_path / "a").touch(0o751)
    os.chmod(tmp_path / "a", 0o751)
    old = os.umask(0o077)
    try:
        run(laio.shutil.copyfile, tmp_path / "a", tmp_path / "b")
        run(laio.shutil.copy, tmp_path / "a", tmp_path / "c")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o751
