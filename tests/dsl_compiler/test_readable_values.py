from pathlib import Path

from ragflow_lg.base.ids import NodeId
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.readable_values import ReadableValues
from tests.architecture.sources import ROOT
from tests.fakes.canvas import canvas, node, switch, text
from tests.harness.rows import each_row

CATALOG = load_catalog()
FILES = sorted((ROOT / "examples").glob("*.json"))


def draft_of(source: object) -> Draft:
    draft = inspect_canvas(source, CATALOG).draft  # pyright: ignore[reportArgumentType] - text or a document
    assert draft is not None
    return draft


def names(draft: Draft, reader: str) -> list[str]:
    """Return the outputs that a node can read."""
    values = ReadableValues(draft).readable_by(draft.nodes[NodeId(reader)])
    return [value.text for value in values if value.node is not None and value.node.id != "begin"]


def test_nodes_on_the_way_are_readable_the_nearest_first() -> None:
    draft = draft_of(canvas({"a": text(["b", "c"]), "b": text(["d"]), "c": text(["e"]), "d": text(), "e": text()}))
    assert names(draft, "d") == ["b@result", "a@result"]
    assert names(draft, "a") == []


def test_branches_that_exclude_each_other_are_not_readable_but_both_are_after_them() -> None:
    draft = draft_of(canvas({"s": switch(["a"], ["b"]), "a": text(["m"]), "b": text(["m"]), "m": text()}))
    assert [name for name in names(draft, "a") if not name.startswith("s@")] == []
    assert {"a@result", "b@result"} <= set(names(draft, "m"))


def test_a_body_reads_the_item_and_its_region_is_read_after_it() -> None:
    outputs = {"all": {"ref": "t@result", "type": "Array<string>"}}
    components = {
        "l": text(["i"]),
        "i": node("Iteration", {"items_ref": "l@result", "outputs": outputs}, ["m"]),
        "n": node("IterationItem", {}, ["t"], parent_id="i"),
        "t": text(parent_id="i"),
        "m": text(),
    }
    draft = draft_of(canvas(components))
    assert names(draft, "t") == ["n@item", "n@result", "n@index", "l@result"]
    assert names(draft, "m") == ["i@all", "l@result", "t@result"], "the value of the last round comes last"
    aliases = {v.text for v in ReadableValues(draft).readable_by(draft.nodes[NodeId("t")]) if v.node is None}
    assert {"item", "index", "sys.query"} <= aliases


@each_row("file", FILES)
def test_what_working_canvases_read_is_readable(file: Path) -> None:
    draft = draft_of(file.read_bytes())
    values = ReadableValues(draft)
    for reader in draft.nodes.values():
        readable = {value.text for value in values.readable_by(reader)}
        for reference, _ in reader.references:
            if reference.kind == "output" and reference.node != reader.id and not reference.key.startswith("_"):
                assert f"{reference.node}@{reference.key}" in readable, (reader.id, reference.text)
