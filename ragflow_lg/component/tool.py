"""The decorator for tools: components that canvases use as nodes and models call as functions.

A tool is one file with a params model (set by the canvas), an arguments model (set by the model, or by the canvas
through parameters with the same names), and one function::

    class Arguments(BaseModel):
        query: QueryText = Field("", description="What to look for.")

    @tool("Wikipedia", function="wikipedia_search", params=Params, arguments=Arguments, description="Search
        Wikipedia.")
    async def wikipedia(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
        ...

The function is not called without a query. `ragflow_lg.component.service_client` reads the responses from its service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model
from pydantic_core import PydanticCustomError
from typing_extensions import Unpack

from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext, SharedOptions, translate_once
from ragflow_lg.component.spec import (
    ArgumentOrValue,
    ComponentOutputs,
    ComponentParams,
    ComponentSpec,
    ToolResult,
    ToolRules,
    ToolService,
)
from ragflow_lg.dsl.variable_references import parse_template
from ragflow_lg.services.references import build_chunks, knowledge_text

P = TypeVar("P", bound=ComponentParams)
A = TypeVar("A", bound=BaseModel)

NOTHING_FOUND = ToolResult("", {"formalized_content": ""})
"""The result of a search without a query."""

SERVICE_S = 12.0
"""The limit of a call to a service, as RAGFlow's ``COMPONENT_EXEC_TIMEOUT`` for tools."""

NO_REPORT = ToolResult("", {"report": ""})
"""The result of a report without a query."""


def _number_as_text(value: Any) -> Any:
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


QueryText: TypeAlias = Annotated[str, BeforeValidator(_number_as_text)]
"""A search query; a number becomes text, null becomes ``""``."""


class Query(BaseModel):
    """The search query."""

    query: QueryText = Field("", description="Search keywords, most important first.")


def query_argument(description: str) -> type[Query]:
    """Return the arguments of a tool that takes only a query."""
    query: Any = (QueryText, Field("", description=description))
    return create_model("Query", __base__=Query, query=query)


def split_list(value: Any) -> Any:
    """Split a list written as text, either comma-separated or JSON."""
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            with suppress(ForeignJsonError):
                return parse_foreign_json(value)
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


class TextOutputs(ComponentOutputs):
    """The output of a tool that returns text."""

    formalized_content: str = ""


class SearchOutputs(TextOutputs):
    """The outputs of a search: its results as shown to a model, and in their original form as ``json``."""


class ReportOutputs(ComponentOutputs):
    """The output of a tool that returns a report."""

    report: str = ""


def build_search_result(
    rows: Sequence[dict[str, Any]], read_row: Callable[[dict[str, Any]], tuple[str, str, str, float]]
) -> ToolResult:
    """Build a search result: the text of its chunks, and its rows as the output ``json``.

    ``read_row`` returns the title, URL, content and score of a row.
    """
    chunks = build_chunks(map(read_row, rows))
    text = knowledge_text(chunks)
    return ToolResult(text, {"formalized_content": text, "json": cast("JsonValue", rows)}, chunks)


def build_text_result(text: str) -> ToolResult:
    """Build the result of a tool that returns text."""
    return ToolResult(text, {"formalized_content": text})


def build_report(text: str) -> ToolResult:
    """Build the result of a tool that returns a report."""
    return ToolResult(text, {"report": text})


def tool(
    name: str,
    *,
    function: str,
    params: type[P],
    arguments: type[A],
    description: str,
    outputs: type[ComponentOutputs] = SearchOutputs,
    defaults: Mapping[str, JsonValue] | None = None,
    needs: str = "query",
    blank: ToolResult | Callable[[P], ToolResult] = NOTHING_FOUND,
    read_name: Callable[[P], str] = lambda params: "",
    label: str | None = None,
    source: str = "",
    service: ToolService | None = None,
    **options: Unpack[SharedOptions[P]],
) -> Callable[[Callable[[RunContext, P, A], Awaitable[ToolResult]]], ComponentSpec[RunContext, P]]:
    """Return a decorator that builds a tool. In a node, its arguments are parameters with the given ``defaults``.

    If the argument ``needs`` is missing or blank, the function is not called: a node's result is then ``blank``, and a
    model reads what is missing (with ``old_values``, ``blank``). ``read_name`` returns the function name if the canvas
    sets one. ``service`` is the service that it calls, whose key is then a requirement. ``label`` is a prefix of error
    messages for the model; by default, it is the name if there is a service. ``options`` are additional fields of
    `ragflow_lg.component.spec.ComponentSpec`; with the effects ``writes``, no call ever starts twice.
    """
    _set_defaults(options, outputs, service)
    needed, canvas_arguments = _split_arguments(arguments, needs)
    prefix = label if label is not None else name if service is not None else ""
    params_type = _with_arguments(name, params, arguments, {"query": "{sys.query}"} if defaults is None else defaults)

    def decorate(call: Callable[[RunContext, P, A], Awaitable[ToolResult]]) -> ComponentSpec[RunContext, P]:
        find = _unless_blank(call, needed, blank)

        async def call_for_model(ctx: RunContext, node_params: P, values: A) -> ToolResult:
            if _lacks(values, needed) and not ctx.compatibility.old_values:
                raise _missing_argument(needed)
            return await find(ctx, node_params, values)

        rules = ToolRules(function, arguments, call_for_model, needed, canvas_arguments, prefix, read_name, service)

        async def run(ctx: RunContext, node_params: P) -> ComponentOutputs:
            values = cast("A", _node_arguments(ctx, rules, node_params))
            result = await find(ctx, node_params, values)
            ctx.cite(result.chunks, result.documents)
            return outputs.model_validate(dict(result.outputs))

        run.__doc__ = call.__doc__
        return ComponentSpec(
            name=name,
            kind="plain",
            params=params_type,
            outputs=outputs,
            run=run,
            description=description,
            source=source,
            tool=rules,
            **cast("Any", options),
        )

    return decorate


def _unless_blank(
    call: Callable[[RunContext, P, A], Awaitable[ToolResult]],
    needed: str,
    blank: ToolResult | Callable[[P], ToolResult],
) -> Callable[[RunContext, P, A], Awaitable[ToolResult]]:
    """Return a function that makes the call only with the argument that it needs."""

    async def find(ctx: RunContext, node_params: P, values: A) -> ToolResult:
        if _lacks(values, needed):
            return blank(node_params) if callable(blank) else blank
        return await call(ctx, node_params, values)

    return find


def _set_defaults(options: SharedOptions[P], outputs: type[ComponentOutputs], service: ToolService | None) -> None:
    """Set the options that are the same for most tools."""
    options.setdefault("shows_default", True)
    translate_once(options)
    options.setdefault("retries", options.get("effects") != "writes")
    if outputs is SearchOutputs:
        options.setdefault("output_names", lambda params: ("json",))
    if service is not None:
        options.setdefault("timeout_s", SERVICE_S)
        options.setdefault("requires", lambda params: service.required_key(getattr(params, service.key_param, "")))


def _split_arguments(arguments: type[BaseModel], needs: str) -> tuple[str, tuple[str, ...]]:
    """Return the argument that a tool needs, or ``""``, and the other ones."""
    needed = needs if needs in arguments.model_fields else ""
    return needed, tuple(field for field in arguments.model_fields if field != needed)


def _node_arguments(ctx: RunContext, rules: ToolRules[RunContext, P], params: P) -> BaseModel:
    """Return the arguments of a node's call, which are its inputs."""
    try:
        given = {rules.needs: ctx.resolve(getattr(params, rules.needs))} if rules.needs else {}
        arguments = build_arguments(ctx, rules, params, given)
        ctx.report_inputs(arguments.model_dump(mode="json"))
        return arguments
    except ValidationError as error:
        raise ComponentError(describe_validation_error(error), node=ctx.node.id) from None


def build_arguments(
    ctx: RunContext, rules: ToolRules[RunContext, P], params: P, given: Mapping[str, JsonValue]
) -> BaseModel:
    """Build the arguments for a call from the given values; the canvas's values replace missing ones.

    Raises:
        ValidationError: if they are invalid.
    """
    present = {name: value for name, value in given.items() if value is not None}
    values = {name: ctx.resolve(getattr(params, name, None)) for name in rules.canvas_arguments if name not in present}
    defaults = {name: value for name, value in values.items() if value is not None}
    return rules.arguments.model_validate({**defaults, **present})


def _with_arguments(
    name: str, params: type[P], arguments: type[BaseModel], defaults: Mapping[str, JsonValue]
) -> type[P]:
    """Return the params of a node: the tool's own params and its arguments, which may be references."""

    def default_of(field: str) -> Any:
        value = defaults.get(field)
        return parse_template(value) if isinstance(value, str) else value

    fields: dict[str, Any] = {
        field: (ArgumentOrValue, Field(default_factory=partial(default_of, field)))
        for field in arguments.model_fields
        if field not in params.model_fields
    }
    model: Any = create_model(f"{name}Params", __base__=params, __doc__=params.__doc__, **fields)
    return model


def _is_blank(value: JsonValue) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_blank(item) for item in cast("Sequence[Any]", value))
    return value is None or (isinstance(value, str) and not value.strip())


def _lacks(values: BaseModel, needed: str) -> bool:
    return bool(needed) and _is_blank(getattr(values, needed))


def _missing_argument(argument: str) -> ValidationError:
    """Return the error of a model's call without the argument that the tool needs."""
    problem = PydanticCustomError("missing", "This argument is required and must not be blank")
    return ValidationError.from_exception_data("Arguments", [{"type": problem, "loc": (argument,), "input": None}])


def describe_validation_error(error: ValidationError) -> str:
    """Describe the problems with a call's arguments."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return " ".join(f"{'.'.join(map(str, p['loc'])) or 'arguments'}: {p['msg']}." for p in problems)
