"""Convert a canvas file between DSL v1 and DSL v2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.dsl_compiler.compiler import Source, add_positions
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.dsl_v2 import is_v2, to_v1, to_v2
from ragflow_lg.dsl_compiler.passes.components_from_graph import with_components
from ragflow_lg.dsl_compiler.source import read_source

DslVersion = Literal["v1", "v2"]


def convert_source(source: Source, version: DslVersion, *, is_plain: bool = False) -> dict[str, Any]:
    """Return a canvas in a version of the DSL, in its template's wrapper if it has one.

    Args:
        source: A canvas in either version.
        version: The version to return.
        is_plain: For DSL v2, whether to leave ``v1`` out, which RAGFlow's Go port does not accept.

    Raises:
        CompileError: if the source is no canvas, or cannot be converted.
    """
    reporter = Reporter()
    value, text = read_source(source, reporter)
    wrapper, document, base = as_map(value), as_map(value), ""
    if "dsl" in wrapper and "components" not in wrapper:
        inner = wrapper["dsl"]
        document, base = as_map(read_source(inner, reporter)[0] if isinstance(inner, str) else inner), "/dsl"
    if not document and not reporter.has_errors:
        hint = "A canvas is a single JSON object."
        reporter.report("document-shape", "error", base, "This is not a JSON object with a canvas.", hint)
    converted = {} if reporter.has_errors else _convert(document, version, base, reporter, is_plain=is_plain)
    if reporter.has_errors:
        raise CompileError(add_positions(reporter.diagnostics, text))
    return {**wrapper, "dsl": converted} if base else converted


def _convert(
    document: Mapping[str, Any], version: DslVersion, base: str, reporter: Reporter, *, is_plain: bool
) -> dict[str, Any]:
    if version == "v1":
        return to_v1(document, base, reporter) if is_v2(document) else dict(document)
    if not is_v2(document):
        return to_v2(with_components(document, base), base, reporter, is_plain=is_plain)
    to_v1(document, base, reporter)  # reports what is wrong with it
    return {key: value for key, value in document.items() if key != "v1" or not is_plain}
