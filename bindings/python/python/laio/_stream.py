"""What binary files and text files have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, AnyStr, Generic

from . import _loops

if TYPE_CHECKING:
    from typing_extensions import Self


class Stream(Generic[AnyStr]):
    """Lines, iteration over them, and ``async with``, of a file of bytes or of text."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises ValueError if the file is closed."""

    @abstractmethod
    async def readline(self, size: int | None = -1, /) -> AnyStr: ...

    @abstractmethod
    async def write(self, data: Any, /) -> int: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def _give_back(self, lines: list[AnyStr]) -> None:
        """Lets what was read last be read again."""

    async def readlines(self, hint: int | None = -1, /) -> list[AnyStr]:
        """Reads lines up to the end, or until they have more than ``hint`` bytes or characters together."""
        lines: list[AnyStr] = []
        total = 0
        try:
            while line := await self.readline():
                lines.append(line)
                total += len(line)
                if hint is not None and 0 < hint < total:
                    break
        except BaseException:
            self._give_back(lines)
            raise
        return lines

    async def writelines(self, lines: Iterable[Any], /) -> None:
        """Writes each of the lines, which end as they are."""
        for line in lines:
            await self.write(line)

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    async def __anext__(self) -> AnyStr:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def aclose(self) -> None:
        """As ``close``: the name that it has in trio and anyio."""
        await self.close()


class Turn:
    """Lets the coroutines that use one object go one after the other, as the lock of `io` lets threads."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # What wakes the coroutines that wait; `None` if no coroutine has the turn.
        self._waiting: list[Callable[[], object]] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether a coroutine has the turn."""
        return self._waiting is not None

    async def __aenter__(self) -> None:
        while (waiting := self._waiting) is not None:
            paused, end = _loops.pause()
            waiting.append(end)
            await paused
        self._waiting = []

    async def __aexit__(self, *error: object) -> None:
        waiting, self._waiting = self._waiting, None
        for end in waiting or ():
            end()
