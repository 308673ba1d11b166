"""How soon an editor shows what is wrong: ``python -m benchmarks.editor [NODES…]``.

The language server runs as a process. First: from its start to the diagnostics of an example. Then, for canvases of
`benchmarks.checking`: from a change to its diagnostics, which includes the pause of 150 ms, and the answers to requests
for the new text. Medians in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from benchmarks.checking import build
from ragflow_lg.server.devtools.language_server.text_positions import TextPositions

ROUNDS = 7
SIZES = (100, 500, 2_000)
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "customer_service_router.json"
COMMAND = (sys.executable, "-m", "ragflow_lg", "lsp")


class _Editor:
    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.version = 0

    def open(self, uri: str, text: str) -> None:
        self.version += 1
        document = types.TextDocumentItem(uri, "json", self.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def type(self, uri: str, text: str) -> None:
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    async def wait(self) -> int:
        while (published := await self.published.get()).version != self.version:
            pass
        return len(published.diagnostics)


@asynccontextmanager
async def _open() -> AsyncGenerator[_Editor]:
    client: Any = LanguageClient("benchmark", "1")
    editor = _Editor(client)

    def receive(params: types.PublishDiagnosticsParams) -> None:
        editor.published.put_nowait(params)

    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(receive)
    await client.start_io(*COMMAND, cwd=str(ROOT))
    await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
    client.initialized(types.InitializedParams())
    yield editor
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


async def _elapsed_ms(work: Callable[[], Awaitable[object]]) -> float:
    start_s = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - start_s)


async def _start_ms() -> float:
    start_s = time.perf_counter()
    async with _open() as editor:
        editor.open(EXAMPLE.as_uri(), EXAMPLE.read_text("utf-8"))
        await editor.wait()
        return 1000 * (time.perf_counter() - start_s)


async def _measure(editor: _Editor, size: int) -> str:
    """Return the line of the table for a canvas with about ``size`` nodes."""
    document = build(size)
    versions = [json.dumps({**document, "title": f"Version {n}"}, indent=2) for n in range(ROUNDS + 1)]
    uri = f"untitled:canvas-{size}"
    editor.open(uri, versions[0])
    count = await editor.wait()
    times: dict[str, list[float]] = {head: [] for head in HEADS}
    for text in versions[1:]:
        editor.type(uri, text)
        times["diagnostics"].append(await _elapsed_ms(editor.wait))
        position = types.Position(*TextPositions(text).position(text.index("{a0@content}") + 1))
        for name, request in _requests(editor.client, types.TextDocumentIdentifier(uri), position).items():
            times[name].append(await _elapsed_ms(request))
    cells = (f"{statistics.median(times[name]):>11.1f}" for name in HEADS)
    return f"{len(document['components']):>6} {len(versions[1]) / 1000:>6.0f} {''.join(cells)} {count:>9}"


def _requests(
    client: LanguageClient, document: types.TextDocumentIdentifier, position: types.Position
) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "outline": partial(client.text_document_document_symbol_async, types.DocumentSymbolParams(document)),
        "hover": partial(client.text_document_hover_async, types.HoverParams(document, position)),
        "completion": partial(client.text_document_completion_async, types.CompletionParams(document, position)),
        "rename": partial(client.text_document_rename_async, types.RenameParams(document, position, "New")),
    }


HEADS = ("diagnostics", "outline", "hover", "completion", "rename")


async def main(sizes: list[int]) -> None:
    starts = [await _start_ms() for _ in range(ROUNDS)]
    print(f"from the start of the server to the first diagnostics: {statistics.median(starts):.0f} ms")
    print(f"{'nodes':>6} {'kB':>6} {''.join(f'{head:>11}' for head in HEADS)} {'findings':>9}")
    async with _open() as editor:
        for size in sizes:
            print(await _measure(editor, size))


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]] or list(SIZES)))
