"""Canvases that are damaged at random: with values missing, exchanged, renamed, or blown up."""

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.harness.cases import read_cases
from tests.harness.corpus import find_canvases

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FIXTURES = ROOT / "tests" / "fixtures"
MAX_CHARS = 2_000_000
"""Size of the JSON text beyond which a canvas is not blown up further."""
JUNK: list[Any] = [
    None,
    "",
    0,
    -1,
    1e308,
    True,
    [],
    {},
    [None],
    {"a": {"b": []}},
    "{sys.query}",
    "{x@y}",
    "a" * 5000,
    "\ud800",
    2**80,
]


def read_documents() -> list[Any]:
    """Return the canvases of the examples and the tests."""
    paths = [*canvas_files(EXAMPLES), *find_canvases(FIXTURES / "canvas")]
    documents: list[Any] = []
    for path in paths:
        try:
            documents.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            continue
    folders = (FIXTURES / "conformance", FIXTURES / "random_canvases")
    return documents + [case.data["dsl"] for folder in folders for case in read_cases(folder)]


def entries_of(value: Any) -> list[tuple[Any, Any]]:
    """Return the container and key of every value in a document."""
    entries: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        container: Any = stack.pop()
        is_list = isinstance(container, list)
        children: Any = enumerate(cast("list[Any]", container)) if is_list else container.items()
        for key, child in children:
            entries.append((container, key))
            if isinstance(child, dict | list):
                stack.append(child)
    return entries


def damage(document: Any, chance: random.Random) -> Any:
    """Return a copy with one to three damaged values."""
    document = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        entries = entries_of(document)
        if not entries:
            return document
        container, key = chance.choice(entries)
        other_container, other_key = chance.choice(entries)
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1:
                container[key] = chance.choice(JUNK)
            case 2:
                container[key] = copy.deepcopy(other_container[other_key])
            case 3 if isinstance(container, dict):
                container[f"{key}x"] = cast("dict[Any, Any]", container).pop(key)
            case 4:
                container[key] = [container[key], container[key]]
            case _:
                container[key] = {"value": container[key]}
    return document


def _nest(value: Any, times: int, chance: random.Random) -> Any:
    for _ in range(min(times, 300)):
        value = {"a": value} if chance.random() < 0.5 else [value]
    return value


def _repeat(value: Any, times: int, chance: random.Random) -> Any:
    return [value] * times


def _lengthen(value: Any, times: int, chance: random.Random) -> Any:
    text = value if isinstance(value, str) and value else chance.choice(("a", "{sys.query}", "{{ 1 }}", "{a@b}"))
    return text * times


def _multiply(value: Any, times: int, chance: random.Random) -> Any:
    if not isinstance(value, dict) or not value:
        return chance.choice((10**400, -1e308, 2**63))
    fields = cast("dict[str, Any]", value)
    key = chance.choice([*fields])
    return {**fields, **{f"{key}{number}": fields[key] for number in range(times)}}


_WAYS: list[Callable[[Any, int, random.Random], Any]] = [_nest, _repeat, _lengthen, _multiply]


def inflate(document: Any, chance: random.Random) -> Any:
    """Return a copy with one or two values blown up, but not the JSON text beyond `MAX_CHARS`."""
    for _ in range(chance.randint(1, 2)):
        document = copy.deepcopy(document)
        entries = entries_of(document)
        if not entries:
            return document
        container, key = chance.choice(entries)
        times = min(chance.choice((20, 300, 5000, 100_000)), MAX_CHARS // len(json.dumps(document)))
        container[key] = chance.choice(_WAYS)(container[key], times, chance)
    return json.loads(json.dumps(document))
