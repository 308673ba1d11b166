import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types

from ragflow_lg.dsl_compiler.json_spans import TextEdit, apply_edits
from ragflow_lg.integrations.language_server.text_positions import TextPositions
from tests.architecture.sources import ROOT
from tests.integrations.language_server.editor import Editor, open_editor
from tests.integrations.language_server.shop import TEXT, offset_of
from tests.server.cli.command import call

POSITIONS = TextPositions(TEXT)
URI = "untitled:Untitled-1"
DOCUMENT = types.TextDocumentIdentifier(URI)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    async with open_editor(tmp_path_factory.mktemp("editor")) as opened:
        yield opened


async def opened(editor: Editor) -> list[types.Diagnostic]:
    editor.open(URI, TEXT)
    return await editor.diagnostics()


async def typed(editor: Editor, text: str) -> list[types.Diagnostic]:
    editor.type(URI, text)
    return await editor.diagnostics()


def position_of(needle: str, after: str = "") -> types.Position:
    return types.Position(*POSITIONS.position(offset_of(needle, after)))


def marked(place: types.Range, text: str = TEXT, positions: TextPositions = POSITIONS) -> str:
    """Return the text in a range."""
    start, end = (positions.offset(p.line, p.character) for p in (place.start, place.end))
    return text[start:end]


def edited(edits: Sequence[types.TextEdit]) -> str:
    """Apply edits as an editor does."""
    places = [(POSITIONS.offset(p.start.line, p.start.character), p) for p in (edit.range for edit in edits)]
    ends = [POSITIONS.offset(p.end.line, p.end.character) for _, p in places]
    return apply_edits(TEXT, [TextEdit(places[n][0], ends[n], edit.new_text) for n, edit in enumerate(edits)])


def changes(edit: types.WorkspaceEdit | None) -> Sequence[types.TextEdit]:
    assert edit is not None
    assert edit.changes is not None
    return edit.changes[URI]


async def test_mistakes_are_shown_while_typing_and_go_when_they_are_corrected(editor: Editor) -> None:
    (found,) = await opened(editor)
    assert (found.code, found.source) == ("params-unknown", "ragflow-lg")
    assert found.severity == types.DiagnosticSeverity.Warning
    assert marked(found.range) == "prolgue"
    assert list(found.tags or ()) == [types.DiagnosticTag.Unnecessary]
    wrong = TEXT.replace("🎉 and {{sys.query}}", "🎉 and {{sys.query2}}")
    found = (await typed(editor, wrong))[0]
    assert (found.code, marked(found.range, wrong, TextPositions(wrong))) == ("reference-unknown-global", "sys.query2")
    assert "sys.query" in found.message
    broken = TEXT.replace('"downstream"', '"downstream')
    assert [d.code for d in await typed(editor, broken)] == ["json-invalid"]
    corrected = TEXT.replace('            "prolgue": "Hi",\n', "")
    assert await typed(editor, corrected) == []


async def test_the_editor_gets_descriptions_definitions_and_uses(editor: Editor) -> None:
    await opened(editor)
    position = position_of("{LLM:Order@|structured.total")
    hover = await editor.client.text_document_hover_async(types.HoverParams(DOCUMENT, position))
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.value.startswith("`LLM:Order@structured.total`: number")
    assert hover.range is not None
    assert marked(hover.range) == "LLM:Order@structured.total"
    definition = await editor.client.text_document_definition_async(types.DefinitionParams(DOCUMENT, position))
    assert isinstance(definition, types.Location)
    assert marked(definition.range) == "structured"
    context = types.ReferenceContext(include_declaration=True)
    uses = await editor.client.text_document_references_async(types.ReferenceParams(context, DOCUMENT, position))
    assert [marked(use.range)[:20] for use in uses or ()] == ["LLM:Order@structured"] * 4


async def test_references_are_completed_while_the_text_is_invalid(editor: Editor) -> None:
    await opened(editor)
    start = offset_of('"Answer {|sys.query}')
    text = TEXT[:start]
    editor.type(URI, text)
    position = types.Position(*TextPositions(text).position(start))
    answer = await editor.client.text_document_completion_async(types.CompletionParams(DOCUMENT, position))
    assert isinstance(answer, types.CompletionList)
    items = {item.label: item for item in answer.items}
    assert {"begin@city", "LLM:Order@content", "sys.query", "env.shop"} <= set(items)
    assert not {"LLM:Other@content", "Iteration:Lines@labels"} & set(items)
    assert isinstance(items["begin@city"].text_edit, types.TextEdit)
    assert items["begin@city"].text_edit.new_text == "begin@city}"


async def test_the_outline_lists_the_nodes_by_title(editor: Editor) -> None:
    editor.open(URI, TEXT)
    symbols = await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(DOCUMENT))
    found = [symbol for symbol in symbols or () if isinstance(symbol, types.DocumentSymbol)]
    names = [symbol.name for symbol in found]
    assert names == ["Start", "Which kind?", "Read the order 🎉", "Other_answer", "Each line", "Answer"]
    assert [child.name for child in found[4].children or ()] == ["Line", "Label"]
    assert marked(found[2].selection_range) == "LLM:Order"


async def test_a_component_is_renamed_everywhere(editor: Editor) -> None:
    await opened(editor)
    position = position_of("{LLM:|Order@structured.total")
    prepared = await editor.client.text_document_prepare_rename_async(types.PrepareRenameParams(DOCUMENT, position))
    assert isinstance(prepared, types.PrepareRenamePlaceholder)
    assert (prepared.placeholder, marked(prepared.range)) == ("LLM:Order", "LLM:Order")
    edit = await editor.client.text_document_rename_async(types.RenameParams(DOCUMENT, position, "LLM:Shipping"))
    renamed = edited(changes(edit))
    assert renamed.count("LLM:Shipping") == len(changes(edit))
    assert [d.code for d in await typed(editor, renamed)] == ["params-unknown"]
    refused = await editor.client.text_document_rename_async(types.RenameParams(DOCUMENT, position, "not an id"))
    assert refused is None
    assert any("letters" in message for message in editor.messages)


async def test_the_fixes_of_check_are_offered(editor: Editor) -> None:
    (found,) = await opened(editor)
    context = types.CodeActionContext([found])
    params = types.CodeActionParams(DOCUMENT, found.range, context)
    answer = await editor.client.text_document_code_action_async(params)
    actions = [action for action in answer or () if isinstance(action, types.CodeAction)]
    assert [action.title for action in actions] == ["Remove 'prolgue'", "Apply all safe fixes of ragflow-lg"]
    for action in actions:
        fixed = edited(changes(action.edit))
        assert "prolgue" not in json.loads(fixed)["dsl"]["components"]["LLM:Other"]["obj"]["params"]
    only = types.CodeActionContext([], only=[types.CodeActionKind.Source])
    whole = types.Range(types.Position(0, 0), types.Position(0, 0))
    rest = await editor.client.text_document_code_action_async(types.CodeActionParams(DOCUMENT, whole, only))
    assert [action.title for action in rest or ()] == ["Apply all safe fixes of ragflow-lg"]


async def test_other_files_and_old_canvases(editor: Editor) -> None:
    editor.open("file:///package.json", '{"name": "x", "version": 2')
    assert await editor.diagnostics() == []
    old = (ROOT / "tests" / "fixtures" / "canvas" / "legacy").glob("*.json")
    path = next(iter(sorted(old)))
    editor.open(path.as_uri(), path.read_text("utf-8"))
    reported = json.loads(call("check", path, "--output", "json").stdout)[0]["diagnostics"]
    shown = await editor.diagnostics()
    assert [d.code for d in shown] == [d["code"] for d in reported]
    assert "legacy-component" in [d.code for d in shown]


async def test_closed_documents_have_no_diagnostics(editor: Editor) -> None:
    editor.open(URI, TEXT)
    assert await editor.diagnostics()
    editor.close(URI)
    assert await editor.diagnostics_of(None) == []
    assert await editor.client.text_document_hover_async(types.HoverParams(DOCUMENT, types.Position(0, 0))) is None


async def test_settings_that_cannot_be_read_are_shown_and_read_again(tmp_path: Path) -> None:
    settings = tmp_path / "ragflow-lg.toml"
    async with open_editor(tmp_path, "--stdio", "--settings", str(settings)) as other:
        settings.write_text("[providers")
        other.open(URI, TEXT)
        problem, found = await other.diagnostics()
        assert (problem.code, problem.severity) == ("settings", types.DiagnosticSeverity.Warning)
        assert "checked without them" in problem.message
        assert found.code == "params-unknown"
        settings.write_text("")
        other.client.text_document_did_save(types.DidSaveTextDocumentParams(DOCUMENT))
        assert [d.code for d in await other.diagnostics()] == ["params-unknown"]


async def test_settings_of_a_folder_that_is_not_trusted_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ragflow-lg.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    async with open_editor(tmp_path) as editor:
        editor.open(URI, TEXT)
        problem, found = await editor.diagnostics()
        assert "ragflow-lg trust" in problem.message
        assert (problem.code, found.code) == ("settings", "params-unknown")


@pytest.mark.parametrize("encoding", [types.PositionEncodingKind.Utf8, types.PositionEncodingKind.Utf32])
async def test_editors_choose_what_a_character_is(encoding: types.PositionEncodingKind, tmp_path: Path) -> None:
    async with open_editor(tmp_path, encodings=(encoding,)) as editor:
        text = TEXT.replace("{{sys.query}}", "{{sys.query2}}")
        editor.open(URI, text)
        found = (await editor.diagnostics())[0]
        units = "utf-8" if encoding is types.PositionEncodingKind.Utf8 else "utf-32"
        assert marked(found.range, text, TextPositions(text, units)) == "sys.query2"
