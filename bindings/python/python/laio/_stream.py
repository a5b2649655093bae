"""What binary files and text files have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, AnyStr, Generic

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

    async def readlines(self, hint: int | None = -1, /) -> list[AnyStr]:
        """Reads lines up to the end, or until they have ``hint`` bytes or characters together."""
        lines: list[AnyStr] = []
        total = 0
        while line := await self.readline():
            lines.append(line)
            total += len(line)
            if hint is not None and 0 < hint <= total:
                break
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
