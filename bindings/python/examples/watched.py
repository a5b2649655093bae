"""Reads a file in a coroutine, plainly or with laio, and warns when that holds up the event loop.

    python watched.py open|laio FILE
"""

import asyncio
import sys

import laio


async def read(way: str, path: str) -> bytes:
    if way == "laio":
        return await laio.Path(path).read_bytes()
    with open(path, "rb") as file:
        return file.read()


async def main(way: str, path: str) -> None:
    detector = laio.detect(over=0.02)
    data = await read(way, path)
    print(f"{len(data)} bytes, stalls: {detector.stalls}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
