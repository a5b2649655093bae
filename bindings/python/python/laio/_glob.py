"""Finding files by patterns, as `pathlib.Path.glob` of Python 3.13 does."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import AsyncIterator, Callable

from .os import path as _path
from .os._scandir import DirEntry, entries_of

_MAGIC = re.compile(r"[*?\[]")


async def glob(
    root: str, parts: list[str], case_sensitive: bool | None, recurse_symlinks: bool
) -> AsyncIterator[str]:
    """Yields the paths below ``root`` that match a pattern, given by its components.

    A last component that is empty, or is ``..``, asks for directories.
    """
    prefix = "" if root == "." else root if root.endswith("/") else root + "/"
    steps = [_Step(part, case_sensitive) for part in parts]
    several = sum(step.is_recursive for step in steps) > 1
    seen: set[str] = set()
    # Paths with a slash at the end if more follows, the number of components that they match, and
    # whether they are known to exist.
    stack = [(prefix, 0, bool(steps) and not prefix)]
    while stack:
        path, index, exists = stack.pop()
        if index == len(steps):
            if several:
                name = path.rstrip("/")
                if name in seen:
                    continue
                seen.add(name)
            if exists or await _path.lexists(path or "."):
                yield path
            continue
        step = steps[index]
        last = index + 1 == len(steps)
        end = "" if last else "/"
        if step.is_recursive:
            found = await _below(path, last, recurse_symlinks)
            stack.extend((inner, index + 1, True) for inner in reversed(found))
            # The directory itself.
            stack.append((path, index + 1, exists))
        elif step.match is None:
            # What follows may still be a name in a file that is no directory, so it is looked up.
            special = step.part in ("", "..")
            stack.append((path + step.part + (end if step.part else ""), index + 1, special and exists))
        else:
            entries = [entry for entry in await _entries(path) if step.match(entry.name)]
            found = [
                path + entry.name + end for entry in entries if last or await _is_dir(entry, True)
            ]
            stack.extend((inner, index + 1, True) for inner in reversed(found))


class _Step:
    """A component of a pattern."""

    def __init__(self, part: str, case_sensitive: bool | None) -> None:
        self.part = part
        self.is_recursive = part == "**"
        #: What a name must match. `None` for a name without wildcards.
        self.match: Callable[[str], object] | None = None
        if self.is_recursive or part in ("", ".."):
            return
        if case_sensitive is None and _MAGIC.search(part) is None:
            return
        flags = re.IGNORECASE if case_sensitive is False else 0
        self.match = re.compile(fnmatch.translate(part), flags).match


async def _below(path: str, also_files: bool, follow_symlinks: bool) -> list[str]:
    """All paths below a directory: those of directories with a slash unless files are asked for too."""
    found: list[str] = []
    stack = [path]
    while stack:
        directory = stack.pop()
        for entry in await _entries(directory):
            if await _is_dir(entry, follow_symlinks):
                inner = directory + entry.name + "/"
                found.append(inner[:-1] if also_files else inner)
                stack.append(inner)
            elif also_files:
                found.append(directory + entry.name)
    return found


async def _entries(directory: str) -> list[DirEntry[str]]:
    try:
        return await entries_of(directory or ".")
    except OSError:
        return []


async def _is_dir(entry: DirEntry[str], follow_symlinks: bool) -> bool:
    try:
        return await entry.is_dir(follow_symlinks=follow_symlinks)
    except OSError:
        return False
