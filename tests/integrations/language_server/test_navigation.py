import re
from pathlib import Path
from typing import Any, cast

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.json_spans import apply_edits
from ragflow_lg.integrations.language_server.canvas_text import CanvasText, Place
from ragflow_lg.integrations.language_server.navigation import find_definition, find_renamable, find_uses, plan_rename
from tests.architecture.sources import ROOT
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CANVAS, CATALOG, FILE, TEXT, offset_of

FILES = sorted((ROOT / "examples").glob("*.json"))


def line_of(place: Place | None) -> str:
    """Return the line of a place, from the place on."""
    assert place is not None
    return TEXT[place.start :].partition("\n")[0]


@each_row(
    ("needle", "after", "defined"),
    [
        ("{Iteration:|Lines@labels}", "", 'Iteration:Lines": {'), ("{Iteration:Lines@la|bels}", "", 'labels": {'),
        ("{begin@ci|ty}", "", 'city": {'), ("LLM:Order@structure|d", "", 'structured": {'),
        ("{LLM:Other@con|tent}", "", 'content": {'), ("{sys.qu|ery}", "", 'sys.query": "",'),
        ("{env.sh|op}", "", 'shop": {'), ("LLM:|Order", '"to": [', "LLM:Order"),
        ('"source": "Switch:|Kind"', "", 'Switch:Kind": {'), ('"parentId": "Iter|ation', "", 'Iteration:Lines": {'),
    ],
)  # fmt: skip
def test_definitions(needle: str, after: str, defined: str) -> None:
    assert line_of(find_definition(CANVAS, offset_of(needle, after))).startswith(defined)


def test_the_short_name_of_an_item_leads_to_the_start_of_the_round() -> None:
    text = TEXT.replace("{IterationItem:Lines@item} of", "{item} of")
    place = find_definition(CanvasText(text), text.index("{item} of") + 2)
    assert place is not None
    assert text[place.start : place.end] == "IterationItem:Lines"
    outside = TEXT.replace("Answer {sys.query}", "Answer {item}")
    assert find_definition(CanvasText(outside), outside.index("{item}") + 2) is None


def test_places_that_name_nothing_have_no_definition() -> None:
    for needle in ('"prolgue": "H|i"', '"component_name": "Sw|itch"', '"items_re|f"'):
        assert find_definition(CANVAS, offset_of(needle)) is None
        assert find_uses(CANVAS, offset_of(needle), with_definition=True) == []


def test_uses_of_a_component_an_output_and_a_variable() -> None:
    component = find_uses(CANVAS, offset_of("{LLM:|Order@structured.total"), with_definition=True)
    assert {TEXT[place.start : place.end] for place in component} == {"LLM:Order"}
    without_edges = re.sub(r'"xy-edge[^"]*"', "", TEXT)
    assert len(component) == len(re.findall(r"LLM:Order\b", without_edges))
    assert len(find_uses(CANVAS, component[0].start, with_definition=False)) == len(component) - 1
    output = find_uses(CANVAS, offset_of("{LLM:Order@|structured.total"), with_definition=True)
    marked = sorted(TEXT[place.start : place.end] for place in output)
    assert marked == ["LLM:Order@structured.lines"] * 2 + ["LLM:Order@structured.total"] * 2
    variable = find_uses(CANVAS, offset_of("{env.|shop}"), with_definition=True)
    assert [TEXT[place.start : place.end] for place in variable] == ["env.shop"] * 2


def renamed(value: Any, old: str, new: str) -> Any:
    """Replace an id in a plan: as a whole text, as a key, and before ``@``."""
    if isinstance(value, dict):
        entries = {k: renamed(v, old, new) for k, v in cast("dict[str, Any]", value).items()}
        if "reports_to" in entries:
            entries["reports_to"] = sorted(entries["reports_to"])  # in the order of ids
        return {renamed(k, old, new): v for k, v in entries.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in cast("list[Any]", value)]
    if isinstance(value, str):
        return new if value == old else re.sub(rf"(?<![\w:\-]){re.escape(old)}@", f"{new}@", value)
    return value


@each_row("file", [FILE, *FILES])
def test_a_renamed_canvas_is_the_same_canvas(file: Path) -> None:
    text = file.read_text("utf-8")
    canvas = CanvasText(text)
    plan, diagnostics = check_canvas(text, CATALOG)
    assert plan is not None
    for entry in canvas.components.values():
        if entry.id == "begin":
            continue
        changed = apply_edits(text, plan_rename(canvas, entry.key.start, "New:Name_1").edits)
        new_plan, found = check_canvas(changed, CATALOG)
        assert new_plan is not None
        assert new_plan.as_json() == renamed(plan.as_json(), entry.id, "New:Name_1")
        assert [d.code for d in found] == [d.code for d in diagnostics]
        again = CanvasText(changed)
        back = plan_rename(again, again.components["New:Name_1"].key.start, entry.id)
        assert apply_edits(changed, back.edits) == text


@each_row("new_id", ["", "a b", 'x"y', "é", "a@b", "begin", "LLM:Other", "x" * 201, "a.b", "a-b"])
def test_ids_that_would_break_the_canvas_are_refused(new_id: str) -> None:
    rename = plan_rename(CANVAS, offset_of("{LLM:|Order@"), new_id)
    assert (rename.edits, bool(rename.problem)) == ((), True)


def test_begin_and_other_places_are_not_renamed() -> None:
    assert "starts a turn" in plan_rename(CANVAS, offset_of("{be|gin@city"), "start").problem
    assert find_renamable(CANVAS, offset_of("{begin@ci|ty")) is None
    assert "no component" in plan_rename(CANVAS, offset_of('"prol|gue'), "x").problem
