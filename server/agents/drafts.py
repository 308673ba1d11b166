"""Drafts of an agent's canvas: how they are checked and stored, and the version of the DSL that a client reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import orjson

from ragflow_lg.base.errors import CompileError, RequestError
from ragflow_lg.dsl_compiler import convert_source
from ragflow_lg.dsl_compiler.dsl_v2 import is_v2
from ragflow_lg.server.agents.canvas_checks import draft_error, find_diagnostics, refuse, without_position

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.workers import Workers

DslVersion = Literal["v1", "v2"]
"""What a client may ask for. Canvases are stored in DSL v1."""

_REFUSED = frozenset(
    {
        "json-invalid",
        "document-too-large",
        "document-shape",
        "document-empty",
        "pipeline-document",
        "legacy-component",
        "component-unknown",
        "params-invalid",
        "id-invalid",
    }
)
"""Errors that are not allowed even in a draft, unless a param is not filled in yet. All others are reported when it
runs."""


async def check_draft(settings: Settings, workers: Workers, dsl: Any, *, is_released: bool = False) -> str:
    """Return a canvas, given as a JSON object or text, in its stored form.

    Raises:
        RequestError: If the canvas cannot be used as a draft, cannot run although it is to be released, or takes too
            much time or memory to check.
    """
    source, text = await _read_draft(dsl)
    _, diagnostics = await find_diagnostics(workers, settings, text.encode())
    errors = [without_position(d) for d in diagnostics if d.severity == "error"]
    refused = [d for d in errors if d.code in _REFUSED]
    refuse([d for d in refused if not (d.code == "params-invalid" and _is_unfilled(source, d.pointer))])
    if is_released:
        refuse(errors)
    return text


async def check_release(settings: Settings, workers: Workers, dsl: str) -> None:
    """Check that a canvas can run.

    Raises:
        RequestError: If it cannot, or takes too much time or memory to check.
    """
    _, diagnostics = await find_diagnostics(workers, settings, dsl.encode())
    refuse([without_position(d) for d in diagnostics if d.severity == "error"])


async def _read_draft(dsl: Any) -> tuple[dict[str, Any], str]:
    """Return a canvas as an object, and as stored: in DSL v1."""
    source: Any = dsl
    if isinstance(dsl, str):
        try:
            source = orjson.loads(dsl)
        except orjson.JSONDecodeError as error:
            raise draft_error(f"The DSL is not JSON: {error}.") from None
    if not isinstance(source, dict):
        raise draft_error("The DSL should be a JSON object.")
    fields = cast("dict[str, Any]", source)
    if isinstance(fields.get("dsl"), dict) and not fields.keys() & {"components", "graph"}:
        fields = fields["dsl"]  # a template: clients expect the graph at the top level of the stored canvas
    if is_v2(fields):
        try:
            fields = convert_source(fields, "v1")
        except CompileError as error:
            refuse(error.diagnostics)
    try:
        return fields, orjson.dumps(fields).decode()
    except TypeError as error:  # numbers beyond 64 bit
        raise draft_error(f"The DSL cannot be stored: {error}.") from None


def _is_unfilled(source: Any, pointer: str) -> bool:
    """Return whether a JSON pointer leads to an empty text, as in a node that was just put into RAGFlow's editor."""
    value = source
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value == ""


async def shown_canvas(dsl: str, version: str) -> Any:
    """Return a stored canvas in a version of the DSL.

    Raises:
        RequestError: If there is no such version, or the canvas cannot be converted to it.
    """
    if version not in ("", "v1", "v2"):
        raise RequestError("dsl_version should be v1 or v2.", 101, status=400)
    if version != "v2":
        return orjson.loads(dsl)
    try:
        return convert_source(dsl, "v2")
    except CompileError as error:
        refuse(error.diagnostics)
        raise
