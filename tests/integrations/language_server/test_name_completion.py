import json
from typing import Any

from ragflow_lg.dsl_compiler.json_spans import TextEdit, apply_edits
from ragflow_lg.integrations.language_server.canvas_text import CanvasText
from ragflow_lg.integrations.language_server.hover import find_hover
from ragflow_lg.integrations.language_server.name_completion import CompletionEntry, complete
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import MODEL, TEXT, model_of, offset_of

GLOBALS = {"sys.query", "sys.user_id", "sys.conversation_turns", "sys.files", "sys.history", "sys.date", "env.shop"}


def typed(old: str, new: str) -> tuple[str, int]:
    """Return the text after a change, and the cursor at its ``|``; everything after that is cut off."""
    start = offset_of(old)
    head = new.partition("|")[0]
    return TEXT[:start] + new.replace("|", ""), start + len(head)


def offered(text: str, offset: int) -> dict[str, CompletionEntry]:
    """Return what is offered, by label."""
    return {entry.label: entry for entry in complete(text, MODEL, ("dsl",), offset)}


def test_only_values_that_the_node_can_read_are_offered() -> None:
    other = offered(*typed('"Answer {sys.query} for', '"Answer {|'))
    assert set(other) - GLOBALS == {"Switch:Kind@next", "LLM:Order@content", "LLM:Order@structured", "begin@city"}
    assert set(offered(*typed('"Ship to {begin', '"Ship to {|'))) - GLOBALS == {"Switch:Kind@next", "begin@city"}
    message = offered(*typed('"{Iteration:Lines@labels} {LLM', '"{|'))
    assert "Iteration:Lines@labels" in message
    assert "IterationItem:Lines@item" not in message
    assert message["Iteration:Lines@labels"].detail == "list of text"
    assert message["LLM:Order@content"].title == "Read the order 🎉"


def test_the_body_of_an_iteration_reads_the_item_and_what_ran_before() -> None:
    entries = offered(*typed('"{IterationItem:Lines@item} of', '"{|'))
    assert {"item", "index", "IterationItem:Lines@item", "LLM:Order@structured", "begin@city"} <= set(entries)
    assert not {"Iteration:Lines@labels", "StringTransform:Label@result", "LLM:Other@content"} & set(entries)


def test_components_as_ragflow_1_writes_them_are_read() -> None:
    begin: dict[str, Any] = {"component_name": "Begin", "params": {}, "downstream": ["Message:0"]}
    message: dict[str, Any] = {"component_name": "Message", "params": {"content": ["{sys."]}, "downstream": []}
    text = json.dumps({"components": {"begin": begin, "Message:0": message}})
    model, cursor = model_of(text), offset_of("{sys.|", text=text)
    assert "sys.query" in {entry.label for entry in complete(text, model, (), cursor)}
    shown = find_hover(CanvasText(text), model, offset_of('"cont|ent"', text=text))
    assert shown is not None
    assert shown.markdown.startswith("`content`: ")


def test_entries_of_a_structured_output_are_offered_after_a_dot() -> None:
    entries = offered(*typed("{LLM:Order@structured.total}", "{LLM:Order@structured.|"))
    assert entries["LLM:Order@structured.lines"].detail == "list of text"
    assert "LLM:Order@structured.total" in entries


@each_row(
    ("old", "new", "result"),
    [
        ('"Answer {sys', '"Answer {beg|', '"Answer {begin@city}'),
        ('"Answer {sys', '"Answer {beg|}', '"Answer {begin@city}'),
        ('"Answer {sys', '"Answer {{ be|gin }}', '"Answer {{ begin@city }}'),
        ('"Answer {sys', '"Answer {begin@|ci} or', '"Answer {begin@city} or'),
        ('"LLM:Order@structured.lines"', '"beg|"', '"begin@city"'),
        ('"sys.query",\n', '"|",', '"begin@city",'),
    ],
)
def test_the_word_at_the_cursor_is_replaced(old: str, new: str, result: str) -> None:
    text, offset = typed(old, new)
    entry = offered(text, offset)["begin@city"]
    assert apply_edits(text, [TextEdit(*entry.place, entry.new_text)]) == TEXT[: offset_of(old)] + result


def test_edges_lead_to_nodes_of_the_same_body() -> None:
    entries = offered(*typed('"LLM:Order"\n', '"LLM|'))
    assert set(entries) == {"begin", "LLM:Order", "LLM:Other", "Iteration:Lines", "Message:End"}
    assert entries["LLM:Other"].is_component
    assert set(offered(*typed('"Iteration:Lines"\n      },\n      "Message', '"|'))) == {"Iteration:Lines"}
    label = offset_of('"parent_id": "|Iteration')
    assert set(offered(TEXT[:label], label)) == {"Iteration:Lines"}


@each_row(
    ("old", "new"),
    [
        ('"Answer {sys', '"Answer sys|'), ('"Answer {sys', '"Answer {sys.query} |'), ('"prolgue"', '"|'),
        ('"llm_id": "demo"', '"llm_id": |'), ('"title": "Shop"', '"title": "{|'),
        ('"component_name": "Switch"', '"component_name": "{|'),
    ],
)  # fmt: skip
def test_nothing_is_offered_elsewhere(old: str, new: str) -> None:
    assert offered(*typed(old, new)) == {}
