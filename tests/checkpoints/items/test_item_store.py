import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import InvalidNamespaceError, PutOp
from redis.asyncio import Redis

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.backends import open_items
from ragflow_lg.checkpoints.items import item_store
from ragflow_lg.checkpoints.items.item_store import ItemStore
from ragflow_lg.checkpoints.items.item_vectors import pack_vector
from tests.fakes.services import MovingClock
from tests.stores import fresh_prefix

OpenItems = Callable[[], AbstractAsyncContextManager[ItemStore]]

COLOURS = {"red": [1.0, 0.0, 0.0], "orange": [0.8, 0.6, 0.0], "blue": [0.0, 0.0, 1.0]}


async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
    """Return a vector for each text: that of the first colour in it."""
    return [next((v for name, v in COLOURS.items() if name in text), [0.0, 1.0, 0.0]) for text in texts]


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/items.db"


@pytest.fixture
async def store(url: str) -> AsyncGenerator[ItemStore]:
    async with open_items(url, SystemClock(), embed, prefix=fresh_prefix()) as store:
        yield store


@pytest.fixture(params=["sqlite", "redis"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenItems:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else f"sqlite:///{tmp_path}/items.db"
    prefix = fresh_prefix()

    @asynccontextmanager
    async def open_again() -> AsyncGenerator[ItemStore]:
        async with open_items(url, SystemClock(), embed, prefix=prefix) as store:
            yield store

    return open_again


def keys(found: Sequence[Any]) -> list[str]:
    return [item.key for item in found]


async def test_an_item_is_read_as_it_was_written(store: ItemStore) -> None:
    value: dict[str, Any] = {"text": "größer \U0001f600", "list": [1, 2.5, None, True], "map": {"a": "b"}}
    await store.aput(("users", "anna"), "k", value)
    item = await store.aget(("users", "anna"), "k")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "k", ("users", "anna"))
    assert await store.aget(("users",), "k") is None
    assert await store.aget(("users", "anna"), "other") is None


async def test_an_item_keeps_the_time_of_its_creation(store: ItemStore) -> None:
    await store.aput(("n",), "k", {"a": 1})
    first = await store.aget(("n",), "k")
    await asyncio.sleep(0.01)
    await store.aput(("n",), "k", {"a": 2})
    second = await store.aget(("n",), "k")
    assert first is not None
    assert second is not None
    assert second.value == {"a": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


async def test_a_deleted_item_is_gone(store: ItemStore) -> None:
    await store.aput(("n",), "k", {"a": 1})
    await store.adelete(("n",), "k")
    await store.adelete(("n",), "never there")
    assert await store.aget(("n",), "k") is None
    assert await store.asearch(("n",)) == []


async def test_a_search_sees_only_what_is_inside_the_namespace(store: ItemStore) -> None:
    for namespace in [("a",), ("a", "b"), ("ab",), ("a,", "b"), ('a"', "b"), ("A",), ("a b",), ("a*",)]:
        await store.aput(namespace, "k", {"of": "/".join(namespace)})
    assert {item.value["of"] for item in await store.asearch(("a",))} == {"a", "a/b"}
    assert {item.value["of"] for item in await store.asearch(("a",), query="red")} == {"a", "a/b"}
    assert {item.value["of"] for item in await store.asearch(("a b",))} == {"a b"}
    assert len(await store.asearch((), limit=50)) == 8


async def test_a_query_returns_the_most_similar_items_first(store: ItemStore) -> None:
    for name in COLOURS:
        await store.aput(("c",), name, {"text": f"the {name} one"})
    found = await store.asearch(("c",), query="something red")
    assert keys(found) == ["red", "orange", "blue"]
    assert [item.score for item in found] == pytest.approx([1.0, 0.8, 0.0], abs=1e-5)
    assert keys(await store.asearch(("c",), query="red", limit=1, offset=1)) == ["orange"]


async def test_an_item_that_is_not_indexed_is_not_found_by_a_query(store: ItemStore) -> None:
    await store.aput(("c",), "plain", {"text": "red"}, index=False)
    await store.aput(("c",), "indexed", {"text": "blue", "note": "red"}, index=["note"])
    found = await store.asearch(("c",), query="red")
    assert keys(found) == ["indexed"]
    assert found[0].score == pytest.approx(1.0)
    assert len(await store.asearch(("c",))) == 2
    await store.aput(("c",), "indexed", {"text": "blue"}, index=False)
    assert await store.asearch(("c",), query="red") == []


async def test_vectors_of_different_lengths_do_not_meet(store: ItemStore) -> None:
    async def embed_short(texts: list[str]) -> Sequence[Sequence[float]]:
        return [[1.0, 0.0] for _ in texts]

    short = store.indexed(embed_short, ["text"])
    assert await short.asearch(("c",), query="anything") == []
    await store.aput(("c",), "three", {"text": "red"})
    await short.aput(("c",), "two", {"text": "red"})
    assert keys(await store.asearch(("c",), query="red")) == ["three"]
    assert keys(await short.asearch(("c",), query="red")) == ["two"]
    await short.aput(("c",), "three", {"text": "red"})
    assert await store.asearch(("c",), query="red") == []


async def test_vectors_of_different_models_do_not_meet(store: ItemStore) -> None:
    """They may have the same length, but their directions mean different things."""
    other = store.indexed(embed, ["text"], "other")
    assert await other.asearch(("c",), query="red") == []
    await store.aput(("c",), "one", {"text": "red"})
    await other.aput(("c",), "two", {"text": "red"})
    assert keys(await store.asearch(("c",), query="red")) == ["one"]
    assert keys(await other.asearch(("c",), query="red")) == ["two"]


async def test_items_are_embedded_again_with_another_model(store: ItemStore) -> None:
    for number in range(3):
        await store.aput(("c", "in"), f"red {number}", {"text": "red"})
    await store.aput(("c", "in"), "blank", {"text": "red"}, index=False)
    await store.aput(("c", "out"), "red", {"text": "red"})
    before = {item.key: item for item in await store.asearch(("c", "in"))}
    other = store.indexed(embed, ["text"], "other")
    assert [await other.aembed_again(("c", "in")) for _ in range(2)] == [3, 0]
    assert {*keys(await other.asearch(("c",), query="red"))} == {"red 0", "red 1", "red 2"}
    assert keys(await store.asearch(("c",), query="red")) == ["red"]
    after = {item.key: item for item in await other.asearch(("c", "in"))}
    assert {key: (i.created_at, i.updated_at, i.value) for key, i in after.items()} == {
        key: (i.created_at, i.updated_at, i.value) for key, i in before.items()
    }


async def test_what_changes_while_it_is_embedded_again_is_left_alone(store: ItemStore) -> None:
    await store.aput(("c",), "changed", {"text": "red"})
    await store.aput(("c",), "deleted", {"text": "red"})

    async def embed_slowly(texts: list[str]) -> Sequence[Sequence[float]]:
        await store.aput(("c",), "changed", {"text": "blue"}, index=False)
        await store.adelete(("c",), "deleted")
        return await embed(texts)

    assert await store.indexed(embed_slowly, ["text"], "other").aembed_again(()) == 0
    (item,) = await store.asearch(("c",))
    assert item.value == {"text": "blue"}


async def test_a_text_without_a_direction_is_found_with_the_score_0(store: ItemStore) -> None:
    """The vector of the hashing model for a text without words is zero."""

    async def embed_words(texts: list[str]) -> Sequence[Sequence[float]]:
        return [[float("a" in text), float("b" in text)] for text in texts]

    words = store.indexed(embed_words, ["text"], "words")
    for text in ("a", "?!"):
        await words.aput(("c",), text, {"text": text})
    assert [(item.key, item.score) for item in await words.asearch(("c",), query="a")] == [("a", 1.0), ("?!", 0.0)]
    assert {(item.key, item.score) for item in await words.asearch(("c",), query="...")} == {("a", 0.0), ("?!", 0.0)}


async def test_a_file_of_an_earlier_version_gets_models(tmp_path: Path) -> None:
    columns = "namespace TEXT, key TEXT, value BLOB, created_at REAL, updated_at REAL, vector BLOB"
    with closing(sqlite3.connect(tmp_path / "items.db")) as connection:
        connection.execute(f"CREATE TABLE items ({columns}, PRIMARY KEY (namespace, key))")
        row = ('"c",', "old", b'{"text": "red"}', 1.0, 1.0, pack_vector([1.0, 0.0, 0.0]))
        connection.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.commit()
    for _ in range(2):
        async with open_items(f"sqlite:///{tmp_path}/items.db", SystemClock(), embed) as store:
            assert keys(await store.asearch(("c",), query="red")) == ["old"]
            named = store.indexed(embed, ["text"], "named")
            assert await named.asearch(("c",), query="red") == []
    async with open_items(f"sqlite:///{tmp_path}/items.db", SystemClock(), embed) as store:
        named = store.indexed(embed, ["text"], "named")
        assert await named.aembed_again(()) == 1
        assert keys(await named.asearch(("c",), query="red")) == ["old"]


async def test_an_index_of_an_earlier_version_gets_models(redis_url: str) -> None:
    prefix = fresh_prefix()
    client: Any = cast("Any", Redis).from_url(redis_url)
    schema = ("SCHEMA", "within", "TAG", "updated_at", "NUMERIC", "SORTABLE")
    await client.execute_command("FT.CREATE", f"{prefix}items", "ON", "HASH", "PREFIX", 1, f"{prefix}item:", *schema)
    async with open_items(redis_url, SystemClock(), embed, fields=["text"], prefix=prefix) as store:
        await store.aput(("c",), "with", {"text": "red"})
        await store.aput(("c",), "without", {"text": "red"}, index=False)
        async for key in client.scan_iter(match=f"{prefix}item:*"):
            await client.hdel(key, "model")
            names = [name for name in await client.hkeys(key) if name.startswith(b"unit_")]
            for name in names:
                await client.hset(key, "vector_3", await client.hget(key, name))
                await client.hdel(key, name)
        assert await store.asearch(("c",), query="red") == []
        assert [await store.aembed_again(("c",)) for _ in range(2)] == [1, 0]
        assert keys(await store.asearch(("c",), query="red")) == ["with"]
    await client.aclose()


async def test_without_a_query_the_newest_items_come_first(store: ItemStore) -> None:
    for number in range(5):
        await store.aput(("n",), str(number), {"number": number})
        await asyncio.sleep(0.002)
    assert keys(await store.asearch(("n",), limit=3)) == ["4", "3", "2"]
    assert keys(await store.asearch(("n",), limit=3, offset=3)) == ["1", "0"]


async def test_a_filter_is_applied_before_the_limit(store: ItemStore) -> None:
    for number in range(60):
        await store.aput(("n",), f"{number:02}", {"number": number, "kind": "even" if number % 2 == 0 else "odd"})
    assert len(await store.asearch(("n",), filter={"kind": "odd"}, limit=100)) == 30
    assert len(await store.asearch(("n",), filter={"kind": "odd", "number": {"$lt": 10}}, limit=100)) == 5
    assert len(await store.asearch(("n",), filter={"number": {"$gte": 10, "$ne": 11}}, limit=3)) == 3
    assert len(await store.asearch(("n",), filter={"number": {"$gt": "text"}}, limit=3)) == 0
    with pytest.raises(CheckpointError, match=r"operator '\$in'"):
        await store.asearch(("n",), filter={"number": {"$in": [1]}})


async def test_namespaces_are_listed(store: ItemStore) -> None:
    for namespace in [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "1")]:
        await store.aput(namespace, "k", {"a": 1})
    assert await store.alist_namespaces() == [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "1")]
    assert await store.alist_namespaces(prefix=("a",), max_depth=2) == [("a", "x"), ("a", "y")]
    assert await store.alist_namespaces(suffix=("x", "*")) == [("a", "x", "1"), ("b", "x", "1")]
    assert await store.alist_namespaces(limit=1, offset=1) == [("a", "y", "2")]


async def test_what_is_no_json_is_refused_before_anything_is_written(store: ItemStore) -> None:
    with pytest.raises(CheckpointError, match="cannot be stored as JSON"):
        await store.aput(("n",), "k", {"a": object()})
    with pytest.raises(CheckpointError, match="cannot be stored as JSON"):
        await store.aput(("n",), "k", {"a": {1: 2}})
    with pytest.raises(InvalidNamespaceError):
        await store.aput((), "k", {"a": 1})
    assert await store.asearch((), limit=5) == []


async def test_an_object_of_langchain_is_not_revived(store: ItemStore) -> None:
    value: dict[str, Any] = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", "AIMessage"],
        "kwargs": {},
    }
    await store.aput(("n",), "k", value, index=False)
    item = await store.aget(("n",), "k")
    assert item is not None
    assert item.value == value


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
        found = await runtime.store.asearch(("mine",), query="red")
        return {"text": found[0].value["text"] + "!"}

    graph: Any = StateGraph(cast("Any", dict))
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", END)
    assert await graph.compile(store=store).ainvoke({"text": "red"}) == {"text": "red!"}


async def test_items_outlive_the_process_that_wrote_them(reopen: OpenItems) -> None:
    async with reopen() as store:
        await store.aput(("n",), "k", {"text": "red"})
    async with reopen() as store:
        assert keys(await store.asearch(("n",), query="red")) == ["k"]


async def test_two_processes_share_the_items(reopen: OpenItems) -> None:
    async with reopen() as one, reopen() as other:
        await asyncio.gather(
            *(one.aput(("n",), f"one{number}", {"text": "red"}) for number in range(20)),
            *(other.aput(("n",), f"other{number}", {"text": "blue"}) for number in range(20)),
        )
        assert len(await one.asearch(("n",), query="red", limit=100)) == 40
        assert len(await other.asearch(("n",), limit=100)) == 40


async def test_a_damaged_value_does_not_hide_the_others(tmp_path: Path) -> None:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite

    path = tmp_path / "items.db"
    async with open_items(f"sqlite:///{path}", SystemClock(), embed) as store:
        await store.aput(("n",), "bad", {"text": "red"})
        await store.aput(("n",), "good", {"text": "red"})
        async with open_sqlite(path) as file:
            await file.rows("UPDATE items SET value = x'ff00' WHERE key = 'bad'")
        found = await store.asearch(("n",), query="red")
    assert {item.key: item.value for item in found} == {"bad": {}, "good": {"text": "red"}}


async def test_the_older_protocol_of_redis_works(redis_url: str) -> None:
    async with open_items(f"{redis_url}?protocol=2", SystemClock(), embed, prefix=fresh_prefix()) as store:
        await store.aput(("n",), "k", {"text": "red"})
        found = await store.asearch(("n",), query="red")
    assert [(item.key, item.value, item.score) for item in found] == [("k", {"text": "red"}, 1.0)]


async def test_a_search_sees_what_another_process_has_changed(reopen: OpenItems) -> None:
    async with reopen() as one, reopen() as other:
        await one.aput(("n",), "a", {"text": "red"})
        assert keys(await other.asearch(("n",), query="red")) == ["a"]
        await one.aput(("n",), "b", {"text": "red"})
        assert keys(await other.asearch(("n",), query="red")) == ["a", "b"]
        await one.aput(("n",), "a", {"text": "blue"})
        assert keys(await other.asearch(("n",), query="red")) == ["b", "a"]
        await one.adelete(("n",), "b")
        assert keys(await other.asearch(("n",), query="red")) == ["a"]
        await one.aput(("n", "inner"), "c", {"text": "red"})
        assert keys(await other.asearch(("n",), query="red")) == ["c", "a"]


async def test_an_unusable_vector_is_an_error(store: ItemStore) -> None:
    async def embed_wrongly(texts: list[str]) -> Sequence[Sequence[float]]:
        return [[1.0, float("inf")] for _ in texts]

    with pytest.raises(CheckpointError, match="unusable vector"):
        await store.indexed(embed_wrongly, ["text"]).aput(("n",), "k", {"text": "red"})
    assert await store.aget(("n",), "k") is None


async def test_items_are_only_written_if_another_one_is_kept(store: ItemStore) -> None:
    await store.aput(("n",), "kept", {"text": "red"})
    put = [PutOp(("n",), "new", {"text": "red"})]
    assert not await store.aput_if_kept(put, ("n",), "gone")
    assert await store.aget(("n",), "new") is None
    assert await store.aput_if_kept(put, ("n",), "kept")
    assert await store.aget(("n",), "new") is not None


async def test_an_embedding_model_with_too_few_vectors_is_an_error(store: ItemStore) -> None:
    async def embed_nothing(texts: list[str]) -> Sequence[Sequence[float]]:
        return []

    with pytest.raises(CheckpointError, match="0 vectors for 1 texts"):
        await store.indexed(embed_nothing, ["text"]).aput(("n",), "k", {"text": "red"})


async def test_a_redis_that_has_lost_its_data_is_used_again(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_items(redis_url, SystemClock(), embed, prefix=prefix) as store:
        await store.aput(("n",), "k", {"text": "red"})
        client: Any = cast("Any", Redis).from_url(redis_url)
        await client.execute_command("FT.DROPINDEX", f"{prefix}items", "DD")
        await client.aclose()
        assert await store.asearch(("n",), query="red") == []
        await store.aput(("n",), "k", {"text": "red"})
        assert keys(await store.asearch(("n",), query="red")) == ["k"]


async def test_no_name_of_a_user_is_left_when_its_items_are_deleted(tmp_path: Path) -> None:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite

    path = tmp_path / "items.db"
    async with open_items(f"sqlite:///{path}", SystemClock(), embed) as store:
        await store.aput(("users", "anna"), "k", {"text": "red"})
        await store.adelete(("users", "anna"), "k")
        async with open_sqlite(path) as file:
            rows = await file.rows("SELECT namespace FROM item_versions")
    assert [row[0] for row in rows] == [""]


async def test_items_are_only_written_if_another_one_has_not_changed(store: ItemStore) -> None:
    await store.aput(("n",), "k", {"text": "red"})
    read = await store.aget(("n",), "k")
    assert read is not None
    claim = [PutOp(("n",), "k", {"text": "blue"})]
    claims = [store.aput_if_kept(claim, ("n",), "k", read.updated_at) for _ in range(5)]
    assert sorted(await asyncio.gather(*claims)) == [False, False, False, False, True]


async def test_a_search_returns_the_exact_time(store: ItemStore) -> None:
    await store.aput(("n",), "k", {"a": 1})
    (found,), read = await store.asearch(("n",)), await store.aget(("n",), "k")
    assert read is not None
    assert found.updated_at == read.updated_at
    assert await store.aput_if_kept([PutOp(("n",), "k", {"a": 2})], ("n",), "k", found.updated_at)


async def test_old_items_and_too_many_are_deleted(url: str) -> None:
    clock = MovingClock()
    async with open_items(url, clock, embed, prefix=fresh_prefix()) as store:
        for number in range(6):
            await store.aput(("n", f"user {number}"), "k", {"text": "red"})
            clock.move(1)
        await store.aput(("other",), "k", {"text": "red"})
        await store.aput(("n", "user 0"), "k", {"text": "blue"})  # the newest one now
        start = clock.now() - 6
        assert await store.adelete_outdated(("n",), 0.0, 6) == 0
        assert await store.adelete_outdated(("n",), start + 2.5, 6) == 2
        assert await store.adelete_outdated(("n",), 0.0, 3) == 1
        left = [item.namespace[1] for item in await store.asearch(("n",))]
        assert left == ["user 0", "user 5", "user 4"]
        assert keys(await store.asearch(("other",))) == ["k"]


async def test_more_items_are_deleted_than_fit_into_one_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "MAX_OUTDATED", 3)
    clock = MovingClock()
    async with open_items(url, clock, embed, prefix=fresh_prefix()) as store:
        for number in range(10):
            await store.aput(("n",), str(number), {"text": "red"})
            clock.move(1)
        assert await store.adelete_outdated(("n",), 0.0, 2) == 8
        assert keys(await store.asearch(("n",))) == ["9", "8"]
