"""A server that serves a front end: three files in place of RAGFlow's build."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, start_app

PAGE = "<!doctype html><title>RAGFlow</title>"
SCRIPT = "console.log(1);" * 200


def write_build(folder: Path) -> Path:
    """Write a build and return its folder."""
    build = folder / "dist"
    (build / "entry" / "js").mkdir(parents=True)
    (build / "index.html").write_text(PAGE)
    (build / "logo.svg").write_text("<svg/>")
    (build / "entry" / "js" / "index-1a2b.js").write_text(SCRIPT)
    (folder / "secret.txt").write_text("secret")
    return build


@asynccontextmanager
async def start_ui(folder: Path, replies: Sequence[Reply] = (), **options: Any) -> AsyncGenerator[AppServer]:
    """Start a server with a front end."""
    async with start_app(folder, replies, ragflow_ui=write_build(folder), **options) as server:
        yield server
