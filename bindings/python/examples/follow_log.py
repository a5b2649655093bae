"""Prints the lines that are added to a file, from its end on, until it is interrupted.

    python follow_log.py FILE
"""

import asyncio
import os
import sys

import laio

PAUSE = 0.2  # seconds


async def follow(path: str) -> None:
    async with laio.open(path, "rb") as file:
        await file.seek(0, os.SEEK_END)
        print(f"follows {path}", flush=True)
        unfinished = b""
        while True:
            piece = await file.read1()
            if not piece:
                await asyncio.sleep(PAUSE)
                if (await file.stat()).st_size < await file.tell():
                    # It was truncated.
                    await file.seek(0)
                continue
            *lines, unfinished = (unfinished + piece).split(b"\n")
            for line in lines:
                print(line.decode(errors="replace"), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        asyncio.run(follow(sys.argv[1]))
    except KeyboardInterrupt:
        pass
