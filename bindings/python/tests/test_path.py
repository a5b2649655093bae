"""`laio.Path` beside `pathlib.Path`, in two directories."""

import os
import pathlib
import pickle
import stat
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same import async_outcome, outcome, tree
from test_os import NAMES, fill

from laio._path import Path

STR_NAMES = [name for name in NAMES if isinstance(name, str)]


def plain(value):
    """A result of `pathlib` or of ours, in one form."""
    if isinstance(value, pathlib.PurePath):
        return "path", str(value)
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return value


@pytest.fixture
def both(run, tmp_path, monkeypatch):
    """Calls a method of `pathlib.Path` and of `laio.Path`, and compares all."""
    for side in ("pathlib", "laio"):
        (tmp_path / side).mkdir()
        fill(tmp_path / side)

    def compare(method, name, *args, **kwargs):
        # Arguments that are paths are ours on our side.
        theirs = [pathlib.Path(arg) if isinstance(arg, Path) else arg for arg in args]
        monkeypatch.chdir(tmp_path / "pathlib")
        expected = plain(outcome(getattr(pathlib.Path(name), method), *theirs, **kwargs))
        monkeypatch.chdir(tmp_path / "laio")
        found = plain(run(lambda: async_outcome(getattr(Path(name), method), *args, **kwargs)))
        if found[0] == "returns" and isinstance(found[1], tuple) and found[1][0] == "path":
            found = plain(("returns", pathlib.Path(found[1][1].replace("/laio", "/pathlib"))))
        assert found == expected
        assert tree(tmp_path / "laio") == tree(tmp_path / "pathlib")
        return expected

    return compare


@pytest.mark.parametrize("name", STR_NAMES)
def test_questions(both, name):
    for method in ("exists", "is_dir", "is_file", "is_symlink", "is_fifo", "is_socket"):
        both(method, name)
    for method in ("is_block_device", "is_char_device", "stat", "lstat", "readlink"):
        both(method, name)
    both("stat", name, follow_symlinks=False)
    if sys.version_info >= (3, 12):
        both("exists", name, follow_symlinks=False)
    if sys.version_info >= (3, 13):
        both("is_dir", name, follow_symlinks=False)
        both("is_file", name, follow_symlinks=False)
        both("is_mount", name)
    both("owner", name)
    both("group", name)
    both("samefile", name, "file")
    both("samefile", "file", Path(name))


@pytest.mark.parametrize("name", ["file", "link", "dirlink", "dangling", "full", "gone", "a/b", "."])
def test_changes(both, name):
    both("touch", name)
    both("touch", name, exist_ok=False)
    both("touch", name, 0o640)
    both("chmod", name, 0o604)
    both("mkdir", name)
    both("mkdir", name, exist_ok=True)
    both("mkdir", name, parents=True)
    both("mkdir", name, 0o700, parents=True, exist_ok=True)
    both("mkdir", name + "/x/y", parents=True)
    both("rmdir", name + "/x/y")
    both("rmdir", name)
    both("unlink", name)
    both("unlink", name, missing_ok=True)
    both("symlink_to", name, "empty")
    both("symlink_to", name, Path("empty"))
    both("readlink", name)
    both("unlink", name)
    both("hardlink_to", name, "file")
    both("rename", name, "new")
    both("rename", "new", Path(name))
    both("replace", name, "other")


def test_paths_are_resolved(both, monkeypatch):
    for name in STR_NAMES:
        if name != "loop" or sys.version_info >= (3, 13):
            both("resolve", name)
        if name != "loop" and sys.version_info < (3, 13):
            # Later versions put the absolute path into the exception.
            both("resolve", name, strict=True)
        both("absolute", name)
    both("cwd", "x")
    both("home", "x")
    monkeypatch.setenv("HOME", "/somewhere")
    both("home", "x")
    for name in ("~", "~/x", "~root", "~root/x", "~no-such-user", "a/~", "/~"):
        both("expanduser", name)
    monkeypatch.delenv("HOME")
    both("expanduser", "~")


TEXTS = ["", "plain", "lines\nand\r\nothers\rend", "é\u20ac\U0001f600\n"]


@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16", "ascii", "utf-8-sig"])
def test_contents(both, encoding):
    for text in TEXTS:
        errors = "strict" if encoding != "ascii" else "replace"
        for newline in (None, "", "\n", "\r", "\r\n"):
            both("write_text", "text", text, encoding, errors, newline)
        both("read_text", "text", encoding)
        both("read_text", "text", encoding="ascii", errors="replace")
    both("read_text", "text", encoding="no such encoding")
    both("read_bytes", "text")
    both("write_bytes", "text", "é\r\n".encode())
    both("read_text", "text", encoding)
    both("write_bytes", "text", bytearray(b"array"))
    both("write_bytes", "text", "text")
    both("write_text", "text", b"bytes")


def test_text_that_cannot_be_written_leaves_the_file_as_it_was(run, tmp_path):
    path = Path(tmp_path, "file")
    run(path.write_text, "old")
    for arguments in [("é", "ascii"), ("x", "no such encoding"), ("x", None, None, "?")]:
        theirs = pathlib.Path(tmp_path, "other")
        expected = outcome(theirs.write_text, *arguments)
        assert expected[0] == "raises"
        assert run(async_outcome, path.write_text, *arguments) == expected
        assert run(path.read_text) == "old"


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16"])
def test_text_is_read_as_by_open(run, tmp_path, encoding, newline):
    path = tmp_path / "file"
    for text in TEXTS:
        path.write_bytes(text.encode(encoding or "utf-8"))
        with open(path, encoding=encoding, newline=newline) as file:
            expected = file.read()
        assert run(lambda: Path(path).read_text(encoding, newline=newline)) == expected


def test_contents_of_what_is_no_file(both):
    for name in ("full", "gone", "dangling", "loop", "file/x"):
        both("read_bytes", name)
        both("read_text", name)
        both("write_bytes", name, b"new")
        both("write_text", name, "new")


def test_a_path_opens(run, tmp_path):
    async def use():
        path = Path(tmp_path, "file")
        async with path.open("w") as file:
            await file.write("text\n")
        file = await path.open("rb")
        data = await file.read()
        await file.close()
        return data

    assert run(use) == b"text\n"


def test_directories_are_iterated(both):
    for name in (".", "full", "file", "gone", "dirlink", "/proc/self/task"):
        both("iterdir", name)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="pathlib.Path.walk came with 3.12")
def test_walk(both, run):
    for name in (".", "full", "gone", "dirlink", "file"):
        for top_down in (True, False):
            for follow in (True, False):
                both("walk", name, top_down, None, follow)


def test_walk_is_told_where_to_go(run, tmp_path):
    fill(tmp_path)

    async def walk():
        errors, found = [], []
        async for directory, directories, others in Path(tmp_path).walk(on_error=errors.append):
            if directory == tmp_path:
                assert "dirlink" in others
                directories[:] = ["full", "gone"]
            found.append(directory.name)
        return found[1:], [type(error) for error in errors]

    assert run(walk) == (["full", "below"], [FileNotFoundError])


def test_pure_methods_return_our_paths():
    path = Path("/a/b.c")
    made = [path.parent, path / "x", "x" / Path("y"), path.with_name("n"), path.joinpath("y")]
    made += [path.with_suffix(".d"), path.relative_to("/a"), *path.parents]
    assert all(type(one) is Path for one in made)
    assert path == pathlib.Path("/a/b.c") and hash(path) == hash(pathlib.Path("/a/b.c"))
    assert os.fspath(path) == str(path) == "/a/b.c"
    assert bytes(path) == b"/a/b.c"
    assert repr(path) == "Path('/a/b.c')"
    assert pickle.loads(pickle.dumps(path)) == path
    assert path < Path("/b") and isinstance(path, pathlib.PurePath)


def test_sockets_and_devices(run, tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        assert run(Path(tmp_path, "s").is_socket)
    assert run(Path("/dev/null").is_char_device)
    assert not run(Path("/dev/null").is_block_device)
    assert not run(Path("/").is_junction)
    assert run(Path("/").is_mount)


def test_lchmod_does_as_pathlib(both):
    both("chmod", "link", 0o600, follow_symlinks=False)
    both("lchmod", "link", 0o600)


# Patterns that mean the same in all versions: no `**` at the end, no repeated `**`.
PARTS = ["*", "?", "a", "b*", "[ab]", "[!a]", "*.t", "..", "a.t", "A"]
ENDS = st.sampled_from(PARTS[:7] + ["a.t"])


@st.composite
def patterns(draw):
    parts = draw(st.lists(st.sampled_from(PARTS), max_size=2)) + [draw(ENDS)]
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts) - 1)), "**")
    if sys.version_info >= (3, 13):
        parts += draw(st.sampled_from([[], [""], ["**"], ["**", ""], [".."]]))
    return "/".join(parts)


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    root = tmp_path_factory.mktemp("forest")
    for name in ("a/a/a", "a/b/bb", "b/a", "bb/.hidden/a", "a/[ab]"):
        (root / name).mkdir(parents=True)
    for name in ("a.t", "a/a.t", "a/b/a.t", "b/a/x.t", "bb/.hidden/a.t", "b/b"):
        (root / name).touch()
    (root / "c").symlink_to("a")
    (root / "a" / "up").symlink_to("..")
    (root / "a" / "b" / "gone").symlink_to("nowhere")
    return root


@settings(max_examples=200, deadline=None)
@given(pattern=patterns(), start=st.sampled_from(["", "a", "a.t", "gone", "c"]))
def test_globs(run, forest, pattern, start):
    async def find(method):
        found = [path async for path in method(pattern)]
        assert all(type(path) is Path for path in found)
        return sorted({str(path) for path in found})

    ours, theirs = Path(forest, start), pathlib.Path(forest, start)
    assert run(find, ours.glob) == sorted({str(path) for path in theirs.glob(pattern)})
    if "**" not in pattern:
        assert run(find, ours.rglob) == sorted({str(path) for path in theirs.rglob(pattern)})


@pytest.mark.parametrize("pattern", ["*", "**/*", "a", "a/*", "*/a.t", "b/.."])
def test_globs_in_the_working_directory(run, forest, monkeypatch, pattern):
    monkeypatch.chdir(forest)

    async def find():
        return [path async for path in Path().glob(pattern)]

    def same(found):
        return ("returns", sorted(map(str, found[1]))) if found[0] == "returns" else found

    theirs = outcome(lambda: list(pathlib.Path().glob(pattern)))
    assert same(run(async_outcome, find)) == same(theirs)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="recurse_symlinks came with 3.13")
@pytest.mark.parametrize("pattern", ["**/a", "*/*", "**", "**/*.t", "**/", "**/b/*"])
@pytest.mark.parametrize("case_sensitive", [None, True, False])
def test_globs_with_options(run, tmp_path, pattern, case_sensitive):
    # No cycle, which would be followed until the kernel gives up.
    (tmp_path / "A" / "b").mkdir(parents=True)
    (tmp_path / "A" / "b" / "x.T").touch()
    (tmp_path / "c").symlink_to("A")
    (tmp_path / "a").touch()
    for recurse in (True, False):
        options = {"case_sensitive": case_sensitive, "recurse_symlinks": recurse}

        async def find():
            return sorted([str(path) async for path in Path(tmp_path).glob(pattern, **options)])

        assert run(find) == sorted(map(str, pathlib.Path(tmp_path).glob(pattern, **options)))


def test_globs_that_are_refused(run):
    for pattern, error in [("", ValueError), ("/a", NotImplementedError)]:
        with pytest.raises(error):
            Path().glob(pattern)


def test_the_mode_of_new_files(run, tmp_path):
    old = os.umask(0o027)
    try:
        run(lambda: Path(tmp_path, "t").touch(0o666))
        run(lambda: Path(tmp_path, "w").write_bytes(b""))
        run(lambda: Path(tmp_path, "d", "e").mkdir(parents=True))
    finally:
        os.umask(old)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("t", "w", "d", "d/e")}
    assert modes == {"t": 0o640, "w": 0o640, "d": 0o750, "d/e": 0o750}
