import json
from collections.abc import Iterator, Sequence
from typing import Any

from ragflow_lg.integrations.language_server.canvas_text import CanvasText
from ragflow_lg.integrations.language_server.outline import OutlineEntry, build_outline
from tests.fakes.canvas import canvas, node
from tests.integrations.language_server.shop import CANVAS, TEXT


def titles(entries: Sequence[OutlineEntry]) -> list[Any]:
    """Return the titles, each with those of its body, if it has one."""
    return [(e.title, titles(e.children)) if e.children else e.title for e in entries]


def walk(entries: Sequence[OutlineEntry]) -> Iterator[OutlineEntry]:
    for entry in entries:
        yield entry
        yield from walk(entry.children)


def test_nodes_are_listed_by_title_and_bodies_below_their_region() -> None:
    expected = ["Start", "Which kind?", "Read the order 🎉", "Other_answer", ("Each line", ["Line", "Label"]), "Answer"]
    outline = build_outline(CANVAS)
    assert titles(outline) == expected
    assert outline[1].detail == "Switch · Switch:Kind"
    for entry in walk(outline):
        assert entry.place.start <= entry.key.start <= entry.key.end <= entry.place.end
        assert json.loads(f"{{{TEXT[entry.place.start : entry.place.end]}}}")


def test_regions_that_contain_each_other_are_listed_once() -> None:
    components = {name: {**node("Loop"), "parent_id": parent} for name, parent in (("a", "b"), ("b", "a"), ("c", "c"))}
    outline = build_outline(CanvasText(json.dumps(canvas(components))))
    assert sorted(entry.title for entry in walk(outline)) == ["a", "b", "begin", "c"]
