# pyright: reportUntypedFunctionDecorator=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from ragflow_lg.integrations.language_server.lsp_command import build_canvas_server
from tests.harness.database_servers import free_port
from tests.harness.loaded_python import python_command

LIMIT_S = 180


class Editor:
    """Opens documents, types, and shows what the server sends."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        self.version = 0

    def open(self, uri: str, text: str) -> None:
        """Open a document."""
        self.version += 1
        document = types.TextDocumentItem(uri, "json", self.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def type(self, uri: str, text: str) -> None:
        """Replace the text of a document."""
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    def close(self, uri: str) -> None:
        """Close a document."""
        document = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def diagnostics(self) -> list[types.Diagnostic]:
        """Return the diagnostics of the text that was opened or typed last."""
        return await self.diagnostics_of(self.version)

    async def diagnostics_of(self, version: int | None) -> list[types.Diagnostic]:
        """Return the next diagnostics of a version; None for those of a closed document."""
        while True:
            published = await asyncio.wait_for(self.published.get(), LIMIT_S)
            if published.version == version:
                return list(published.diagnostics)


@asynccontextmanager
async def open_editor(
    folder: Path, *words: str, encodings: tuple[types.PositionEncodingKind, ...] = ()
) -> AsyncGenerator[Editor]:
    """Connect to a language server in a thread of this process; with ``words``, to ``ragflow-lg lsp WORDS``."""
    client = LanguageClient("editor", "1")
    editor = Editor(client)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def _(params: types.PublishDiagnosticsParams) -> None:
        editor.published.put_nowait(params)

    @client.feature(types.WINDOW_SHOW_MESSAGE)
    def _(params: types.ShowMessageParams) -> None:
        editor.messages.append(params.message)

    if words:
        await client.start_io(*python_command("-m", "ragflow_lg", "lsp", *words), cwd=str(folder))
    else:
        await _connect(client)
    general = types.GeneralClientCapabilities(position_encodings=list(encodings) or None)
    capabilities = types.ClientCapabilities(general=general)
    params = types.InitializeParams(capabilities=capabilities, root_uri=folder.as_uri())
    await asyncio.wait_for(client.initialize_async(params), LIMIT_S)
    client.initialized(types.InitializedParams())
    yield editor
    await asyncio.wait_for(client.shutdown_async(None), LIMIT_S)
    client.exit(None)
    if words:
        process: Any = client._server  # pyright: ignore[reportPrivateUsage] - the client does not give it out
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
    await asyncio.wait_for(client.stop(), LIMIT_S)


async def _connect(client: LanguageClient) -> None:
    """Start the server in a thread, which ends with this process, and connect to it."""
    port = free_port()
    server = build_canvas_server(None)

    def serve() -> None:
        with suppress(SystemExit):  # as it ends, when the editor says so
            server.start_tcp("127.0.0.1", port)

    Thread(target=serve, daemon=True).start()
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return await client.start_tcp("127.0.0.1", port)
            except OSError:  # it does not listen yet
                await asyncio.sleep(0.01)
