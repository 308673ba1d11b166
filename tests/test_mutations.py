"""Damaged and blown-up canvases: each one runs, fails as a run, can be stopped, or is refused with diagnostics."""

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import AnswerError, RagflowLgError, RunError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.runs.runner import Runner
from tests.fakes.services import fake_services
from tests.harness.corpus import AnyKnowledge, DemoModels, EmptyHttp
from tests.harness.damaged_canvases import EXAMPLES, JUNK, damage, inflate, read_documents

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("MUTATIONS", "400"))
"""``python -m tests.campaigns mutations 5000`` tries more of them."""
BATCHES = 20
LIMIT_S = 30
"""When a run is stopped, and how long it may go on then."""
BLOCKED_S = 5
"""How long nothing else may run."""
CATALOG = load_catalog()


@pytest.fixture
async def workers() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool(1)
    yield pool
    await pool.aclose()


async def play(document: Any, query: Any, workers: WorkerPool) -> str:
    plan, diagnostics = check_canvas(document, CATALOG)
    if plan is None:
        assert any(d.severity == "error" for d in diagnostics)
        assert all(d.message and d.code for d in diagnostics)
        return "refused"
    services = fake_services(models=DemoModels(), http=EmptyHttp(), knowledge=AnyKnowledge(), workers=workers)
    run = Runner(lower_plan(plan), services).start("s", {"query": query})

    async def read() -> None:
        async for frame in run:
            json.dumps(frame.data())

    reading = asyncio.create_task(read())
    if not (await asyncio.wait([reading], timeout=LIMIT_S))[0]:
        reading.cancel()
        assert (await asyncio.wait([reading], timeout=LIMIT_S))[0], "it cannot be stopped"
        return "stopped"
    error = reading.exception()
    if error is None or (isinstance(error, RunError) and "cycle" in str(error)):
        return run.status  # only a run can detect a cycle that never ends
    is_refused = isinstance(error, RagflowLgError) and query != "hello" and not isinstance(error, RunError)
    is_refused = is_refused or isinstance(error, AnswerError)  # Begin's form requires values
    return "refused" if is_refused else f"error: {error!r}"


async def measure(busy_s: list[float]) -> None:
    """Collect how much processor time the event loop spends between two beats."""
    while True:
        began = time.thread_time()
        await asyncio.sleep(0.05)
        busy_s.append(time.thread_time() - began)


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_a_damaged_canvas_runs_or_is_refused_with_diagnostics(batch: int, workers: WorkerPool) -> None:
    chance, documents, outcomes = random.Random(f"mutations {batch}"), read_documents(), set[str]()
    busy_s: list[float] = []
    beats = asyncio.create_task(measure(busy_s))
    for _ in range(COUNT // BATCHES):
        document = damage(chance.choice(documents), chance)
        document = inflate(document, chance) if chance.random() < 0.2 else document
        query = chance.choice(["hello", *JUNK[5:-1]])  # a server refuses whole numbers of more than 64 bits
        outcomes.add(await play(document, query, workers))
    await asyncio.sleep(0.1)  # for the last beat
    beats.cancel()
    assert max(busy_s) < BLOCKED_S
    assert outcomes <= {"refused", "succeeded", "failed", "waiting", "stopped"}
    assert "refused" in outcomes


def test_a_truncated_file_gives_diagnostics() -> None:
    text = (EXAMPLES / "price_list.json").read_text(encoding="utf-8")
    for end in range(0, len(text) - 2, 97):
        plan, diagnostics = check_canvas(text[:end], CATALOG)
        assert plan is None
        assert diagnostics[0].code == "json-invalid"
