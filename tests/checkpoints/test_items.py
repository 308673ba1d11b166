import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import InvalidNamespaceError, PutOp

from ragflow_lg.base.errors import CheckpointError, SessionKeyError
from ragflow_lg.checkpoints import ItemStore, open_items
from ragflow_lg.services.encryption import EncryptionKey
from tests.stores import SHARED, STORES, fresh_prefix, store_url

OpenItems = Callable[..., AbstractAsyncContextManager[ItemStore]]

OLD, NEW = EncryptionKey("old", bytes(32)), EncryptionKey("new", bytes(range(32)))


@pytest.fixture(params=SHARED)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenItems:
    url, prefix = store_url(request, tmp_path), fresh_prefix()

    @asynccontextmanager
    async def open_again(*keys: EncryptionKey) -> AsyncGenerator[ItemStore]:
        async with open_items(url, prefix=prefix, keys=keys) as store:
            yield store

    return open_again


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ItemStore]:
    async with open_items(store_url(request, tmp_path), prefix=fresh_prefix()) as store:
        yield store


async def test_an_item_is_read_as_it_was_written(store: ItemStore) -> None:
    message: Any = {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "AIMessage"], "kwargs": {}}
    value: dict[str, Any] = {"text": "größer \U0001f600\0", "list": [1, 2.5, None, True], "message": message}
    await store.aput(("users", "anna"), "a key", value)
    item = await store.aget(("users", "anna"), "a key")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "a key", ("users", "anna"))
    assert await store.aget(("users",), "a key") is None
    await store.adelete(("users", "anna"), "a key")
    await store.adelete(("users", "anna"), "never there")
    assert await store.asearch(("users",)) == []


async def test_a_search_sees_only_what_is_inside_the_namespace(store: ItemStore) -> None:
    for namespace in [("a",), ("a", "b"), ("ab",), ("a,", "b"), ('a"', "b"), ("A",), ("a b",), ("a*",), ("a%",)]:
        await store.aput(namespace, "k", {"of": "/".join(namespace)})
    assert {item.value["of"] for item in await store.asearch(("a",))} == {"a", "a/b"}
    assert {item.value["of"] for item in await store.asearch(("a b",))} == {"a b"}
    assert len(await store.asearch((), limit=50)) == 9


async def test_a_filter_is_applied_before_the_limit(store: ItemStore) -> None:
    for number in range(30):
        await store.aput(("n",), f"{number:02}", {"number": number, "kind": "even" if number % 2 == 0 else "odd"})
    assert len(await store.asearch(("n",), filter={"kind": "odd"}, limit=100)) == 15
    assert len(await store.asearch(("n",), filter={"kind": "odd", "number": {"$lt": 10}}, limit=100)) == 5
    assert len(await store.asearch(("n",), limit=20, offset=20)) == 10


async def test_namespaces_are_listed(store: ItemStore) -> None:
    for namespace in [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "1")]:
        await store.aput(namespace, "k", {"a": 1})
    assert await store.alist_namespaces() == [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "1")]
    assert await store.alist_namespaces(prefix=("a",), max_depth=2) == [("a", "x"), ("a", "y")]
    assert await store.alist_namespaces(suffix=("x", "*")) == [("a", "x", "1"), ("b", "x", "1")]
    assert await store.alist_namespaces(limit=1, offset=1) == [("a", "y", "2")]


async def test_what_is_no_json_is_refused_before_anything_is_written(store: ItemStore) -> None:
    for value in (object(), {1: 2}):
        with pytest.raises(CheckpointError, match="cannot be stored as JSON"):
            await store.abatch([PutOp(("n",), "good", {"a": 1}), PutOp(("n",), "bad", {"a": value})])
    with pytest.raises(InvalidNamespaceError):
        await store.aput((), "k", {"a": 1})
    assert await store.asearch(()) == []


async def test_other_threads_can_use_the_store_synchronously(store: ItemStore) -> None:
    await asyncio.to_thread(store.put, ("n",), "k", {"a": 1})
    item = await asyncio.to_thread(store.get, ("n",), "k")
    assert item is not None
    assert item.value == {"a": 1}
    with pytest.raises(CheckpointError, match="await"):
        store.get(("n",), "k")


async def test_a_graph_of_ones_own_uses_the_store(store: ItemStore) -> None:
    async def remember(state: dict[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        await runtime.store.aput(("mine",), "k", {"text": state["text"]})
        return {"text": (await runtime.store.asearch(("mine",)))[0].value["text"] + "!"}

    graph: Any = StateGraph(cast("Any", dict))
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", END)
    assert await graph.compile(store=store).ainvoke({"text": "red"}) == {"text": "red!"}


async def test_two_processes_share_the_items(reopen: OpenItems) -> None:
    async with reopen() as one, reopen() as other:
        puts = (store.aput(("n",), f"{number}", {"n": number}) for number in range(20) for store in (one, other))
        await asyncio.gather(*puts)
        assert len(await one.asearch(("n",), limit=50)) == len(await other.asearch(("n",), limit=50)) == 20
    async with reopen() as store:
        assert len(await store.asearch(("n",), limit=50)) == 20


async def test_values_are_encrypted_with_the_first_key_and_read_with_any(reopen: OpenItems) -> None:
    async with reopen() as store:
        await store.aput(("n",), "plain", {"text": "seen"})
    async with reopen(OLD) as store:
        await store.aput(("n",), "k", {"text": "secret"})
    async with reopen(NEW, OLD) as store:
        assert {item.value["text"] for item in await store.asearch(("n",))} == {"seen", "secret"}
        await store.aput(("n",), "k", {"text": "another secret"})
    for keys in ((), (OLD,)):
        async with reopen(*keys) as store:
            assert await store.aget(("n",), "plain") is not None
            with pytest.raises(SessionKeyError, match=r"encrypted with the key 'new'"):
                await store.aget(("n",), "k")


async def test_an_encrypted_value_is_not_read_at_another_place(tmp_path: Path) -> None:
    async with open_items(f"sqlite:///{tmp_path}/items.db", keys=[OLD]) as store:
        await store.aput(("n",), "k", {"text": "secret"})
        with sqlite3.connect(tmp_path / "items.db") as connection:
            ((stored,),) = connection.execute("SELECT value FROM store").fetchall()
            assert b"secret" not in stored
            connection.execute("UPDATE store SET key = 'moved'")
        with pytest.raises(SessionKeyError, match="cannot be decrypted"):
            await store.aget(("n",), "moved")


async def test_a_failing_store_is_an_error(reopen: OpenItems, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be opened"):
        async with open_items(f"sqlite:///{tmp_path}"):
            pass


async def test_a_store_works_after_a_cancelled_operation(store: ItemStore) -> None:
    for number in range(20):
        writing = asyncio.create_task(store.aput(("n",), f"{number}", {"a": number}))
        for _ in range(number // 2):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
    await store.aput(("n",), "last", {"a": 1})
    assert await store.aget(("n",), "last") is not None


async def test_a_cancelled_write_is_completed_before_the_store_is_closed(reopen: OpenItems) -> None:
    async with reopen() as store:
        writing = asyncio.create_task(store.aput(("n",), "k", {"a": 1}))
        await asyncio.sleep(0)
        writing.cancel()
    async with reopen() as store:
        assert await store.aget(("n",), "k") is not None
