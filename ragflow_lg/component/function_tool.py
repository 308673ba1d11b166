"""A plain Python function as a tool: arguments from its signature, description from its docstring.

An installed package registers it in the entry point group ``ragflow_lg.tools``; a canvas uses it by that name, in
the ``tools`` of an Agent or as a node with ``arguments``::

    def add_days(date: str, days: int = 1) -> str:
        \"\"\"Add days to a date.

Args:
            date: as YYYY-MM-DD.
            days: how many.
        \"\"\"

`function_tool` sets options that a signature cannot express.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from typing import Any, TypeVar, cast, get_type_hints

from msgspec import Struct
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, RagflowLgError, SettingsError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    ComponentSpec,
    TemplateOrValue,
    ToolExample,
    ToolResult,
    ToolRules,
)
from ragflow_lg.component.tool import describe_validation_error

T = TypeVar("T")


logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
MAX_ERROR_CHARS = 500
_MARK = "__ragflow_lg_tool__"
_SECTION = re.compile(r"^(Args|Arguments|Parameters):\s*$", re.MULTILINE)
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


class ToolOptions(Struct, frozen=True):
    """What the signature of a tool cannot express; see `function_tool`."""

    runs_once: bool = False
    timeout_s: float = 60.0
    description: str = ""


class Params(ComponentParams):
    """Parameters of a function tool."""

    arguments: dict[str, TemplateOrValue] = Field(default_factory=dict[str, Any])
    """The arguments if the function is used as a node. In a tool call, the model provides them."""


class Outputs(ComponentOutputs):
    """The result of the function."""

    result: JsonValue = None


def function_tool(*, runs_once: bool = False, timeout_s: float = 60.0, description: str = "") -> Callable[[F], F]:
    """Set options that a function's signature cannot express. The function itself is unchanged.

    ``runs_once``: a call must never start twice. ``timeout_s``: maximum duration of a call. ``description``: the
    description for the model, instead of the docstring.
    """

    def decorate(function: F) -> F:
        setattr(function, _MARK, ToolOptions(runs_once, timeout_s, description))
        return function

    return decorate


def spec_of_function(name: str, function: Callable[..., Any]) -> ComponentSpec[RunContext, Params]:
    """Build a component from a function.

    Raises:
        SettingsError: if the function cannot be a tool; the message says why.
    """
    options: ToolOptions = getattr(function, _MARK, ToolOptions())
    summary, descriptions = _docstring(function)
    arguments = _arguments(name, function, descriptions)

    async def call(ctx: RunContext, params: Params, values: BaseModel) -> ToolResult:
        value = await _call_function(name, function, values)
        return ToolResult("" if value is None else value, {"result": value})

    async def run(ctx: RunContext, params: Params) -> Outputs:
        """Call the function with the arguments from the canvas."""
        resolved = {key: ctx.resolve(value) for key, value in params.arguments.items()}
        try:
            values = arguments.model_validate({key: value for key, value in resolved.items() if value is not None})
        except ValidationError as error:
            raise ComponentError(describe_validation_error(error), node=ctx.node.id) from None
        return Outputs(result=await _call_function(name, function, values))

    known = [field.alias or key for key, field in arguments.model_fields.items()]
    description = options.description or summary
    return build_tool_spec(name, description, known, run, ToolRules(name, arguments, call), options)


def build_tool_spec(
    name: str,
    description: str,
    known: Sequence[str],
    run: Callable[[RunContext, Params], Awaitable[Outputs]],
    rules: ToolRules[RunContext, Params],
    options: ToolOptions,
) -> ComponentSpec[RunContext, Params]:
    """Build the component of a tool from outside. ``known`` are the names of its arguments."""

    def lint(params: Params) -> Iterable[Finding]:
        for argument in params.arguments:
            if argument not in known:
                message = f"{name} has no argument {argument!r:.80}; it has {', '.join(known) or 'none'}."
                yield Finding("params-unknown", "warning", ("arguments", argument), message)

    fields = rules.arguments.model_fields.items()
    required: JsonValue = {field.alias or key: "{sys.query}" for key, field in fields if field.is_required()}
    description = description or f"Call {name}."
    return ComponentSpec(
        name=name,
        kind="plain",
        params=Params,
        outputs=Outputs,
        run=run,
        description=description if description.endswith(".") else f"{description}.",
        source="",
        timeout_s=options.timeout_s,
        retries=not options.runs_once,
        effects="writes" if options.runs_once else "pays",
        lint=lint,
        tool=rules,
        example=ToolExample(node_params={"arguments": required} if required else {}),
    )


def _arguments(name: str, function: Callable[..., Any], descriptions: Mapping[str, str]) -> type[BaseModel]:
    """Build the model for a function's arguments.

    Fields are numbered, so that argument names cannot conflict with pydantic's names.
    """
    if not callable(function) or inspect.isclass(function):
        raise SettingsError(f"The tool {name!r} is not a function.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SettingsError(f"The tool {name!r} is a generator; let it return a list.")
    try:
        signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise SettingsError(f"The signature of the tool {name!r} cannot be read: {error}.") from error
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SettingsError(f"The tool {name!r} accepts {parameter}; only named arguments are supported.")
        if parameter.name not in hints:
            raise SettingsError(f"The argument {parameter.name!r} of the tool {name!r} has no type.")
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        field = Field(default, alias=parameter.name, description=descriptions.get(parameter.name))
        fields[f"argument_{number}"] = (hints[parameter.name], field)
    try:
        model = create_model(f"{name}Arguments", **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"A type in the signature of the tool {name!r} has no JSON schema: {reason}") from error
    return model


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return a docstring's first paragraph and its argument descriptions (Google style)."""
    text = inspect.getdoc(function) or ""
    summary = " ".join(text.partition("\n\n")[0].split())
    section = _SECTION.search(text)
    if section is None:
        return summary, {}
    if section.start() < len(text.partition("\n\n")[0]):
        summary = " ".join(text[: section.start()].split())
    descriptions: dict[str, str] = {}
    current, depth = "", -1
    for line in text[section.end() :].splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        match = _ARGUMENT.match(line.strip())
        if match and (depth < 0 or indent <= depth):
            current, depth = match[1], indent
            descriptions[current] = match[2]
        elif current and line.strip():
            descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
    return summary, descriptions


async def _call_function(name: str, function: Callable[..., Any], values: BaseModel) -> JsonValue:
    """Call a function, converting any failure to an error with a one-line message."""
    fields = type(values).model_fields
    arguments = {
        field.alias or key: getattr(values, key) for key, field in fields.items() if key in values.model_fields_set
    }
    work = partial(_call_guarded, name, partial(function, **arguments))
    if not inspect.iscoroutinefunction(function):
        value = await asyncio.to_thread(work)
        return await _await_guarded(name, value) if inspect.isawaitable(value) else value
    return await _await_guarded(name, function(**arguments))


def _call_guarded(name: str, work: Callable[[], Any]) -> Any:
    try:
        value = work()
        return value if inspect.isawaitable(value) else _to_plain_json(name, value)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        raise _failure(name, error) from error


async def _await_guarded(name: str, value: Awaitable[Any]) -> JsonValue:
    task = asyncio.current_task()
    try:
        return _to_plain_json(name, await value)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise  # the call is being cancelled
        raise _failure(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failure(name, error) from error


def _failure(name: str, error: BaseException) -> RagflowLgError:
    if isinstance(error, RagflowLgError):
        return error
    logger.info("The tool %s failed.", name, exc_info=error)
    reason = " ".join(str(error).split())[:MAX_ERROR_CHARS]
    return ComponentError(f"{name} failed: {type(error).__name__}{': ' if reason else ''}{reason}")


def _to_plain_json(name: str, value: Any) -> JsonValue:
    """Convert a function's result to plain JSON."""
    if isinstance(value, Iterator):
        raise ComponentError(f"{name} returned an iterator; it should return a list.")
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        value = TypeAdapter(cast("Any", type(value))).dump_python(value, mode="json")
    return to_json(value)
