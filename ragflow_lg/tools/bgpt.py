"""BGPT: search scientific papers and the evidence in their full texts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import QueryText, RunContext, build_search_result, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("BGPT", "bgpt", "https://bgpt.pro", "optional")

FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Title", ("title",)),
    ("Authors", ("authors",)),
    ("Journal", ("journal",)),
    ("Year", ("year",)),
    ("DOI", ("doi",)),
    ("Abstract", ("abstract",)),
    ("Methods", ("methods_and_experimental_techniques", "methods")),
    ("Sample size / population", ("sample_size_and_population_characteristics", "sample_size_and_population")),
    ("Results", ("results_and_conclusions", "results")),
    ("Limitations", ("paper_limitations_and_biases", "limitations")),
    ("Conflicts of interest", ("conflict_of_interest_statements", "conflict_of_interest")),
    ("Data availability", ("data_availability_statements", "data_availability")),
    ("Blind spots", ("study_blindspots",)),
    ("How to falsify", ("how_to_falsify",)),
)
"""The lines of a paper's text, each with the fields that can contain it."""


class Params(ComponentParams):
    """Parameters of BGPT."""

    top_n: Annotated[int, Field(gt=0)] = 10
    """Number of papers."""
    api_key: str | None = ""
    """BGPT key; defaults to the key in ``[tools.bgpt]`` in the settings. Without one, BGPT's free quota applies."""
    days_back: Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(lambda value: value or None)] = None
    """Maximum age of the papers, in days."""


class Arguments(BaseModel):
    """The search query."""

    query: QueryText = Field("", description="A scientific question or its most important terms.")


@tool(
    "BGPT",
    function="bgpt_search",
    params=Params,
    arguments=Arguments,
    timeout_s=30.0,
    effects="pays",
    description="Search scientific papers. Returns methods, sample sizes, results, limitations and conflicts of "
    "interest from their full texts.",
    source="agent/tools/bgpt.py",
    service=SERVICE,
)
async def bgpt(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Search once."""
    service = open_service(ctx, SERVICE, params.api_key, error_field="error")
    body: dict[str, JsonValue] = {"query": arguments.query.strip(), "num_results": params.top_n}
    if service.secret:
        body["api_key"] = service.secret
    if params.days_back:
        body["days_back"] = params.days_back
    request = HttpRequest("POST", f"{service.address}/api/mcp-search", json=body, timeout_s=25.0)
    rows = service.rows(await service.ask_json(ctx, request), "results", params.top_n)
    return build_search_result(rows, _row)


def _row(row: dict[str, Any]) -> tuple[str, str, str, float]:
    text = "\n".join(f"{label}: {_first(row, names)}" for label, names in FIELDS)
    return read_label(row, "title") or "Untitled", read_label(row, "url") or read_label(row, "doi"), text, 1.0


def _first(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := read_text(row, name))), "-")
