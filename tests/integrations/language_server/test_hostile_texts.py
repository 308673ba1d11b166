"""Texts that are cut off, damaged or made to harm: every question gets an answer, and none takes long."""

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsprotocol import types

from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.language_server.canvas_text import BOM
from ragflow_lg.integrations.language_server.hover import find_hover
from ragflow_lg.integrations.language_server.name_completion import complete
from ragflow_lg.integrations.language_server.navigation import find_definition, find_renamable, find_uses, plan_rename
from ragflow_lg.integrations.language_server.open_document import TextVersion, judge
from ragflow_lg.integrations.language_server.outline import build_outline
from tests.harness.damaged_canvases import damage, read_documents
from tests.integrations.language_server.editor import LIMIT_S as WAIT_S
from tests.integrations.language_server.editor import Editor, open_editor
from tests.integrations.language_server.shop import CATALOG, MODEL, TEXT

TEXTS = int(os.environ.get("EXAMPLES", "40"))
"""More of them: ``python -m tests.campaigns properties 1000``."""
LIMIT_S = 20
"""Processor time for all questions about one text. They take less than one second."""

HOSTILE = [
    "",
    "\x00",
    BOM,
    "{" * 5_000 + '"components"',
    "[" * 100_000,
    '{"components":' * 90 + "1" + "}" * 90,
    '{"components": ' + "9" * 10_000 + "}",
    '{"components": NaN}',
    '{"components": {"\ud800": {"obj": {"component_name": "\udfff"}}}}',
    '{"components": {"a": ' + '{"k":' * 60 + '"{sys.query}"' + "}" * 60 + "}}",
    '{"components": {"a": "' + "{" * 20_000 + '"}}',
    '{"components": {"a": "' + "{a@b" * 20_000 + '"}}',
    '{"components": {"a": "' + "\\" * 20_001 + '"}}',
    '{"components": {"begin": {"obj": {"component_name": "Begin", "params": {"x": "' + "🎉" * 20_000 + '"}}}}}',
    '{"components": {' + ", ".join(f'"m{n}": {{"downstream": ["m{n - 1}"]}}' for n in range(300)) + "}}",
    '{"' + "k" * 50_000 + '": {"components": [' + ",".join("1" * 1_000) + "]}}",
    '{"dsl": "' + json.dumps({"components": {}}).replace('"', '\\"') + '"}',
    '{"version": 2, "components": {"a": {"downstream": ["b"]}}}',
    '{"components": {"a": {"parent_id": "a", "obj": {"component_name": "Loop", "params": {}}}}}',
    '{"dsl": {"components": {}}, "graph": {"nodes": [null, 5, {"id": []}, {"data": "x"}], "edges": {}}}',
    TEXT.replace("\n", "\r"),
    TEXT.replace("\n", "\u2028"),
    TEXT * 2,
]


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts that are cut off, have other characters, or damaged values."""
    chance, documents = random.Random(seed), read_documents()
    for _ in range(count):
        kind = chance.randrange(3)
        if kind == 0:
            yield TEXT[: chance.randrange(len(TEXT))]
        elif kind == 1:
            text = TEXT
            for _ in range(chance.randint(1, 5)):
                place = chance.randrange(len(text))
                text = text[:place] + chance.choice('{}[],:"\\@\n🎉a.') + text[place + chance.randint(0, 3) :]
            yield text
        else:
            text = json.dumps(damage(chance.choice(documents), chance), ensure_ascii=chance.random() < 0.5)
            yield text[:300_000]


@pytest.mark.generated
@pytest.mark.parametrize("seed", range(4))
def test_every_text_can_be_asked_about(seed: int) -> None:
    chance = random.Random(seed)
    for text in [*HOSTILE[seed::4], *texts(TEXTS, seed)]:
        start_s = time.process_time()
        version = TextVersion(text, 1, "utf-16", None)
        result = judge(version, inspect_canvas(version.canvas.text, CATALOG))
        for finding in result.findings:
            assert 0 <= finding.place.start <= finding.place.end <= len(text)
        build_outline(version.canvas, version.positions)
        for _ in range(5):
            offset = chance.randint(0, len(text))
            model = result.model or MODEL
            find_definition(version.canvas, offset)
            find_uses(version.canvas, offset, with_definition=True)
            find_hover(version.canvas, model, offset)
            complete(version.canvas.text, model, result.base, offset)
            if find_renamable(version.canvas, offset) is not None:
                plan_rename(version.canvas, offset, "New")
        assert time.process_time() - start_s < LIMIT_S, text[:200]


async def ask_everything(editor: Editor, uri: str, position: types.Position) -> None:
    """Send one request of each kind; each must be answered without an error."""
    document = types.TextDocumentIdentifier(uri)
    place = types.Range(types.Position(0, 0), position)
    client = editor.client
    answers = (
        client.text_document_hover_async(types.HoverParams(document, position)),
        client.text_document_definition_async(types.DefinitionParams(document, position)),
        client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(include_declaration=True), document, position)
        ),
        client.text_document_completion_async(types.CompletionParams(document, position)),
        client.text_document_document_symbol_async(types.DocumentSymbolParams(document)),
        client.text_document_prepare_rename_async(types.PrepareRenameParams(document, position)),
        client.text_document_rename_async(types.RenameParams(document, position, "New")),
        client.text_document_code_action_async(types.CodeActionParams(document, place, types.CodeActionContext([]))),
    )
    await asyncio.wait_for(asyncio.gather(*answers), WAIT_S)


@pytest.mark.generated
async def test_the_server_survives_everything_that_is_typed(tmp_path: Path) -> None:
    uri, chance = "untitled:hostile", random.Random(7)
    async with open_editor(tmp_path) as editor:
        editor.open(uri, TEXT)
        await editor.diagnostics()
        for text in [*HOSTILE, *texts(TEXTS // 8, seed=7)]:
            editor.type(uri, text.encode("utf-8", "replace").decode())
            line = chance.randint(0, text.count("\n") + 1)
            await ask_everything(editor, uri, types.Position(line, chance.randint(0, 80)))
            found = await editor.diagnostics()
            assert "error" not in [d.code for d in found], found  # our own exceptions
        editor.type(uri, TEXT)
        assert [d.code for d in await editor.diagnostics()] == ["params-unknown"]
        assert [text for text in editor.messages if "Error" in text] == []


async def test_messages_that_are_none_do_not_end_the_server(tmp_path: Path) -> None:
    odd = ['{"a":', "{}", "null", "[]", '{"jsonrpc": "2.0", "id": 9, "method": "textDocument/hover", "params": 5}']
    async with open_editor(tmp_path) as editor:
        writer = editor.client.protocol.writer
        assert writer is not None
        for message in odd:
            writer.write(f"Content-Length: {len(message)}\r\n\r\n{message}".encode())
            editor.open("untitled:after", TEXT)
            assert [d.code for d in await editor.diagnostics()] == ["params-unknown"], message
