from __future__ import annotations

import asyncio
import sys
import time
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


async def told(function: Callable[..., Any], arguments: Any, **more: Any) -> str:
    played = await play_agent(
        [tool_calls(("Tool_0", arguments)), Reply("ok")],
        {"tools": [entry("Tool")]},
        catalog=catalog_with(Tool=function),
        **more,
    )
    assert played.run.status == "succeeded", played.run.error
    return played.tool_results[0]


async def test_a_model_sees_signature_and_docstring() -> None:
    catalog = catalog_with(AddDays=add_days)
    played = await play_agent([Reply("hi")], {"tools": [entry("AddDays")]}, catalog=catalog)
    (shown,) = played.model.requests[0][1].tools
    assert (shown.name, shown.description) == ("AddDays_0", "Add days to a date, or weeks.")
    properties = shown.parameters["properties"]
    assert {name: about.get("description") for name, about in properties.items()} == {
        "date": "as YYYY-MM-DD.",
        "days": "how many, as a whole number.",
        "unit": None,
        "schema": "nothing.",
    }
    assert shown.parameters["required"] == ["date"]
    assert properties["unit"]["enum"] == ["d", "w"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"date": "x"}, "x+1d"),
        ({"date": "x", "days": "3", "unit": "w", "unknown": 1, "schema": ["y"]}, "x+3w['y']"),
        ({"days": 3}, "Invalid arguments: date: Field required."),
        ({"date": "x", "unit": "m"}, "Invalid arguments: unit: "),
        ({"argument_0": "x"}, "Invalid arguments: date: Field required."),
    ],
)
async def test_arguments_are_held_against_the_signature(arguments: Any, says: str) -> None:
    assert says in await told(add_days, arguments)


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

    said = await told(shift, {"point": {"x": 1}, "by": 2})
    assert said == '{"first": {"x": 3, "label": "p"}, "second": [1, 2]}'
    assert "point.label" in await told(shift, {"point": {"x": 1, "label": "long"}, "by": 2})


def fails_with(error: BaseException) -> Callable[..., Any]:
    def fail() -> str:
        raise error

    return fail


def fails_later_with(error: BaseException) -> Callable[..., Any]:
    async def fail() -> str:
        await asyncio.sleep(0)
        raise error

    return fail


@pytest.mark.parametrize("made", [fails_with, fails_later_with])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("x"), "Tool failed: KeyError: 'x'"),
        (ValueError("line\n  Traceback (most recent call last)\n" + "x" * 9999), "Tool failed: ValueError: line Trace"),
        (ComponentError("Ask for less."), "Ask for less."),
        (SystemExit(1), "Tool failed: SystemExit: 1"),
        (asyncio.CancelledError(), "Tool failed: CancelledError"),
        (StopIteration(3), "Tool failed: "),
    ],
)
async def test_whatever_a_function_raises_is_one_clean_line(made: Any, error: BaseException, says: str) -> None:
    said = await told(made(error), {})
    assert said.startswith(says)
    assert "\n" not in said
    assert len(said) < 700
    assert __file__ not in said


async def test_what_is_no_json_is_a_text_and_what_never_ends_is_refused() -> None:
    def given() -> Iterator[int]:
        return iter(range(10**12))

    assert "gave an iterator" in await told(given, {})
    assert await told(lambda: None, {}) == ""
    assert await told(lambda: object, {}) == "<class 'object'>"


async def test_a_function_that_takes_too_long_is_left_behind() -> None:
    @function_tool(timeout_s=0.05)
    def sleep() -> None:
        time.sleep(0.5)

    began = time.monotonic()
    assert "returned no result within 0.05 s" in await told(sleep, {})
    assert time.monotonic() - began < 0.45


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def untyped(a) -> None:  # type: ignore[no-untyped-def]
    ...


def variadic(*numbers: int) -> None: ...


def positional(number: int, /) -> None: ...


def foreign(module: Callable[[int], int]) -> None: ...


def unresolved(a: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (generator, "generator"),
        (async_generator, "generator"),
        (untyped, "'a' of the tool 'T' has no type"),
        (variadic, r"\*numbers"),
        (positional, "only arguments with a name"),
        (foreign, "no JSON schema"),
        (unresolved, "Nowhere"),
        (3, "no function"),
        (Point, "no function"),
    ],
)
def test_what_can_be_no_tool_is_refused_by_name(function: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        spec_of_function("T", function)
    assert "'T'" in str(caught.value)


async def test_as_a_node_it_takes_arguments_of_the_canvas() -> None:
    spec = spec_of_function("AddDays", add_days)
    result = await run_component(
        spec,
        {"arguments": {"date": "{sys.query}", "days": "{a@n}"}},
        globals={"sys.query": "D"},
        outputs={"a": {"n": 4}},
    )
    assert (result.error, result.outputs) == (None, {"result": "D+4d"})
    wrong = await run_component(spec, {"arguments": {}})
    assert wrong.error == "date: Field required."


def test_options_stand_at_the_function_which_stays_one() -> None:
    @function_tool(runs_once=True, timeout_s=3, description="Say it")
    def say(text: str) -> str:
        return text

    spec = spec_of_function("Say", say)
    assert say("x") == "x"
    assert (spec.runs_once, spec.retries, spec.limit_s(spec.params()), spec.description) == (True, False, 3, "Say it.")


def test_arguments_that_it_does_not_have_are_told() -> None:
    spec = spec_of_function("Later", add_days)

    def told_of(arguments: dict[str, Any]) -> list[tuple[str, tuple[str | int, ...], str]]:
        return [(f.code, f.path, f.message) for f in spec.lint(bind(spec, {"arguments": arguments}))]

    assert told_of({"date": "{sys.query}", "unit": "w"}) == []
    assert told_of({"dat": "D"}) == [
        ("params-unknown", ("arguments", "dat"), "Later has no argument 'dat'; it has date, days, unit, schema.")
    ]


async def test_an_endless_recursion_is_an_error() -> None:
    def recurse(n: int = 0) -> int:
        return recurse(n + 1)

    assert "RecursionError" in await told(recurse, {})
    assert sys.getrecursionlimit() > 0
