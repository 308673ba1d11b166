"""Damaged canvases: each one runs, fails as a run, or is refused with diagnostics."""

import asyncio
import json
import os
import random
from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError, RunError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.runs.runner import Runner
from tests.fakes.services import fake_services
from tests.harness.corpus import DemoModels
from tests.harness.damaged_canvases import EXAMPLES, damage, read_documents

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("MUTATIONS", "400"))
"""``python -m tests.campaigns fuzz-canvases`` tries more of them, with less memory."""
BATCHES = 20
LIMIT_S = 120
CATALOG = load_catalog()


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
    except AnswerError:  # Begin's form requires values
        return "refused"
    except RunError as error:
        # Only a run can detect a cycle that never ends.
        return run.status if "cycle" in str(error) else f"error: {error}"
    return run.status


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_canvas_runs_or_is_refused_with_diagnostics(batch: int) -> None:
    chance = random.Random(f"mutations {batch}")
    documents = read_documents()
    outcomes = {asyncio.run(play(damage(chance.choice(documents), chance))) for _ in range(COUNT // BATCHES)}
    assert outcomes <= {"refused", "succeeded", "failed", "waiting"}
    assert "refused" in outcomes


def test_a_truncated_file_gives_diagnostics() -> None:
    text = (EXAMPLES / "price_list.json").read_text(encoding="utf-8")
    for end in range(0, len(text) - 2, 97):
        plan, diagnostics = check_canvas(text[:end], CATALOG)
        assert plan is None
        assert diagnostics[0].code == "json-invalid"
