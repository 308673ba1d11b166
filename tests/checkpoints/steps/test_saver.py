import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import ProgressCallbacks
from langgraph.types import Interrupt, Send

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.steps.thread_tables import CheckpointKey, checkpoint_key
from ragflow_lg.services.sessions import hold_lease
from tests.stores import OpenStore, checkpoint_config, put_checkpoint, put_outputs, read_checkpoint, sqlite_file

HOSTILE: list[Any] = [
    {"lc": 2, "type": "constructor", "id": ["pathlib", "Path"], "kwargs": {"a": 1}},
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "documents", "Document"],
        "kwargs": {"page_content": "x"},
    },
    {"__send__": True, "node": "n", "arg": {}},
    {"__interrupt__": True, "value": 1, "id": "0" * 32},
    {"__overwrite__": [1]},
    {"type": "__overwrite__", "value": 1},
    {"__bytes__": "AAAA"},
    {"__delta_snapshot__": 1},
    {"__pregel_tasks": []},
    "\x01" + "0" * 32 + "\x01",
    {"\x01" + "0" * 32 + "\x01": "\\u0001"},
    "j" * 5000,
]

EXACT: list[Any] = [
    None, True, 0, -1, 2**53 + 1, -(2**63), 1.5, 1e300, "", "ü 客\u2028\x00", [], {}, [[], [None]],
    {"": {"a.b": [1, "2"]}},
]  # fmt: skip


THREAD = checkpoint_config("t")


async def write_and_read(reopen: OpenStore, values: Mapping[str, Any]) -> list[CheckpointTuple]:
    """Store each value in a session, and metadata of its own, with one saver; read them with another."""
    async with reopen() as store:
        for thread, value in values.items():
            metadata: Any = {"source": "loop", "step": 1, "user": value.get("turn")}
            await put_checkpoint(store.saver, checkpoint_config(thread), value, metadata)
    async with reopen() as store:
        return [await read_checkpoint(store, thread) for thread in values]


async def test_data_is_never_read_as_an_object(reopen: OpenStore) -> None:
    data = [*HOSTILE, *EXACT]
    values = {
        f"t{number}": {"outputs": {"n": value}, "turn": value, "__start__": {"query": value}}
        for number, value in enumerate(data)
    }
    for value, checkpoint in zip(data, await write_and_read(reopen, values), strict=True):
        channels, metadata = checkpoint.checkpoint["channel_values"], cast("dict[str, Any]", checkpoint.metadata)
        assert channels["outputs"] == {"n": value}
        assert channels.get("turn") == value
        assert channels["__start__"] == {"query": value}
        assert (metadata["user"], metadata["step"]) == (value, 1)


async def test_other_values_become_json_as_in_outputs(reopen: OpenStore) -> None:
    rows: list[tuple[Any, Any]] = [
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        (float("nan"), None),
        (float("inf"), None),
        (2**200, str(2**200)),
        ("a\ud800b", "a\ufffdb"),
        ({"a": b"x", "b": {"c"}}, {"a": "x", "b": ["c"]}),
    ]
    values = {f"t{number}": {"outputs": {"n": value}} for number, (value, _) in enumerate(rows)}
    for (_, result), checkpoint in zip(rows, await write_and_read(reopen, values), strict=True):
        assert checkpoint.checkpoint["channel_values"]["outputs"] == {"n": result}


async def test_pending_writes_are_data_and_interrupts_are_restored(reopen: OpenStore) -> None:
    async with reopen() as store:
        place = await put_checkpoint(store.saver, THREAD)
        pauses = [Interrupt(value=value, id=f"{number:032x}") for number, value in enumerate(HOSTILE)]
        await store.saver.aput_writes(place, [("__interrupt__", pauses)], "task-1")
        await store.saver.aput_writes(place, [("__resume__", HOSTILE)], "task-2")
        writes = [("outputs", {"n": value}) for value in HOSTILE]
        await store.saver.aput_writes(place, [*writes, ("branch:to:x", None)], "task-3")
        await store.saver.aput_writes(place, [("__pregel_tasks", Send("n", {"i": HOSTILE}))], "task-4")
        await store.saver.aput_writes(place, [("__error__", ValueError("no"))], "task-5")
    async with reopen() as store:
        checkpoint = await read_checkpoint(store, "t")
    by_task: dict[str, list[Any]] = {}
    for task, _, value in checkpoint.pending_writes or ():
        by_task.setdefault(task, []).append(value)
    assert by_task["task-1"] == [pauses]
    assert by_task["task-2"] == [HOSTILE]
    assert sorted(map(str, by_task["task-3"])) == sorted(map(str, [*({"n": v} for v in HOSTILE), None]))
    assert by_task["task-4"] == [Send("n", {"i": HOSTILE})]
    assert by_task["task-5"] == ["ValueError: no"]


async def test_keys_are_listed_newest_first_in_pages_without_reading_values(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen() as store:
        written = [
            checkpoint_key(await put_checkpoint(store.saver, checkpoint_config("t", namespace)))
            for namespace in ("", "inner:1", "", "inner:1", "")
        ]
        await put_checkpoint(store.saver, checkpoint_config("other"))
        monkeypatch.setattr(store.saver.tables, "get", None)
        newest_first = written[::-1]
        bound = written[3].checkpoint

        async def list_keys(*place: str | None, **more: Any) -> list[CheckpointKey]:
            return [key async for key in store.saver.list_keys(*place, **more)]

        assert await list_keys("t") == newest_first
        assert await list_keys("t", "") == newest_first[::2]
        assert await list_keys("t", limit=3) == newest_first[:3]
        assert await list_keys("t", before=bound) == newest_first[2:]
        assert await list_keys("t", "", before=bound, limit=1) == newest_first[2:3]
        assert len(await list_keys(None)) == 6
        assert await list_keys("none") == []


async def test_acknowledged_checkpoints_are_readable_despite_other_failing_writers(reopen: OpenStore) -> None:
    """Some writers are rejected, some cancelled; none affects the checkpoints of another one, or of another store."""
    acknowledged: dict[tuple[str, str], Any] = {}
    foreign = str(uuid.uuid4())

    async def write_normally(store: Store, thread: str) -> None:
        for number in range(25):
            values = {"a": f"{thread} {number}" * 300, "b": f"{thread}" * 500}
            acknowledged[thread, await put_outputs(store, thread, values)] = values

    async def write_without_lease(store: Store) -> None:
        for number in range(25):
            with suppress(ConflictError):
                await put_outputs(store, foreign, {"a": f"{number}" * 2000})

    async def write_with_timeout(store: Store) -> None:
        for number in range(25):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.0005 * (number % 5)):
                    await put_outputs(store, "impatient", {"a": f"{number}" * 2000})

    async with reopen() as store, reopen() as other, hold_lease(store.leases, foreign):
        normal = (write_normally((store, other)[n % 2], f"t{n}") for n in range(4))
        await asyncio.gather(*normal, write_without_lease(store), write_with_timeout(store))
    async with reopen() as store:
        for (thread, id_), values in acknowledged.items():
            checkpoint = await read_checkpoint(store, thread, id_)
            assert checkpoint.checkpoint["channel_values"]["outputs"] == values


async def test_the_saver_passes_the_conformance_suite_of_langgraph(reopen: OpenStore) -> None:
    @checkpointer_test(name="canvas")
    async def open_saver() -> AsyncGenerator[Any]:
        async with reopen() as store:
            yield store.saver

    failures: list[str] = []
    capabilities: set[str] = set()

    def note(capability: str, name: str, passed: bool, error: str | None) -> None:
        capabilities.add(capability)
        if not passed:
            failures.append(f"{capability} {name}: {error}")

    await validate(open_saver, progress=ProgressCallbacks(on_test_result=note))
    assert {"delete_for_runs", "copy_thread", "prune"} <= capabilities
    assert failures == []


async def test_a_damaged_row_is_reported(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        id_ = await put_outputs(store, "t", {"a": "x" * 3000})
        file = sqlite_file(store)
        for damage in ("checkpoint = X'00ff'", "metadata = 'no json'", "checkpoint = X'80'"):
            await file.read(f"UPDATE session_checkpoints SET {damage}")
            with pytest.raises(CheckpointError, match=r"damaged|cannot be read"):
                await store.saver.aget_tuple(checkpoint_config("t", checkpoint=id_))
            with pytest.raises(CheckpointError, match=r"damaged|cannot be read"):
                [checkpoint async for checkpoint in store.saver.alist(THREAD)]
