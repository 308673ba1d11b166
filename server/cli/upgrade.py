"""``ragflow-lg upgrade``: bring a canvas from before RAGFlow 0.20 to DSL v1 of today."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from ragflow_lg.server.cli.options import Output
from ragflow_lg.server.cli.output_file import write_output

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.upgrade import Change


def upgrade(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    output: Output = None,
    report: Annotated[Literal["text", "json"], typer.Option("--report", help="Format of the report.")] = "text",
) -> None:
    """Upgrade a canvas from before RAGFlow 0.20.

    Answer, Generate, Relevant and the other components that RAGFlow removed are replaced by those of today. The report
    on standard error says what became of each, and what may behave differently. RAGFlow and ragflow-lg run the result.

    Example: ragflow-lg upgrade old.json -o new.json
    """
    from ragflow_lg.dsl_compiler import upgrade_source
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import catalog

    upgraded = upgrade_source(read_canvas(file), catalog())
    content = orjson.dumps(upgraded.document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_output(content, output)
    sys.stderr.write(_as_json(upgraded.changes) if report == "json" else _as_text(upgraded.changes))


def _as_json(changes: Sequence[Change]) -> str:
    entries = [
        {
            "id": change.id,
            "component": change.name,
            "became": change.became,
            "note": change.note,
            "difference": change.is_difference,
        }
        for change in changes
    ]
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _as_text(changes: Sequence[Change]) -> str:
    if not changes:
        return "Nothing was upgraded: the canvas has no component from before RAGFlow 0.20.\n"
    lines = [f"{'!' if change.is_difference else ' '} {change.id}: {change}" for change in changes]
    count = sum(change.is_difference for change in changes)
    summary = f"{len(changes)} components were upgraded; {count} of them may behave differently (marked with !)."
    return "\n".join([*lines, summary]) + "\n"
