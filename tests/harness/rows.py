"""Tests of a table: one test for all rows, whose failure names each row that is wrong."""

import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

_FAILURES = (Exception, pytest.fail.Exception)
_NAME_CHARS = 300
_FOLDER = Path(__file__).parents[1] / "fixtures" / "rows"


def read_rows(name: str) -> Any:
    """Return a table that is too long for its test: the file of this name in ``tests/fixtures/rows``."""
    return json.loads((_FOLDER / f"{name}.json").read_bytes())


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that calls a test with each row, as ``pytest.mark.parametrize`` does, but in one case.

    All rows are tried. Fixtures are shared by them.
    """
    words = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    table = [(row, dict(zip(words, row if len(words) > 1 else [row], strict=True))) for row in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        async def run_async(*instance: Any, **fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row, values in table:
                try:
                    await test(*instance, **values, **fixtures)
                except _FAILURES as error:
                    failures.append(_named(error, row))
            _raise_all(failures)

        def run(*instance: Any, **fixtures: Any) -> None:
            failures: list[BaseException] = []
            for row, values in table:
                try:
                    test(*instance, **values, **fixtures)
                except _FAILURES as error:
                    failures.append(_named(error, row))
            _raise_all(failures)

        wrapper: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in words]
        wrapper.__signature__ = signature.replace(parameters=kept)
        wrapper.__name__, wrapper.__doc__, wrapper.__module__ = test.__name__, test.__doc__, test.__module__
        wrapper.pytestmark = list(getattr(test, "pytestmark", []))
        return wrapper

    return decorate


def _named(error: BaseException, row: object) -> BaseException:
    if str(error).startswith("Timeout"):  # of the whole test
        raise error
    error.add_note(f"Row: {repr(row)[:_NAME_CHARS]}")
    return error


def _raise_all(failures: list[BaseException]) -> None:
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} rows are wrong.", failures)
