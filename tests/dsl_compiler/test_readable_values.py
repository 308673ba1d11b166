from pathlib import Path

from ragflow_lg.base.ids import NodeId
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.readable_values import ReadableValues
from tests.architecture.sources import ROOT
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


@each_row("file", FILES)
def test_what_working_canvases_read_is_readable(file: Path) -> None:
    draft = draft_of(file.read_bytes())
    values = ReadableValues(draft)
    for reader in draft.nodes.values():
        readable = {value.text for value in values.readable_by(reader)}
        for reference, _ in reader.references:
            if reference.kind == "output" and reference.node != reader.id and not reference.key.startswith("_"):
                assert f"{reference.node}@{reference.key}" in readable, (reader.id, reference.text)
