"""The language server: receives what is typed, and answers what the editor asks about it.

Checks run in one thread, answers in another; the event loop only moves messages. Documents are sent as a whole after
every change: the library applies partial changes to lines that it also ends at U+2028 and other characters, where
editors do not end them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from ragflow_lg import __version__
from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl_compiler import CheckedCanvas
from ragflow_lg.dsl_compiler.json_spans import plan_fix, plan_fixes
from ragflow_lg.integrations.language_server.hover import find_hover
from ragflow_lg.integrations.language_server.lsp_types import to_completion, to_diagnostic, to_edits, to_hover, to_range
from ragflow_lg.integrations.language_server.name_completion import complete
from ragflow_lg.integrations.language_server.navigation import find_definition, find_renamable, find_uses, plan_rename
from ragflow_lg.integrations.language_server.open_document import CheckResult, OpenDocument, TextVersion, judge
from ragflow_lg.integrations.language_server.outline import build_outline
from ragflow_lg.integrations.language_server.text_positions import Units

Check = Callable[[str, Path | None], CheckedCanvas]
"""Checks a text as the content of a file, if it is one."""

PAUSE_S = 0.15
"""How long the user stops typing before the text is checked."""

FIX_ALL = "Apply all safe fixes of ragflow-lg"

logger = logging.getLogger(__name__)


class CanvasServer(LanguageServer):
    """A language server for canvases."""

    def __init__(self, check: Check) -> None:
        super().__init__("ragflow-lg", __version__, types.TextDocumentSyncKind.Full)  # pyright: ignore[reportUnknownMemberType]
        self._check = check
        self._documents: dict[str, OpenDocument] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # Documents

    def put(self, uri: str, text: str, number: int | None, *, pause_s: float = PAUSE_S) -> None:
        """Take over the newest text of a document, and check it soon."""
        units = cast("Units", str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding)))
        path = to_fs_path(uri) if uri.startswith("file:") else None
        version = TextVersion(text, number, units, Path(path) if path else None)
        document = self._documents.get(uri)
        if document is None:
            self._documents[uri] = OpenDocument(version)
        else:
            document.version = version
        self.check_soon(uri, pause_s)

    def remove(self, uri: str) -> None:
        """Forget a document that was closed, and its diagnostics."""
        self._documents.pop(uri, None)
        if task := self._tasks.pop(uri, None):
            task.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def document(self, uri: str) -> OpenDocument | None:
        """Return an open document."""
        return self._documents.get(uri)

    def check_soon(self, uri: str, pause_s: float) -> None:
        """Check the newest text of a document after a pause in which it does not change."""
        if task := self._tasks.pop(uri, None):
            task.cancel()
        self._tasks[uri] = asyncio.get_running_loop().create_task(self._check_later(uri, pause_s))

    async def _check_later(self, uri: str, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        document = self._documents.get(uri)
        if document is None:
            return
        result = await asyncio.to_thread(self._judge, document.version)
        document.result = result
        if result.model is not None:
            document.readable = result
        positions = result.version.positions
        found = [to_diagnostic(positions, finding) for finding in result.findings]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, result.version.number))

    def _judge(self, version: TextVersion) -> CheckResult:
        if not version.is_canvas:
            return CheckResult(version, (), None)
        try:
            return judge(version, self._check(version.canvas.text, version.path))
        except Exception as error:  # the next text may be checked again
            logger.exception("The check failed.")
            return judge(version, CheckedCanvas(None, (_own_problem(error),), None))


def _own_problem(error: Exception) -> Diagnostic:
    message = f"ragflow-lg could not check the canvas: {type(error).__name__}: {error}"
    return Diagnostic("error", "error", "", message[:1_000], "Report it with the canvas.")


def create_server(check: Check) -> CanvasServer:
    """Create a server that checks texts with a function."""
    server = CanvasServer(check)
    _register_documents(server)
    _register_answers(server)
    _register_rename(server)
    return server


def _register_documents(server: CanvasServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        server.put(document.uri, document.text, document.version, pause_s=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if server.document(uri) is not None and params.content_changes:
            server.put(uri, params.content_changes[-1].text, params.text_document.version)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _(params: types.DidSaveTextDocumentParams) -> None:
        if server.document(params.text_document.uri) is not None:  # files beside it may have changed
            server.check_soon(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _(params: types.DidCloseTextDocumentParams) -> None:
        server.remove(params.text_document.uri)


def _register_answers(server: CanvasServer) -> None:
    completion = types.CompletionOptions(trigger_characters=["{", "@", ".", '"'])
    kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll]
    fixes = types.CodeActionOptions(code_action_kinds=kinds)
    _register(server, types.TEXT_DOCUMENT_HOVER, _hover)
    _register(server, types.TEXT_DOCUMENT_DEFINITION, _define)
    _register(server, types.TEXT_DOCUMENT_REFERENCES, _list_uses)
    _register(server, types.TEXT_DOCUMENT_COMPLETION, _complete, completion)
    _register(server, types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _outline)
    _register(server, types.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename)
    _register(server, types.TEXT_DOCUMENT_CODE_ACTION, _list_fixes, fixes)


def _register(
    server: CanvasServer, feature: str, find: Callable[[OpenDocument, Any], object], options: Any = None
) -> None:
    """Answer the requests of a feature with what a function finds in the document; with null if it is not open."""

    @server.feature(feature, options)
    async def _(params: Any) -> object:
        document = server.document(params.text_document.uri)
        return None if document is None else await asyncio.to_thread(find, document, params)


def _register_rename(server: CanvasServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def _(params: types.RenameParams) -> types.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        if document is None:
            return None
        version, offset = document.version, _offset(document.version, params.position)
        rename = await asyncio.to_thread(plan_rename, version.canvas, offset, params.new_name)
        if rename.problem:
            server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, rename.problem))
            return None
        return types.WorkspaceEdit({params.text_document.uri: to_edits(version.positions, rename.edits)})


def _offset(version: TextVersion, position: types.Position) -> int:
    return version.positions.offset(position.line, position.character)


def _hover(document: OpenDocument, params: types.HoverParams) -> types.Hover | None:
    if document.readable is None or document.readable.model is None:
        return None
    version = document.version
    hover = find_hover(version.canvas, document.readable.model, _offset(version, params.position))
    return None if hover is None else to_hover(version.positions, hover)


def _define(document: OpenDocument, params: types.DefinitionParams) -> types.Location | None:
    version = document.version
    place = find_definition(version.canvas, _offset(version, params.position))
    return None if place is None else types.Location(params.text_document.uri, to_range(version.positions, place))


def _list_uses(document: OpenDocument, params: types.ReferenceParams) -> list[types.Location]:
    version = document.version
    with_definition = params.context.include_declaration
    places = find_uses(version.canvas, _offset(version, params.position), with_definition=with_definition)
    return [types.Location(params.text_document.uri, to_range(version.positions, place)) for place in places]


def _complete(document: OpenDocument, params: types.CompletionParams) -> types.CompletionList:
    version, readable = document.version, document.readable
    if readable is None or readable.model is None:
        return types.CompletionList(is_incomplete=False, items=[])
    entries = complete(version.canvas.text, readable.model, readable.base, _offset(version, params.position))
    items = [to_completion(version.positions, number, entry) for number, entry in enumerate(entries)]
    return types.CompletionList(is_incomplete=False, items=items)


def _outline(document: OpenDocument, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    return build_outline(document.version.canvas, document.version.positions)


def _prepare_rename(document: OpenDocument, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
    version = document.version
    mention = find_renamable(version.canvas, _offset(version, params.position))
    if mention is None or mention.id_place is None:
        return None
    return types.PrepareRenamePlaceholder(to_range(version.positions, mention.id_place), mention.component)


def _list_fixes(document: OpenDocument, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Return the fix of each diagnostic in a range, and one for all; none while the text is newer than the check."""
    result = document.result
    if result is None or result.version is not document.version:
        return []
    spans, positions = result.version.canvas.spans, result.version.positions
    fixable = [finding for finding in result.findings if finding.diagnostic.fix is not None]
    if spans is None or not fixable:
        return []
    start, end = (_offset(result.version, place) for place in (params.range.start, params.range.end))
    uri, only = params.text_document.uri, params.context.only
    actions: list[types.CodeAction] = []
    for finding in fixable:
        diagnostic = finding.diagnostic
        is_wanted = finding.place.start <= end and start <= finding.place.end
        if is_wanted and diagnostic.fix is not None and _allows(only, types.CodeActionKind.QuickFix):
            edits = to_edits(positions, plan_fix(spans, diagnostic.pointer, diagnostic.fix))
            actions.append(
                types.CodeAction(
                    diagnostic.fix.title,
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[to_diagnostic(positions, finding)],
                    edit=types.WorkspaceEdit({uri: edits}),
                )
            )
    if _allows(only, types.CodeActionKind.SourceFixAll):
        edits = to_edits(positions, plan_fixes(spans, [finding.diagnostic for finding in fixable])[0])
        edit = types.WorkspaceEdit({uri: edits})
        actions.append(types.CodeAction(FIX_ALL, kind=types.CodeActionKind.SourceFixAll, edit=edit))
    return actions


def _allows(only: Sequence[types.CodeActionKind | str] | None, kind: types.CodeActionKind) -> bool:
    """Return whether the editor asks for a kind: for all, for this one, or for one that includes it."""
    names = [str(getattr(one, "value", one)) for one in only or ()]
    return only is None or any(kind.value == name or kind.value.startswith(f"{name}.") for name in names)
