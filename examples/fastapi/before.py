"""Uploads and downloads with the threads of aiofiles and Starlette."""

from __future__ import annotations

import os
from pathlib import Path

import aiofiles
import aiofiles.os
from fastapi import FastAPI, HTTPException, UploadFile
from fastapi.staticfiles import StaticFiles

PIECE = 256 * 1024

directory = Path(os.environ["FILES"])
app = FastAPI()


def path_of(name: str) -> Path:
    """The file of a name. Names that begin with a dot are those of uploads under way."""
    if name.startswith("."):
        raise HTTPException(400, "a name begins with no dot")
    return directory / name


@app.put("/files/{name}", status_code=201)
async def upload(name: str, file: UploadFile) -> dict[str, str | int]:
    """Stores an upload. It gets its name when it is complete."""
    path, part = path_of(name), directory / f".{os.urandom(8).hex()}"
    size = 0
    async with aiofiles.open(part, "wb") as target:
        while piece := await file.read(PIECE):
            size += await target.write(piece)
    await aiofiles.os.replace(part, path)
    return {"name": name, "size": size}


@app.delete("/files/{name}", status_code=204)
async def delete(name: str) -> None:
    try:
        await aiofiles.os.remove(path_of(name))
    except FileNotFoundError:
        raise HTTPException(404, "no such file") from None


@app.get("/files")
async def sizes() -> dict[str, int]:
    """The names of all files, and their sizes."""
    names = sorted(name for name in await aiofiles.os.listdir(directory) if not name.startswith("."))
    return {name: (await aiofiles.os.stat(directory / name)).st_size for name in names}


# Downloads: GET /files/NAME.
app.mount("/files", StaticFiles(directory=directory))
