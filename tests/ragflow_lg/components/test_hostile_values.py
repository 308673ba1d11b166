"""Values and parameters that would stop the event loop for seconds, or take gigabytes, if their work were unlimited."""

import asyncio
import gc
import json
import resource
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.catalog import load_catalog
from ragflow_lg.components import data_operations, string_transform
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.services import Services
from tests.fakes.canvas import canvas, node
from tests.fakes.regions import play_run
from tests.fakes.run import run_component
from tests.fakes.services import fake_services

LATE_S = 1.0
"""For how long the event loop may compute. The attacks below kept it busy for 2 s to minutes."""

MEMORY_BYTES = 600 * 1024**2

SPECS = load_catalog()
BIG_MAPS = [{f"k{i}": "v"} for i in range(20_000)]
FOUR_MB = "a" * 4_000_000
DOWNLOADS = json.dumps([{"doc_id": str(i), "filename": "a", "mime_type": "b"} for i in range(5_000)])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services() -> AsyncGenerator[Services]:
    pool = WorkerPool(size=2)
    await pool.start()
    yield replace(fake_services(), workers=pool)
    await pool.aclose()


def operation(name: str, **params: Any) -> tuple[str, dict[str, Any]]:
    return "DataOperations", {"query": ["env.v"], "operations": name, **params}


MANY_REFERENCES = "".join(f"{{env.v.{i}}}" for i in range(200))
LONG_DELIMITERS = {"split_ref": "env.v", "delimiters": ["a" * 200_000 + "b", "c"]}
PARTS = [{"group_name": "g", "variables": [f"env.v.{i % 9}.x" for i in range(3_000)]}]
RULE = {"key": "k", "operator": "contains", "value": "a" * 500 + "b"}
ATTACKS: dict[str, tuple[tuple[str, dict[str, Any]], Any, str]] = {
    "split at two long delimiters": (
        ("StringTransform", LONG_DELIMITERS),
        "a" * 1_000_000,
        "Splitting the text did not finish within 1.5 s",
    ),
    "merge values in many spellings": (
        ("StringTransform", {"method": "merge", "script": "{% if 0 %}" + MANY_REFERENCES + "{% endif %}"}),
        [FOUR_MB] * 200,
        "The texts of the node exceed",
    ),
    "update many maps with many keys": (
        operation("append_or_update", updates=[{"key": str(i), "value": 1} for i in range(5_000)]),
        BIG_MAPS,
        "The updated maps would have more than",
    ),
    "rename many keys in many maps": (
        operation("rename_keys", rename_keys=[{"old_key": f"x{i}", "new_key": "y"} for i in range(20_000)]),
        BIG_MAPS,
        "More than 1,000,000 keys would be renamed",
    ),
    "filter many maps by a long text": (
        operation("filter_values", filter_values=[RULE] * 3_000),
        [{"k": "a" * 999 + "b"} for _ in range(5_000)],
        "Filtering the maps did not finish within 1.5 s",
    ),
    "fill in a long text many times": (
        operation("append_or_update", updates=[{"key": str(i), "value": "x{env.v}"} for i in range(2_000)]),
        FOUR_MB,
        "The texts of the node exceed",
    ),
    "parse formatted strings": (operation("literal_eval"), [{"a": "[" + 'f"{a}",' * 14_000 + "]"}], ""),
    "sort maps by many keys": (
        ("ListOperations", {"query": "env.v", "operations": "sort", "sort_by": [f"k{i}" for i in range(20_000)]}),
        BIG_MAPS[:5_000],
        "The list has too many items to sort them by 20,000 keys",
    ),
    "drop duplicates": (
        ("ListOperations", {"query": "env.v", "operations": "drop_duplicates"}),
        [{"a": [i, i, i, i]} for i in range(15_000)],
        "",
    ),
    "read parts of JSON texts": (
        ("VariableAggregator", {"groups": PARTS}),
        ["[" + "1," * 500_000 + f"{i}]" for i in range(9)],
        "The node reads parts of a JSON text that has more than",
    ),
    "show downloads many times": (("Message", {"content": "{env.v}" * 2_000}), DOWNLOADS, ""),
    "show many tags": (("Message", {"content": "{env.v}"}), "<think></think>" * 60_000, ""),
    "show many pieces after a long one": (
        ("Message", {"content": "{env.v.0}" + "{env.v.1}." * 9_000}),
        [FOUR_MB, "b"],
        "",
    ),
    "fill in a header many times": (
        ("Invoke", {"url": "http://x.test", "headers": {"a": "{env.v}" * 2_000}}),
        FOUR_MB,
        "The text would exceed",
    ),
    "ask with a prompt of a long text many times": (
        ("LLM", {"llm_id": "m", "sys_prompt": "{env.v}" * 2_000}),
        FOUR_MB,
        "The text would exceed",
    ),
}


@pytest.fixture(scope="module")
def frozen_heap() -> Iterator[None]:
    """Keep the objects of earlier tests out of garbage collections, which would take most of a second of each test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_event_loop_stays_responsive_and_the_memory_bounded(
    attack: str, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_operations.filter_maps, "seconds", 1.5)
    monkeypatch.setattr(string_transform.split, "seconds", 1.5)
    (name, params), value, error = ATTACKS[attack]
    spec = SPECS.get(name)
    assert spec is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with asyncio.timeout(120), measure_lateness() as lateness:
        result = await run_component(spec, params, globals={"env.v": value}, services=services)

    assert error in (result.error or ""), result.error
    assert bool(result.error) == bool(error), result.error
    assert max(lateness) < LATE_S
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY_BYTES


@asynccontextmanager
async def measure_lateness() -> AsyncGenerator[list[float]]:
    """Measure during the block for how long the event loop computes, in seconds of processor time."""
    lateness: list[float] = []

    async def measure() -> None:
        while True:
            begin = time.thread_time()
            await asyncio.sleep(0.01)
            lateness.append(time.thread_time() - begin)

    task = asyncio.create_task(measure())
    await asyncio.sleep(0)
    yield lateness
    await asyncio.sleep(0.02)
    task.cancel()


async def test_cancelling_a_run_kills_the_worker() -> None:
    pool = WorkerPool(size=2)
    await pool.start()
    split = node("StringTransform", {**LONG_DELIMITERS, "split_ref": "sys.query"})
    runner = Runner(compile_canvas(canvas({"s": split}), SPECS), replace(fake_services(), workers=pool))
    run = runner.start("s", {"query": "a" * 1_000_000})
    asyncio.get_running_loop().call_later(1.0, run.cancel)
    async with asyncio.timeout(60):
        await play_run(run)

    assert run.status == "cancelled"
    assert len([process for process in pool.processes if process.is_usable]) == 1
    await pool.aclose()
