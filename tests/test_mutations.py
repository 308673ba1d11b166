"""Damaged canvases: each one runs, fails as a run, or is refused with diagnostics."""

import asyncio
import copy
import json
import os
import random
from pathlib import Path
from typing import Any, cast

import pytest

from ragflow_lg.base.errors import RunError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.conftest import FIXTURES
from tests.fakes.services import fake_services
from tests.harness.corpus import DemoModels, find_canvases

COUNT = int(os.environ.get("MUTATIONS", "1000"))
BATCHES = 20
LIMIT_S = 120
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

EXAMPLES = Path(__file__).parents[1] / "examples"
CATALOG = load_catalog()


def seeds() -> list[Any]:
    paths = [*canvas_files(EXAMPLES), *find_canvases(FIXTURES / "canvas")]
    documents: list[Any] = []
    for path in paths:
        try:
            documents.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            continue
    cases = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((FIXTURES / "conformance").glob("*.json"))]
    return documents + [case["dsl"] for case in cases]


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


async def play(document: Any) -> str:
    plan, diagnostics = check_canvas(document, CATALOG)
    if plan is None:
        assert any(d.severity == "error" for d in diagnostics)
        assert all(d.message and d.code for d in diagnostics)
        return "refused"
    run = Runner(lower_plan(plan), fake_services(models=DemoModels())).start("s", {"query": "hello"})
    try:
        async with asyncio.timeout(LIMIT_S):
            async for frame in run:
                json.dumps(frame.data())
    except RunError as error:
        # Only a run can detect a cycle that never ends.
        return run.status if "cycle" in str(error) else f"error: {error}"
    return run.status


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_canvas_runs_or_is_refused_with_diagnostics(batch: int) -> None:
    chance = random.Random(f"mutations {batch}")
    documents = seeds()
    outcomes = {asyncio.run(play(damage(chance.choice(documents), chance))) for _ in range(COUNT // BATCHES)}
    assert outcomes <= {"refused", "succeeded", "failed", "waiting"}
    assert "refused" in outcomes


def test_a_truncated_file_gives_diagnostics() -> None:
    text = (EXAMPLES / "price_list.json").read_text(encoding="utf-8")
    for end in range(0, len(text) - 2, 97):
        plan, diagnostics = check_canvas(text[:end], CATALOG)
        assert plan is None
        assert diagnostics[0].code == "json-invalid"
