"""How soon an editor shows what is wrong: ``python -m benchmarks.editor [NODES…]``.

The language server runs as a process. First: from its start to the diagnostics of an example. Then, for canvases of
`benchmarks.checking`: from a change to its diagnostics, which includes the pause of 150 ms, and the answers to requests
for the new text. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from benchmarks.checking import build
from ragflow_lg.server.devtools.language_server.text_positions import TextPositions
from tests.server.devtools.language_server.editor import Editor, open_editor

ROUNDS = 7
SIZES = (100, 500, 2_000)
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "customer_service_router.json"


async def _elapsed_ms(work: Callable[[], Awaitable[object]]) -> float:
    start_s = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - start_s)


async def _start_ms() -> float:
    start_s = time.perf_counter()
    async with open_editor(ROOT) as editor:
        editor.open(EXAMPLE.as_uri(), EXAMPLE.read_text("utf-8"))
        await editor.diagnostics()
        return 1000 * (time.perf_counter() - start_s)


async def _measure(editor: Editor, size: int) -> str:
    """Return the line of the table for a canvas with about ``size`` nodes."""
    document = build(size)
    versions = [json.dumps({**document, "title": f"Version {n}"}, indent=2) for n in range(ROUNDS + 1)]
    uri = f"untitled:canvas-{size}"
    editor.open(uri, versions[0])
    count = len(await editor.diagnostics())
    times: dict[str, list[float]] = {head: [] for head in HEADS}
    for text in versions[1:]:
        editor.type(uri, text)
        times["diagnostics"].append(await _elapsed_ms(editor.diagnostics))
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
    async with open_editor(ROOT) as editor:
        for size in sizes:
            print(await _measure(editor, size))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.editor", description="How soon an editor answers.")
    parser.add_argument("nodes", type=int, nargs="*", default=SIZES)
    asyncio.run(main(parser.parse_args().nodes))
