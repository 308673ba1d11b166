"""The commands against a server of the tests."""

import asyncio
from pathlib import Path

from tests.server.cli.command import Completed, call


async def command(*arguments: str | Path) -> Completed:
    """Run a command in a thread, so that a server in this loop can answer it."""
    return await asyncio.to_thread(call, *arguments)


async def pull(url: str, *options: str | Path, folder: str = "moved") -> Completed:
    """Pull from a server on this machine."""
    return await command("pull", "--from", url, "--key-env", "THEIR_KEY", "--allow-private", folder, *options)
