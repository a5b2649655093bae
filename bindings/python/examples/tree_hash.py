"""Prints the SHA-256 of each file below a directory, and one of the whole tree.

    python tree_hash.py DIRECTORY
"""

import asyncio
import hashlib
import os
import sys

import laio
import laio.os

AT_ONCE = 64


async def hash_file(path: str) -> str:
    digest = hashlib.sha256()
    async with laio.open(path, "rb") as file:
        while piece := await file.read1(1024 * 1024):
            digest.update(piece)
    return digest.hexdigest()


async def main(root: str) -> None:
    paths = []
    async for directory, _, names in laio.os.walk(root):
        paths += [os.path.join(directory, name) for name in names]
    paths.sort()
    hashes: dict[str, str] = {}
    left = iter(paths)

    async def worker() -> None:
        for path in left:
            hashes[path] = await hash_file(path)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    whole = hashlib.sha256()
    for path in paths:
        print(hashes[path], path)
        whole.update(f"{hashes[path]} {path}\n".encode())
    print(whole.hexdigest(), "all")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1]))
