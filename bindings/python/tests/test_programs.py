"""Random programs of calls on names, in one tree with `os` and in another with `laio.os`."""

import os
import shutil
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same import async_outcome, outcome, tree

import laio.os

PARTS = st.sampled_from(["a", "b", "c", ".", "..", "", "é", "\udcff", "sp ace"])
# Relative, and never above the directory of the program by more than `DEPTH`.
DEPTH = 4
NAMES = st.lists(PARTS, min_size=1, max_size=DEPTH).map("/".join).map(lambda name: name.lstrip("/"))
ANY_NAMES = NAMES | NAMES.map(os.fsencode)
MODES = st.sampled_from([0o777, 0o700, 0o644])


def pair(draw):
    """Two names of one type, as `os.rename` and others want."""
    first, second = draw(NAMES), draw(NAMES)
    if draw(st.booleans()):
        return os.fsencode(first), os.fsencode(second)
    return first, second


@st.composite
def calls(draw):
    """A call: the name of the function, its arguments."""
    name = draw(
        st.sampled_from(
            ["mkdir", "makedirs", "unlink", "rmdir", "rename", "renames", "replace", "link"]
            + ["symlink", "symlink", "readlink", "stat", "lstat", "listdir", "chmod", "utime"]
            + ["removedirs", "walk", "path.realpath", "path.exists", "path.isdir", "path.islink"]
            + ["truncate", "access", "write", "write", "path.samefile", "path.ismount"]
        )
    )
    if name in ("rename", "renames", "replace", "link", "symlink", "path.samefile"):
        return name, pair(draw)
    arguments = [draw(ANY_NAMES)]
    if name in ("mkdir", "makedirs", "chmod"):
        arguments.append(draw(MODES))
    elif name == "utime":
        arguments.append((1.5, draw(st.integers(0, 1000))))
    elif name == "truncate":
        arguments.append(draw(st.integers(0, 100)))
    elif name == "access":
        arguments.append(draw(st.integers(0, 7)))
    elif name in ("walk", "makedirs"):
        arguments.append(draw(st.booleans()))
    return name, arguments


def write(name):
    """Writes a file; the same for both sides."""
    with open(name, "wb") as file:
        file.write(b"content of " + os.fsencode(name))


def found(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def without_root(value, root):
    """A result in which the directory of the program does not occur."""
    if isinstance(value, str):
        return value.replace(root, "ROOT")
    if isinstance(value, bytes):
        return value.replace(os.fsencode(root), b"ROOT")
    if isinstance(value, tuple):
        return tuple(without_root(item, root) for item in value)
    return value


def same(name, found, expected):
    """Whether two outcomes are equal. Exceptions of `os.utime` have no name."""
    if name == "utime":
        return found[:2] == expected[:2]
    return found == expected


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(program=st.lists(calls(), max_size=25))
def test_programs_do_the_same(run, program):
    here = os.getcwd()
    base = os.path.realpath(tempfile.mkdtemp())
    # Names with `..` stay in the tree, and both roots have names of one length.
    sides = [os.path.join(base, side) for side in ("x", "y")]
    roots = [os.path.join(side, *"1234") for side in sides]
    try:
        for root in roots:
            os.makedirs(root)

        async def play():
            for name, arguments in program:
                os.chdir(roots[0])
                function = write if name == "write" else found(os, name)
                expected = without_root(outcome(function, *arguments), sides[0])
                os.chdir(roots[1])
                if name == "write":
                    result = outcome(write, *arguments)
                else:
                    result = await async_outcome(found(laio.os, name), *arguments)
                assert same(name, without_root(result, sides[1]), expected), (name, arguments)
                assert tree(os.path.join(base, "x")) == tree(os.path.join(base, "y"))

        run(play)
    finally:
        os.chdir(here)
        shutil.rmtree(base)
