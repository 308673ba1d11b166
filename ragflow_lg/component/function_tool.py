"""A plain Python function as a tool: its arguments from its signature, its description from its docstring.

An installed package names it under the entry point group ``ragflow_lg.tools``; a canvas uses it by that name, among
the ``tools`` of an Agent or as a node with ``arguments``::

    def add_days(date: str, days: int = 1) -> str:
        \"\"\"Add days to a date.

Args:
            date: as YYYY-MM-DD.
            days: how many.
        \"\"\"

`function_tool` sets what a signature cannot say.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from msgspec import Struct
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from ragflow_lg.base.daemon_threads import DaemonThreads
from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, RagflowLgError, SettingsError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    ComponentSpec,
    TemplateOrValue,
    ToolResult,
    ToolRules,
)
from ragflow_lg.component.tool import describe_validation_error

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["function_tool", "spec_of_function"]

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
MAX_THREADS = 32
"""How many functions that are not ``async`` may run at the same time; further ones wait within their limit."""

MAX_ERROR_CHARS = 500
_THREADS = DaemonThreads(MAX_THREADS, "ragflow-lg-tool")
_MARK = "__ragflow_lg_tool__"
_SECTION = re.compile(r"^(Args|Arguments|Parameters):\s*$", re.MULTILINE)
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


class _Options(Struct, frozen=True):
    runs_once: bool = False
    timeout_s: float = 60.0
    description: str = ""


class Params(ComponentParams):
    """Parameters of a function."""

    arguments: dict[str, TemplateOrValue] = Field(default_factory=dict[str, Any])
    """As a node: what the function is called with. As a tool the model gives it."""


class Outputs(ComponentOutputs):
    """What the function gave."""

    result: JsonValue = None


def function_tool(*, runs_once: bool = False, timeout_s: float = 60.0, description: str = "") -> Callable[[F], F]:
    """Say of a function what its signature cannot; it stays as it is otherwise.

    ``runs_once``: a call may never be begun twice. ``timeout_s``: how long a call may take. ``description``: what a
    model is told, in place of the docstring.
    """

    def decorate(function: F) -> F:
        setattr(function, _MARK, _Options(runs_once, timeout_s, description))
        return function

    return decorate


def spec_of_function(name: str, function: Callable[..., Any]) -> ComponentSpec[RunContext, Params]:
    """Make the component of a function.

    Raises:
        SettingsError: if it cannot be one; the text says why.
    """
    options: _Options = getattr(function, _MARK, _Options())
    documented, described = _docstring(function)
    arguments = _arguments(name, function, described)

    def lint(params: Params) -> Iterable[Finding]:
        known = [field.alias or key for key, field in arguments.model_fields.items()]
        for given in params.arguments:
            if given not in known:
                told = f"{name} has no argument {given!r:.80}; it has {', '.join(known) or 'none'}."
                yield Finding("params-unknown", "warning", ("arguments", given), told)

    async def call(ctx: RunContext, params: Params, asked: BaseModel) -> ToolResult:
        value = await _called(name, function, asked)
        return ToolResult("" if value is None else value, {"result": value})

    async def run(ctx: RunContext, params: Params) -> Outputs:
        """Call the function with the arguments of the canvas."""
        given = {key: ctx.resolve(value) for key, value in params.arguments.items()}
        try:
            asked = arguments.model_validate({key: value for key, value in given.items() if value is not None})
        except ValidationError as error:
            raise ComponentError(describe_validation_error(error), node=ctx.node.id) from None
        return Outputs(result=await _called(name, function, asked))

    description = options.description or documented or f"Call {name}."
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
        runs_once=options.runs_once,
        lint=lint,
        tool=ToolRules(name, arguments, call),
    )


def _arguments(name: str, function: Callable[..., Any], described: Mapping[str, str]) -> type[BaseModel]:
    """Make the model of a function's arguments. Fields bear numbers, so that no name of an argument is in the way."""
    if not callable(function) or inspect.isclass(function):
        raise SettingsError(f"The tool {name!r} is no function.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SettingsError(f"The tool {name!r} is a generator; let it return a list.")
    try:
        signature, hints = inspect.signature(function), get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise SettingsError(f"The signature of the tool {name!r} cannot be read: {error}.") from error
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SettingsError(f"The tool {name!r} takes {parameter}; only arguments with a name can be given.")
        if parameter.name not in hints:
            raise SettingsError(f"The argument {parameter.name!r} of the tool {name!r} has no type.")
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        about = Field(default, alias=parameter.name, description=described.get(parameter.name))
        fields[f"argument_{number}"] = (hints[parameter.name], about)
    try:
        model = create_model(f"{name}Arguments", **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"A type in the signature of the tool {name!r} has no JSON schema: {reason}") from error
    return model


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Give the first paragraph of a docstring, and what it says of each argument (Google's style)."""
    text = inspect.getdoc(function) or ""
    first = " ".join(text.partition("\n\n")[0].split())
    section = _SECTION.search(text)
    if section is None:
        return first, {}
    if section.start() < len(text.partition("\n\n")[0]):
        first = " ".join(text[: section.start()].split())
    described: dict[str, str] = {}
    current, depth = "", -1
    for line in text[section.end() :].splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        found = _ARGUMENT.match(line.strip())
        if found and (depth < 0 or indent <= depth):
            current, depth = found[1], indent
            described[current] = found[2]
        elif current and line.strip():
            described[current] = f"{described[current]} {line.strip()}".strip()
    return first, described


async def _called(name: str, function: Callable[..., Any], asked: BaseModel) -> JsonValue:
    """Call a function; whatever it does wrong is an error with a text of one line."""
    fields = type(asked).model_fields
    given = {field.alias or key: getattr(asked, key) for key, field in fields.items() if key in asked.model_fields_set}
    work = partial(_guarded, name, partial(function, **given))
    if not inspect.iscoroutinefunction(function):
        value = await _THREADS.run(work)
        return await _awaited(name, value) if inspect.isawaitable(value) else value
    return await _awaited(name, function(**given))


def _guarded(name: str, work: Callable[[], Any]) -> Any:
    try:
        value = work()
        return value if inspect.isawaitable(value) else _plain(name, value)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        raise _failure(name, error) from error


async def _awaited(name: str, value: Awaitable[Any]) -> JsonValue:
    task = asyncio.current_task()
    try:
        return _plain(name, await value)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise  # somebody ends the call
        raise _failure(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failure(name, error) from error


def _failure(name: str, error: BaseException) -> RagflowLgError:
    if isinstance(error, RagflowLgError):
        return error
    logger.info("The tool %s failed.", name, exc_info=error)
    said = " ".join(str(error).split())[:MAX_ERROR_CHARS]
    return ComponentError(f"{name} failed: {type(error).__name__}{': ' if said else ''}{said}")


def _plain(name: str, value: Any) -> JsonValue:
    """Make a result plain JSON."""
    if isinstance(value, Iterator):
        raise ComponentError(f"{name} gave an iterator; it should give a list.")
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        value = TypeAdapter(cast("Any", type(value))).dump_python(value, mode="json")
    return to_json(value)
