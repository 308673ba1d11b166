"""The decorator for tools: a component that a canvas uses as a node, and a model as a function.

A tool is one file with a params model (what the canvas sets), an arguments model (what the model gives, or the canvas
by parameters of the same names), and one function::

    class Arguments(BaseModel):
        query: str = Field("", description="What to look for.")

    @tool("Wikipedia", function="wikipedia_search", params=Params, arguments=Arguments, description="Search Wikipedia.")
    async def wikipedia(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
        ...
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError, create_model

from ragflow_lg.errors import ComponentError, ServiceError
from ragflow_lg.references import Chunk, knowledge_text
from ragflow_lg.refs import parse_template
from ragflow_lg.services import HttpResponse
from ragflow_lg.spec import ComponentOutputs, ComponentParams, ComponentSpec, TemplateOrValue, ToolResult, ToolRules
from ragflow_lg.values import JsonValue

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["SearchOutputs", "cited", "json_of", "problem_of", "tool"]

P = TypeVar("P", bound=ComponentParams)
A = TypeVar("A", bound=BaseModel)


class SearchOutputs(ComponentOutputs):
    """What a search gives: its results as a model reads them; as ``json`` also as they came."""

    formalized_content: str = ""


def _json_too(params: Any) -> tuple[str, ...]:
    return ("json",)


def cited(chunks: Sequence[Chunk], rows: JsonValue = None) -> ToolResult:
    """Give the result of a search: the text of its chunks, and its rows as the output ``json``."""
    text = knowledge_text(chunks)
    return ToolResult(text, {"formalized_content": text, **({} if rows is None else {"json": rows})}, chunks)


def tool(
    name: str,
    *,
    function: str,
    params: type[P],
    arguments: type[A],
    description: str,
    outputs: type[ComponentOutputs] = SearchOutputs,
    defaults: Mapping[str, JsonValue] | None = None,
    **more: Any,
) -> Callable[[Callable[[RunContext, P, A], Awaitable[ToolResult]]], ComponentSpec[P]]:
    """Make a tool. As a node its arguments are parameters; ``defaults`` are theirs where the canvas sets none.

    ``more`` are further fields of `ragflow_lg.spec.ComponentSpec`; with ``runs_once`` no call is ever begun twice.
    """
    given = {"query": "{sys.query}"} if defaults is None else defaults
    more.setdefault("retries", not more.get("runs_once"))
    if outputs is SearchOutputs:
        more.setdefault("output_names", _json_too)
    names = tuple(field for field in arguments.model_fields if field not in params.model_fields)

    def default_of(field: str) -> Any:
        value = given.get(field)
        return parse_template(value) if isinstance(value, str) else value

    fields: dict[str, Any] = {
        field: (TemplateOrValue, Field(default_factory=partial(default_of, field))) for field in names
    }
    node_params: Any = create_model(f"{name}Params", __base__=params, __doc__=params.__doc__, **fields)

    def decorate(call: Callable[[RunContext, P, A], Awaitable[ToolResult]]) -> ComponentSpec[P]:
        async def run(ctx: RunContext, given: P) -> ComponentOutputs:
            values = {field: ctx.resolve(getattr(given, field, None)) for field in arguments.model_fields}
            try:
                asked = arguments.model_validate({field: v for field, v in values.items() if v is not None})
            except ValidationError as error:
                raise ComponentError(problem_of(error), node=ctx.node.id) from None
            result = await call(ctx, given, asked)
            ctx.cite(result.chunks)
            return outputs.model_validate(dict(result.outputs))

        run.__doc__ = call.__doc__
        return ComponentSpec(
            name=name,
            kind="plain",
            params=node_params,
            outputs=outputs,
            run=run,
            description=description,
            source=more.pop("source", ""),
            tool=ToolRules(function, arguments, call),
            **more,
        )

    return decorate


def json_of(response: HttpResponse, service: str) -> dict[str, Any]:
    """Read the JSON object that a service answered.

    Raises:
        ServiceError: if it refused, or answered something else.
    """
    try:
        value: Any = json.loads(response.text)
    except (ValueError, RecursionError):
        value = None
    if response.status >= 400 or not isinstance(value, dict):
        said = " ".join(response.text.split())[:200]
        raise ServiceError(f"{service} answered {response.status}: {said}", is_retryable=response.status >= 500)
    return cast("dict[str, Any]", value)


def problem_of(error: ValidationError) -> str:
    """Say what is wrong with arguments."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return " ".join(f"{'.'.join(map(str, p['loc'])) or 'arguments'}: {p['msg']}." for p in problems)
