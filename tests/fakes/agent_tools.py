"""Tools without a service: a look-up, a sum, a slow one, a failing one, and one that creates files."""

import asyncio

from pydantic import BaseModel, Field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import ComponentParams, ToolResult
from ragflow_lg.component.tool import build_search_result, tool

CAPITALS = {"Laos": "Vientiane", "Cuba": "Havana", "Peru": "Lima"}
MAYORS = {"Vientiane": "Atsaphangthong Siphandone", "Havana": "Yanet Hernández"}


class Params(ComponentParams):
    """No specific parameters."""


class Query(BaseModel):
    """The name to look up."""

    query: str = Field(description="A name.")


class Numbers(BaseModel):
    """The numbers to add."""

    a: int
    b: int


@tool("LookUp", function="look_up", params=Params, arguments=Query, description="Look up a country or a city.")
async def look_up(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Return the entry of the table, with a chunk to cite."""
    name = arguments.query
    if name in MAYORS:
        return ToolResult(f"Its mayor is {MAYORS[name]}.")
    if name not in CAPITALS:
        return ToolResult(None, {"content": f"Nothing is known of {name}."})
    return build_search_result(
        [{"name": name}], lambda row: (name, f"http://atlas.test/{name}", f"The capital is {CAPITALS[name]}.", 1.0)
    )


@tool("Add", function="add", params=Params, arguments=Numbers, description="Add two numbers.", defaults={})
async def add(ctx: RunContext, params: Params, arguments: Numbers) -> ToolResult:
    """Return the sum."""
    return ToolResult({"sum": arguments.a + arguments.b})


@tool("Slow", function="slow", params=Params, arguments=Query, timeout_s=0.02, description="Never ends.")
async def slow(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Exceed the time limit."""
    await asyncio.sleep(60)
    return ToolResult("too late")


@tool("Broken", function="broken", params=Params, arguments=Query, description="Fails.")
async def broken(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Fail."""
    raise ServiceError("The atlas is closed today.")


@tool("Draw", function="draw", params=Params, arguments=Query, description="Draw something.")
async def draw(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Return an image file and a table file."""
    name = arguments.query
    files: JsonValue = [
        {"name": f"{name}.png", "url": f"/files/{name}.png", "mime_type": "image/png", "size": 1},
        {"name": f"{name}.csv", "url": f"/files/{name}.csv", "mime_type": "text/csv", "size": 1},
    ]
    return ToolResult("drawn", {"_ARTIFACTS": files})


def with_test_tools(catalog: Registry) -> Registry:
    """Add these tools to a catalog."""
    for spec in (look_up, add, slow, broken, draw):
        catalog.add(spec)
    return catalog
