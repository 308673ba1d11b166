"""Tests of a table: one test for all rows, whose failure names each row that is wrong."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

_Row = TypeVar("_Row")
_FAILURES = (Exception, pytest.fail.Exception)


def for_each(rows: Iterable[_Row], name: Callable[[_Row], str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that calls a test, a function or a coroutine function, with each row as its first argument.

    All rows are tried. Fixtures are shared by them.
    """
    table = list(rows)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        async def run_async(**fixtures: Any) -> None:
            _raise_all([await _wait_for(test, row, name(row), fixtures) for row in table])

        def run(**fixtures: Any) -> None:
            _raise_all([_call(test, row, name(row), fixtures) for row in table])

        wrapper: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        wrapper.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        wrapper.__name__, wrapper.__doc__, wrapper.__module__ = test.__name__, test.__doc__, test.__module__
        wrapper.pytestmark = list(getattr(test, "pytestmark", []))
        return wrapper

    return decorate


async def _wait_for(test: Callable[..., Any], row: Any, name: str, fixtures: dict[str, Any]) -> BaseException | None:
    try:
        await test(row, **fixtures)
    except _FAILURES as error:
        return _named(error, name)


def _call(test: Callable[..., Any], row: Any, name: str, fixtures: dict[str, Any]) -> BaseException | None:
    try:
        test(row, **fixtures)
    except _FAILURES as error:
        return _named(error, name)


def _named(error: BaseException, name: str) -> BaseException:
    error.add_note(f"Row: {name}")
    return error


def _raise_all(errors: list[BaseException | None]) -> None:
    failures = [error for error in errors if error is not None]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(errors)} rows are wrong.", failures)
