"""Comparing a coroutine with the blocking function that it stands for."""

import inspect
import os
import stat
import warnings


def outcome(function, *args, **kwargs):
    """What a blocking call does: ("returns", value) or ("raises", class, details)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "returns", plain(function(*args, **kwargs))
    except Exception as error:
        return raised(error)


async def async_outcome(function, *args, **kwargs):
    """What a coroutine does, in the form of `outcome`."""
    try:
        value = function(*args, **kwargs)
        if inspect.isasyncgen(value):
            value = [item async for item in value]
        elif inspect.isawaitable(value):
            value = await value
        return "returns", plain(value)
    except Exception as error:
        return raised(error)


def raised(error):
    """An exception, as a tuple that can be compared."""
    if isinstance(error, OSError) and not isinstance(error, ValueError):
        details = (error.errno, plain(error.filename), plain(error.filename2))
        if error.errno is None:
            details = str(error)
        return "raises", type(error), details
    return "raises", type(error)


def plain(value):
    """A value in which the inode and the change time of a file do not count."""
    if isinstance(value, os.stat_result):
        return "stat", stat.filemode(value.st_mode), value.st_size, value.st_nlink
    if inspect.isgenerator(value) or isinstance(value, map):
        return list(value)
    return value


def tree(root):
    """All that is in a directory: names, types, permissions, contents, links."""
    found = {}
    for directory, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            content = None
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    content = file.read()
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            name = os.path.relpath(path, os.fsencode(root))
            found[name] = (stat.filemode(status.st_mode), status.st_nlink, content)
    return found
