"""Runs a program for which system calls fail: `forbid.py NUMBERS ERRNO PROGRAM [ARGUMENT...]`.

By a seccomp filter, as containers and older kernels do. NUMBERS are those of this machine, with commas.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

# The same on all machines.
OPENAT2 = [437]
IO_URING = [425, 426, 427]

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_RET_ERRNO = 0x0005_0000
_RET_ALLOW = 0x7FFF_0000
# Instructions of the filter: load a word, jump if it is equal, return.
_LOAD, _JUMP, _RETURN = 0x20, 0x15, 0x06


def _filter(numbers: list[int], errno: int) -> bytes:
    lines = [(_LOAD, 0, 0, 0)]
    for index, number in enumerate(numbers):
        lines.append((_JUMP, len(numbers) - index, 0, number))
    lines.append((_RETURN, 0, 0, _RET_ALLOW))
    lines.append((_RETURN, 0, 0, _RET_ERRNO | errno))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def install(numbers: list[int], errno: int) -> None:
    """Forbids the calls to this thread and to all that it starts."""
    program = ctypes.create_string_buffer(_filter(numbers, errno))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_void_p)]

    described = Program(len(program) // 8, ctypes.addressof(program))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    words = [_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0]
    if prctl(*map(ctypes.c_ulong, words)) == 0:
        words = [_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(described), 0, 0]
        if prctl(*map(ctypes.c_ulong, words)) == 0:
            return
    number = ctypes.get_errno()
    raise OSError(number, f"seccomp: {os.strerror(number)}")


if __name__ == "__main__":
    install([int(number) for number in sys.argv[1].split(",")], int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
