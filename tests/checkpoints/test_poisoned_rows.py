"""Rows that something else has written: they never become objects, and concern no other session."""

import asyncio
import json
import os
import random
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack
import pytest
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt, Send

from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.steps.thread_tables import checkpoint_key
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import CATALOG, canvas, text
from tests.fakes.regions import form, loop, out, play_run
from tests.fakes.services import fake_services
from tests.stores import checkpoint_config, fresh_prefix, redis_client, sqlite_file

pytestmark = pytest.mark.slow

CANVAS = {**loop({"x": text(["ask"], "some text " * 400), "ask": form("f")}, count=1), **out("{x@result}")}
LIMIT_S = 5.0
"""How long reading a session and listing all of them may take, however its rows were changed."""
SEED = int(os.environ.get("SEED", "0"))
MUTATIONS = int(os.environ.get("MUTATIONS", "60"))
"""More of them: ``python -m tests.campaigns poisoned-rows 5000``."""

SEALED = (
    "session_checkpoints.checkpoint",
    "session_checkpoints.metadata",
    "session_writes.value",
    "session_blobs.content",
)
"""The columns whose content has a checksum. Others, such as the name of a session, are plain."""


class Row(NamedTuple):
    """A changed row."""

    name: str
    is_sealed: bool


Mutation = Callable[[], AbstractAsyncContextManager[Row]]
"""Changes one row for the time of the block, and says which."""

ENVELOPES: list[Any] = [
    {"lc": 2, "type": "constructor", "id": ["subprocess", "Popen"], "args": ["true"]},
    {"lc": 2, "type": "constructor", "id": ["langgraph", "types", "Send"], "kwargs": {"node": "n", "arg": 1}},
    {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "x"}},
    {"__send__": True, "node": "n", "arg": {}},
    {"__interrupt__": True, "value": 1, "id": "0" * 32},
    {"__delta_snapshot__": True, "value": 1},
    {"__bytes__": "AAAA"},
]
NESTED: Any = json.loads("[" * 100 + "]" * 100)
VALUES: list[Any] = [*ENVELOPES, NESTED, None, True, -1, 2**53, 1e300, "", "\ud7ff\x00", "x" * 100_000, [], {}, [[]]]
TEXTS: list[str | bytes] = [
    *map(json.dumps, VALUES),
    "[" * 100_000,
    "\x01" + "0" * 32 + "\x01",
    "\x030,0,0\x03",
    "\x03" + "0" * 32 + ",999999999999,1\x03",
    "\x04",
    b"\xff\xfe\x00",
    b"",
]
PACKED: list[bytes] = [
    *(ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(["subprocess", "getoutput", "true"]))) for code in range(8)),
    *map(ormsgpack.packb, VALUES),
    b"\xd6\xff\x00\x00\x00\x01",
    b"\x91" * 100_000 + b"\xc0",
    b"\xdf\xff\xff\xff\xff",
    b"\x80\x04N.",  # a pickle
]


@cache
def _compiled() -> CompiledCanvas:
    return compile_canvas(canvas(CANVAS, ["lp"]), CATALOG)


async def read_session(store: Store, session: str) -> Any:
    """Return all that a session's owner can read of it."""
    runner = Runner(_compiled(), fake_services(), store=store)
    state = await runner.state(session)
    pauses = [(pause.id, pause.node) for pause in await runner.pauses(session)]
    history = [(step.checkpoint, step.region, step.next) async for step in runner.history(session)]
    runs = [run async for run in store.runs.of_session(session)]
    traces = [await store.traces.get(run.run_id) for run in runs]
    tuples = [entry async for entry in store.saver.alist(checkpoint_config(thread_of_session(session)))]
    for entry in tuples:
        require_data(entry)
    return state, pauses, history, runs, traces, tuples


def require_data(entry: CheckpointTuple) -> None:
    """Fail if a checkpoint contains an object that is neither JSON nor one of LangGraph's own."""
    parts: list[Any] = [entry.checkpoint, entry.metadata, entry.pending_writes]
    while parts:
        part: Any = parts.pop()
        if isinstance(part, dict):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, Interrupt):
            parts.append(part.value)
        elif isinstance(part, Send):
            parts.append(part.arg)
        else:
            assert part is None or type(part) in (str, int, float, bool), repr(part)


async def read_others(store: Store) -> Any:
    """Return what listings of all sessions contain of the sessions whose rows are untouched."""
    other = thread_of_session("other")
    sessions = [run.name async for run in store.runs.sessions()]
    keys = [key async for key in store.saver.list_keys(None) if key.thread == other]
    entries = [entry async for entry in store.saver.alist(None) if checkpoint_key(entry.config).thread == other]
    return "other" in sessions, keys, entries, await read_session(store, "other")


async def play_sessions(store: Store) -> None:
    """Store two sessions with checkpoints, pauses, large parts, run records and traces."""
    for session in ("other", "victim"):
        runner = Runner(_compiled(), fake_services(ids=RandomIds()), store=store)
        await play_run(runner.start(session, {"query": "q"}))
        async for run in store.runs.of_session(session):
            await store.traces.put(run, [{"component_id": "a", "trace": [{"tool_name": "t"}]}])


async def require_isolation(store: Store, mutations: list[Mutation]) -> None:
    """Apply each mutation, and require that only the changed session fails, with its own error."""
    expected, others = await read_session(store, "victim"), await read_others(store)
    failures: list[str] = []
    for mutation in mutations:
        async with mutation() as row:
            try:
                async with asyncio.timeout(LIMIT_S):
                    if await read_session(store, "victim") != expected and row.is_sealed:
                        failures.append(f"{row.name}: another value")
            except CheckpointError:
                pass
            except Exception as error:  # noqa: BLE001 - the test is about every other one
                failures.append(f"{row.name}: {error!r:.300}")
            try:
                async with asyncio.timeout(LIMIT_S):
                    if await read_others(store) != others:
                        failures.append(f"{row.name}: other sessions differ")
            except Exception as error:  # noqa: BLE001 - the test is about every other one
                failures.append(f"{row.name}: listings fail: {error!r:.300}")
    assert not failures, "\n".join(failures)
    assert await read_session(store, "victim") == expected


async def sqlite_mutations(store: Store, draw: random.Random) -> list[Mutation]:
    """Return changes of every column of the tables, in rows of the victim."""
    file = sqlite_file(store)
    thread, session = thread_of_session("victim"), hex_session("victim")
    threads = dict.fromkeys(("session_checkpoints", "session_writes", "session_blobs"), thread)
    owners = {**threads, "runs": session, "traces": session}

    def mutation(table: str, column: str, value: Any) -> Mutation:
        @asynccontextmanager
        async def change() -> AsyncGenerator[Row]:
            rows = await file.read(f"SELECT * FROM {table}")
            owner = "session" if table in ("runs", "traces") else "thread_id"
            mine = await file.read(f"SELECT rowid FROM {table} WHERE {owner} = ?", (owners[table],))
            where = f"WHERE {owner} = ? AND rowid = ?"
            place = (owners[table], draw.choice(mine)[0])
            with suppress(sqlite3.IntegrityError):
                new = "CAST(? AS TEXT)" if draw.random() < 0.3 else "?"  # can be text that is not UTF-8
                await file.read(f"UPDATE {table} SET {column} = {new} {where}", (value, *place))
            try:
                yield Row(f"{table}.{column} = {value!r:.60}", f"{table}.{column}" in SEALED)
            finally:
                await file.read(f"DELETE FROM {table}")
                for row in rows:
                    await file.read(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

        return change

    columns = [
        (table, column[1])
        for table in owners
        for column in await file.read(f"PRAGMA table_info({table})")
        if column[1] not in ("thread_id", "session")
    ]
    values: list[Any] = [*TEXTS, *PACKED, None, 1.5, 2**62, -1]
    chosen = [(place, draw.choice(values)) for place in columns for _ in range(MUTATIONS // len(columns) + 1)]
    return [mutation(table, column, value) for (table, column), value in chosen]


async def redis_mutations(store: Store, draw: random.Random, url: str, prefix: str) -> list[Mutation]:
    """Return changes of every key of the victim: of its parts, and of its type."""
    client: Any = redis_client(url)
    keys = await _keys_of_victim(client, prefix)

    def mutation(key: bytes, change: Callable[[], Awaitable[Row]]) -> Mutation:
        @asynccontextmanager
        async def changed() -> AsyncGenerator[Row]:
            copy = await client.dump(key)
            name = await change()
            try:
                yield Row(f"{key!r}: {name.name}", name.is_sealed)
            finally:
                await client.delete(key)
                await client.restore(key, 0, copy)

        return changed

    async def change_part(key: bytes) -> Row:
        kind = await client.type(key)
        value = draw.choice([*TEXTS, *PACKED])
        if kind == b"hash":
            field = draw.choice(sorted(await client.hkeys(key)))
            is_sealed = b"checkpoint" in key and field[:1] != b"n"
            if draw.random() < 0.9:
                await client.hset(key, field, value)
            else:
                await client.hdel(key, field)
            # A server loses whole keys: nothing says how many writes a checkpoint has.
            is_sealed = is_sealed and (field[:1] != b"w" or bool(await client.hget(key, field)))
            return Row(f"{field} = {value!r:.60}", is_sealed)
        if kind == b"zset":
            await client.zadd(key, {value: draw.choice([0, 1e300])})
        elif kind == b"set":
            await client.sadd(key, value)
        else:
            await client.set(key, value)
        return Row(f"{value!r:.60}", False)

    async def change_type(key: bytes) -> Row:
        await client.delete(key)
        if draw.random() < 0.5:
            await client.set(key, draw.choice(PACKED))
            return Row("a string", False)
        await client.rpush(key, draw.choice(PACKED))
        return Row("a list", False)

    mutations: list[Mutation] = []
    while len(mutations) < MUTATIONS:
        key = draw.choice(keys)
        change = change_part if draw.random() < 0.85 else change_type
        mutations.append(mutation(key, partial(change, key)))
    return mutations


async def _keys_of_victim(client: Any, prefix: str) -> list[bytes]:
    """Return the keys of the victim's checkpoints, blobs, records and runs."""
    thread, session = thread_of_session("victim"), hex_session("victim")
    runs: list[bytes] = await client.zrange(f"{prefix}agent:runs-of-session:{session}", 0, -1)
    names = [f"checkpoints:{thread}", f"checkpoint_blobs:{thread}", f"agent:runs-of-session:{session}"]
    return [f"{prefix}{name}".encode() for name in names] + [f"{prefix}agent:run:".encode() + run for run in runs]


async def test_a_poisoned_row_concerns_one_session(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        await play_sessions(store)
        await require_isolation(store, await sqlite_mutations(store, draw))


async def test_a_poisoned_key_concerns_one_session(redis_url: str) -> None:
    draw, prefix = random.Random(SEED), fresh_prefix()
    async with open_store(redis_url, prefix=prefix) as store:
        await play_sessions(store)
        await require_isolation(store, await redis_mutations(store, draw, redis_url, prefix))


async def test_a_session_with_replaced_keys_can_be_deleted(redis_url: str) -> None:
    client: Any = redis_client(redis_url)
    failures: list[str] = []
    for replacement in ("string", "list"):
        prefix = fresh_prefix()
        async with open_store(redis_url, prefix=prefix) as store:
            await play_sessions(store)
            others = await read_others(store)
            for key in await _keys_of_victim(client, prefix):
                await client.delete(key)
                await (client.set(key, "x") if replacement == "string" else client.rpush(key, "x"))
                try:
                    await store.delete_session("victim")
                except CheckpointError as error:
                    failures.append(f"{key!r} is a {replacement}: {error}")
                assert await read_others(store) == others
                await client.delete(key)
                await store.delete_session("victim")
                assert await store.saver.aget_tuple(checkpoint_config(thread_of_session("victim"))) is None
                runner = Runner(_compiled(), fake_services(ids=RandomIds()), store=store)
                await play_run(runner.start("victim", {"query": "q"}))
    assert not failures, "\n".join(failures)
