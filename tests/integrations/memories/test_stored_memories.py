import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from ragflow_lg.base.errors import ServiceError
from tests.fakes.redis_process import AOF, redis_process
from tests.fakes.services import Reply
from tests.harness.rows import each_row
from tests.integrations.memories.memory_world import FACTS, World, contents, exchange, find


async def test_an_exchange_and_what_it_says_are_found(url: str) -> None:
    world = World(url, [Reply(FACTS)])
    async with world.opened() as memories:
        assert await memories.remember(["m1", "gone"], exchange()) == ["gone"]
        await world.tasks.settle()
        found = await find(memories, "What is the name of Anna?")
    by_type = {entry.type: entry for entry in found}
    assert set(by_type) == {"raw", "semantic"}
    assert by_type["raw"].content == "User: I am Anna.\nAssistant: Hello!"
    semantic = by_type["semantic"]
    assert (semantic.content, semantic.valid_at, semantic.source) == (
        "The user's name is Anna.",
        "2026-01-01T00:00:00",
        "k1",
    )
    ((_, request),) = world.model.requests
    assert "semantic, episodic, procedural" in request.system
    assert "2026-01-02 03:04:05" in request.system
    assert request.messages[0]["content"] == "User: I am Anna.\n\nAssistant: Hello!"


async def test_two_users_never_see_each_others_memories(url: str) -> None:
    users = ["anna", "anna.b", "anna%2Eb", "ann", "", "a" * 300, "a" * 301, 'anna",', "anna*", "Anna"]
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        others = memories.of_tenant("other")
        visitors = memories.for_agent("agent1", "page agent1/")
        for number, user in enumerate(users):
            for owner, realm in ((memories, "first"), (others, "second"), (visitors, "third")):
                await owner.remember(["m1"], exchange(f"k{number}", user, f"the secret of {realm} {number}"))
        await world.tasks.settle()
        for number, user in enumerate(users):
            for owner, realm in ((memories, "first"), (others, "second"), (visitors, "third")):
                found = await find(owner, "the secret", user, top_n=100, similarity_threshold=0.0)
                assert contents(found) == {f"User: the secret of {realm} {number}\nAssistant: Hello!"}
        assert await find(memories, "the secret", "nobody", similarity_threshold=0.0) == []


async def test_another_embedding_model_embeds_everything_again(file_url: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World(file_url, types=("raw",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
    world.vector_model, world.embed_error = "other", ""
    async with world.opened() as memories:
        assert await find(memories, "Anna") == [], "vectors of two models are never compared"
        await world.tasks.aclose()
        assert [entry.key for entry in await find(memories, "Anna")] == ["k1"]
    world.vector_model = "third"
    async with world.opened() as memories:
        world.embed_error = "The model is gone."
        await memories.remember(["m1"], exchange("k2"))
        await world.tasks.aclose()
    assert "cannot be embedded again: The model is gone." in caplog.text


async def test_the_best_entries_of_all_memories_come_newest_first(url: str) -> None:
    world = World(url, types=("raw",))
    texts = ["green tea is fine", "black tea is better", "the weather is bad", "tea tea tea"]
    async with world.opened() as memories:
        for number, text in enumerate(texts):
            world.clock.move(60)
            await memories.remember(["m1" if number % 2 else "m2"], exchange(f"k{number}", question=text, answer=""))
        await world.tasks.settle()
        found = await find(memories, "which tea?", ids=("m1", "m2", "gone", "m1"), top_n=2)
        assert [entry.key for entry in found] == ["k3", "k1"]
        everything = await find(memories, "which tea?", ids=("m1", "m2"))
    assert [entry.key for entry in everything] == ["k3", "k1", "k0"]
    assert [entry.memory for entry in everything] == ["m1", "m1", "m2"]


async def test_what_another_program_has_stored_there_is_ignored(file_url: str) -> None:
    world = World(file_url, types=("raw",))
    values = [
        {},
        {"type": "raw"},
        {"type": "raw", "content": 3},
        {"type": ["raw"], "content": "Anna"},
        {"content": "A"},
    ]
    async with world.opened() as memories:
        shelf = memories.shelves["m1"]
        vector = {"model": world.vector_model, "numbers": "AAAA"}
        for number, value in enumerate(values):
            await shelf.store.aput(shelf.namespace("default", "anna"), f"foreign{number}", {**value, "vector": vector})
        await world.remember(memories)
        assert [entry.key for entry in await find(memories, "Anna", similarity_threshold=0.0)] == ["k1"]


async def test_a_failing_store_is_a_failing_service(file_url: str) -> None:
    world = World(file_url, types=("raw",))
    async with world.opened() as memories:
        with sqlite3.connect(world.url.removeprefix("sqlite:///")) as connection:
            connection.execute("DROP TABLE store")
        with pytest.raises(ServiceError, match="session store"):
            await memories.remember(["m1"], exchange())
        with pytest.raises(ServiceError, match="session store"):
            await find(memories, "Anna")
        await world.tasks.settle()


@each_row("text", ["my tea \ud800", "I am\0Anna.", "\u202e\u2066\uffff", "tea" * 400_000, "{{ 1 }} '; DROP TABLE x"])
async def test_any_text_is_stored_and_cut(text: str, url: str) -> None:
    world = World(url, [Reply(json.dumps({"semantic": [text], "episodic": [{"content": text, "valid_at": text}]}))])
    async with world.opened() as memories:
        await world.remember(memories, exchange(question=text, answer=text))
        await find(memories, text)
        found = await world.entries(memories)
    assert sorted(entry.type for entry in found) == ["episodic", "raw", "semantic"]
    assert all(len(entry.content) < 50_000 for entry in found)
    assert not any("\0" in content for content in contents(found))


@each_row("user", ["a\0b", "a\nb", "\u202eanna", "x" * 1_000, "[1, 2]", "../anna", "*"])
async def test_any_user_has_a_memory_of_its_own(user: str, url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        await world.remember(
            memories, exchange("k1", user, "my tea is green"), exchange("k2", "anna", "my tea is black")
        )
        assert [entry.key for entry in await find(memories, "tea", user)] == ["k1"]
        shelf = memories.shelves["m1"]
        assert await shelf.users("default") == sorted([user, "anna"])
        assert await shelf.delete_user(shelf.namespace("default", user)) == 1
        assert await shelf.users("default") == ["anna"]


@pytest.mark.parametrize(("user", "problem"), [("\ud800", "unpaired surrogates"), ("x" * 1_001, "1,001 characters")])
async def test_a_user_that_no_export_could_name_has_no_memory(user: str, problem: str, file_url: str) -> None:
    world = World(file_url, types=("raw",))
    async with world.opened() as memories:
        with pytest.raises(ServiceError, match=problem):
            await memories.remember(["m1"], exchange(user=user))
        with pytest.raises(ServiceError, match=problem):
            await find(memories, "tea", user)


async def test_concurrent_turns_write_one_memory(url: str) -> None:
    world = World(url, [Reply(FACTS, repeat=True)])
    async with world.opened() as memories:
        writes = (memories.remember(["m1"], exchange(f"k{number}", question=f"tea {number}")) for number in range(40))
        await asyncio.gather(*writes)
        await world.tasks.settle()
        found = await world.entries(memories)
    assert len(found) == 40 * 3
    assert len(world.model.requests) == 40


async def test_memories_outlive_a_restart_of_redis(tmp_path: Path) -> None:
    with redis_process(tmp_path / "redis", *AOF) as server:
        world = World(server.url, types=("raw",))
        async with world.opened() as memories:
            await world.remember(memories, exchange("k1"))
            server.kill()
            with pytest.raises(ServiceError, match="session store"):
                await memories.remember(["m1"], exchange("k2"))
            server.start()
            await world.remember(memories, exchange("k3"))
            assert {entry.key for entry in await find(memories, "Anna")} == {"k1", "k3"}
