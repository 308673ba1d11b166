import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from ragflow_lg.base.errors import ComponentError, SettingsError
from ragflow_lg.component.function_tool import function_tool, spec_of_function
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.policies import catalog_with, entry
from tests.fakes.run import bind, run_component
from tests.fakes.services import Reply
from tests.harness.rows import each_row


def add_days(date: str, days: int = 1, *, unit: Literal["d", "w"] = "d", schema: list[str] | None = None) -> str:
    """Add days to a date,
    or weeks.

    More about it.

    Args:
        date: as YYYY-MM-DD.
        days (int): how many,
            as a whole number.
        schema: nothing.

    Returns:
        unit: the date.
    """
    return f"{date}+{days}{unit}{schema or ''}"


async def call_tool(function: Callable[..., Any], arguments: Any, **more: Any) -> str:
    replies = [tool_calls(("Tool_0", arguments)), Reply("ok")]
    played = await play_agent(replies, {"tools": [entry("Tool")]}, catalog=catalog_with(Tool=function), **more)
    assert played.run.status == "succeeded", played.run.error
    return played.tool_results[0]


async def test_a_model_sees_signature_and_docstring() -> None:
    catalog = catalog_with(AddDays=add_days)
    played = await play_agent([Reply("hi")], {"tools": [entry("AddDays")]}, catalog=catalog)
    (schema,) = played.model.requests[0][1].tools
    assert (schema.name, schema.description) == ("AddDays_0", "Add days to a date, or weeks.")
    properties = schema.parameters["properties"]
    texts = {"date": "as YYYY-MM-DD.", "days": "how many, as a whole number.", "unit": None, "schema": "nothing."}
    assert {name: about.get("description") for name, about in properties.items()} == texts
    assert schema.parameters["required"] == ["date"]
    assert properties["unit"]["enum"] == ["d", "w"]


@each_row(
    ("arguments", "expected"),
    [
        ({"date": "x"}, "x+1d"),
        ({"date": "x", "days": "3", "unit": "w", "unknown": 1, "schema": ["y"]}, "x+3w['y']"),
        ({"days": 3}, "Invalid arguments: date: Field required."),
        ({"date": "x", "unit": "m"}, "Invalid arguments: unit: "),
        ({"argument_0": "x"}, "Invalid arguments: date: Field required."),
    ],
)
async def test_arguments_are_validated_against_the_signature(arguments: Any, expected: str) -> None:
    assert expected in await call_tool(add_days, arguments)


class Point(BaseModel):
    x: int
    label: Annotated[str, Field(max_length=3)] = "p"


@dataclass
class Pair:
    first: Point
    second: tuple[int, ...]


async def test_structured_arguments_and_results() -> None:
    async def shift(point: Point, by: int) -> Pair:
        await asyncio.sleep(0)
        return Pair(Point(x=point.x + by), (1, 2))

    result = await call_tool(shift, {"point": {"x": 1}, "by": 2})
    assert result == '{"first": {"x": 3, "label": "p"}, "second": [1, 2]}'
    assert "point.label" in await call_tool(shift, {"point": {"x": 1, "label": "long"}, "by": 2})


@each_row(
    ("error", "expected"),
    [
        (KeyError("x"), "Tool failed: KeyError: 'x'"),
        (ValueError("line\n  Traceback (most recent call last)\n" + "x" * 9999), "Tool failed: ValueError: line Trace"),
        (ComponentError("Ask for less."), "Ask for less."),
        (SystemExit(1), "Tool failed: SystemExit: 1"),
        (asyncio.CancelledError(), "Tool failed: CancelledError"),
        (StopIteration(3), "Tool failed: "),
    ],
)
async def test_whatever_a_function_raises_is_one_clean_line(error: BaseException, expected: str) -> None:
    def fail() -> str:
        raise error

    async def fail_later() -> str:
        await asyncio.sleep(0)
        raise error

    for function in (fail, fail_later):
        message = await call_tool(function, {})
        assert message.startswith(expected)
        assert "\n" not in message
        assert len(message) < 700
        assert __file__ not in message


async def test_other_results_become_text_and_iterators_and_endless_recursion_are_errors() -> None:
    def recurse(n: int = 0) -> int:
        return recurse(n + 1)

    assert "returned an iterator" in await call_tool(lambda: iter(range(10**12)), {})
    assert await call_tool(lambda: None, {}) == ""
    assert await call_tool(lambda: object, {}) == "<class 'object'>"
    assert "RecursionError" in await call_tool(recurse, {})


async def test_a_function_that_takes_too_long_is_abandoned() -> None:
    is_over = threading.Event()

    @function_tool(timeout_s=0.05)
    def wait() -> None:
        is_over.wait(60)

    assert "returned no result within 0.05 s" in await call_tool(wait, {})
    assert not is_over.is_set()
    is_over.set()


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def untyped(a: int) -> None: ...


del untyped.__annotations__["a"]


def variadic(*numbers: int) -> None: ...


def positional(number: int, /) -> None: ...


def foreign(module: Callable[[int], int]) -> None: ...


def unresolved(a: int) -> None: ...


unresolved.__annotations__["a"] = "Nowhere"


@each_row(
    ("function", "expected"),
    [
        (generator, "generator"), (async_generator, "generator"), (untyped, "'a' of the tool 'T' has no type"),
        (variadic, r"\*numbers"), (positional, "only named arguments"), (foreign, "no JSON schema"),
        (unresolved, "Nowhere"), (3, "is not a function"), (Point, "is not a function"),
    ],
)  # fmt: skip
def test_an_unsuitable_function_is_rejected_by_name(function: Any, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected) as caught:
        spec_of_function("T", function)
    assert "'T'" in str(caught.value)


async def test_as_a_node_a_function_gets_arguments_of_the_canvas() -> None:
    spec = spec_of_function("AddDays", add_days)
    params = {"arguments": {"date": "{sys.query}", "days": "{a@n}"}}
    result = await run_component(spec, params, globals={"sys.query": "D"}, outputs={"a": {"n": 4}})
    assert (result.error, result.outputs) == (None, {"result": "D+4d"})
    wrong = await run_component(spec, {"arguments": {}})
    assert wrong.error == "date: Field required."


def test_a_decorated_function_stays_callable() -> None:
    @function_tool(runs_once=True, timeout_s=3, description="Say it")
    def say(text: str) -> str:
        return text

    spec = spec_of_function("Say", say)
    assert say("x") == "x"
    assert (spec.effects, spec.retries) == ("writes", False)
    assert (spec.limit_s(spec.params()), spec.description) == (3, "Say it.")


def test_unknown_arguments_are_reported() -> None:
    spec = spec_of_function("Later", add_days)

    assert [*spec.lint(bind(spec, {"arguments": {"date": "{sys.query}", "unit": "w"}}))] == []
    (finding,) = spec.lint(bind(spec, {"arguments": {"dat": "D"}}))
    assert (finding.code, finding.path) == ("params-unknown", ("arguments", "dat"))
    assert finding.message == "Later has no argument 'dat'; it has date, days, unit, schema."
