import asyncio
from typing import Any

import pytest
from langgraph.store.base import PutOp

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.memories import background_tasks
from ragflow_lg.integrations.memories.background_tasks import BackgroundTasks
from ragflow_lg.integrations.memories.stored_memories import ABANDONED_S, MAX_ATTEMPTS, MAX_PER_TYPE
from tests.fakes.services import Reply, ScriptedModel
from tests.integrations.memories.memory_world import FACTS, World, contents, exchange, find


async def test_an_exchange_is_stored_and_extracted_once(url: str) -> None:
    world = World(url, [Reply(FACTS)])
    async with world.opened() as memories:
        await world.remember(memories)
        await world.remember(memories, exchange(answer="Hello again!"))
        assert len(await find(memories, "Anna", similarity_threshold=0.0)) == 3
    assert len(world.model.requests) == 1


async def test_the_style_of_the_prompts_asks_for_an_answer_that_is_read(url: str) -> None:
    world = World(url, [Reply(f"```json\n{FACTS}\n```")], types=("semantic", "episodic"))
    world.prompts = {"style": "ragflow"}
    async with world.opened() as memories:
        await world.remember(memories)
        assert contents(await world.entries(memories)) == {"The user's name is Anna.", "The user flew to Oslo."}
    ((_, request),) = world.model.requests
    assert "even if you find others: semantic, episodic\n" in request.system
    assert "{" + "types}" not in request.system


async def test_storing_does_not_wait_for_the_model(url: str) -> None:
    world = World(url, [Reply(hangs=True)])
    async with world.opened() as memories:
        async with asyncio.timeout(60):
            await memories.remember(["m1"], exchange())
            assert await find(memories, "Anna") == []  # it is embedded with what it says
        background_tasks.CLOSE_S = 0.05
    assert len(world.model.requests) == 1


async def test_an_extraction_that_a_stop_has_cut_off_is_taken_up_again(file_url: str) -> None:
    world = World(file_url, [Reply(hangs=True)])
    background_tasks.CLOSE_S = 0.05
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await asyncio.sleep(0.05)
    world.model = ScriptedModel([Reply(FACTS)])
    async with world.opened() as memories:
        assert await find(memories, "Anna") == []
        await world.tasks.settle()
        assert len(world.model.requests) == 0  # another process may still be at it
    world.clock.move(ABANDONED_S + 1)
    async with world.opened() as memories:
        assert await find(memories, "Anna") == []
        await world.tasks.settle()
        assert "The user's name is Anna." in contents(await find(memories, "Anna"))
    assert len(world.model.requests) == 1


@pytest.mark.parametrize("reply", [{"error": "no such model"}, {"text": "I would rather not."}, {"text": "[1, 2]"}])
async def test_a_failing_extraction_is_tried_again_and_then_given_up(reply: Any, file_url: str) -> None:
    world = World(file_url, [Reply(**reply, repeat=True)])
    for _ in range(MAX_ATTEMPTS + 2):
        async with world.opened() as memories:
            await world.remember(memories)
        world.clock.move(ABANDONED_S + 1)
    assert len(world.model.requests) == MAX_ATTEMPTS
    async with world.opened() as memories:  # it is found as it was said
        assert [entry.type for entry in await find(memories, "Anna")] == ["raw"]


async def test_a_failing_embedding_model_keeps_the_exchange(file_url: str) -> None:
    world = World(file_url, [Reply(FACTS, repeat=True)])
    world.embed_error = "the embedding model is gone"
    async with world.opened() as memories:
        await world.remember(memories)
        with pytest.raises(ServiceError, match="is gone"):
            await find(memories, "Anna")
    world.embed_error = ""
    world.clock.move(ABANDONED_S + 1)
    async with world.opened() as memories:
        await world.remember(memories)
        assert len(await find(memories, "Anna", similarity_threshold=0.0)) == 3


async def test_without_types_to_extract_no_model_is_asked(url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        await world.remember(memories)
        assert len(await find(memories, "Anna")) == 1
    assert len(world.model.requests) == 0


async def test_more_extractions_than_allowed_are_left_for_later(monkeypatch: pytest.MonkeyPatch, file_url: str) -> None:
    monkeypatch.setattr(background_tasks, "MAX_WAITING", 3)
    world = World(file_url, [Reply(FACTS, repeat=True)])
    async with world.opened() as memories:
        await asyncio.gather(*(memories.remember(["m1"], exchange(f"k{number}")) for number in range(10)))
        await world.tasks.settle()
    assert len(world.model.requests) < 10
    world.clock.move(ABANDONED_S + 1)
    monkeypatch.setattr(background_tasks, "MAX_WAITING", 100)
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
    assert len(world.model.requests) == 10


async def test_what_is_deleted_during_its_extraction_does_not_come_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(url, [Reply(FACTS)])
    async with world.opened() as memories:
        extract, deleted = getattr(memories, "_extract"), asyncio.Event()  # noqa: B009 - it is private

        async def extract_later(*arguments: Any) -> Any:
            await deleted.wait()
            return await extract(*arguments)

        monkeypatch.setattr(memories, "_extract", extract_later)
        await memories.remember(["m1"], exchange())
        await asyncio.sleep(0)
        shelf = memories.shelves["m1"]
        place = shelf.namespace("default", "anna")
        assert await shelf.delete_user(place) == 1
        deleted.set()
        await world.tasks.settle()
        assert await shelf.entries(place) == []


async def test_what_another_process_deletes_during_a_write_does_not_come_back(
    file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(file_url)
    async with world.opened() as here, world.opened() as there:
        one, other = here.shelves["m1"], there.shelves["m1"]
        place = one.namespace("default", "anna")
        value = {"type": "semantic", "content": "a fact", "user": "anna"}
        put = one.store.abatch

        async def delete_first(ops: Any) -> Any:
            changes = [op for op in ops if isinstance(op, PutOp)]
            if changes:
                monkeypatch.undo()
                await other.delete_user(place)
            return await put(ops)

        for change in (
            lambda: one.write(place, {"k": value, "k-1": value}, "k"),
            lambda: one.activate(place, "k", is_active=False),
        ):
            await one.write(place, {"k": value})
            monkeypatch.setattr(one.store, "abatch", delete_first)
            await change()
            assert await one.entries(place) == []
        await one.write(place, {"k": value})
        await one.write(place, {"k": value, "k-1": value}, "k")
        assert len(await one.entries(place)) == 2


async def test_rubbish_from_the_model_is_bounded(file_url: str) -> None:
    answers = [
        "[" * 100_000,
        '{"semantic": "no list", "episodic": {"content": "no list"}, "procedural": null}',
        '{"semantic": [null, 3, {"content": 3}, ["a"], {"text": "b"}, {"content": " "}]}',
        '{"semantic": [' + ", ".join(['"' + "x" * 3_000 + '"'] * 1_000) + "]}",
    ]
    for answer in answers:
        world = World(file_url, [Reply(answer, repeat=True)])
        async with world.opened() as memories:
            await world.remember(memories)
            found = await world.entries(memories)
        assert 1 <= len(found) <= 1 + MAX_PER_TYPE
        assert sum(len(entry.content) for entry in found) < 20_000


async def test_without_the_raw_type_the_text_is_not_kept_after_its_extraction(url: str) -> None:
    world = World(url, [Reply(FACTS)], types=("semantic",))
    async with world.opened() as memories:
        await world.remember(memories, exchange(question="my secret"))
        shelf = memories.shelves["m1"]
        place = shelf.namespace("default", "anna")
        stored = await shelf.entries(place)
        assert "secret" not in str([entry.value for entry in stored])
        assert [entry.type for entry in shelf.remembered(stored)] == ["semantic"]
        await memories.remember(["m1"], exchange(question="my secret"))  # as a run that is continued does
        await world.tasks.settle()
        assert await shelf.delete_with_extracted(place, ["k1"]) == len(stored)
    assert len(world.model.requests) == 1


async def test_one_of_two_processes_takes_up_an_extraction(url: str) -> None:
    world = World(url, [Reply(hangs=True), Reply(FACTS, repeat=True)])
    background_tasks.CLOSE_S = 0.05
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await asyncio.sleep(0.05)
        world.clock.move(ABANDONED_S + 1)
        others = [memories.of_tenant("default") for _ in range(5)]
        for other in others:
            other._tasks = BackgroundTasks()  # pyright: ignore[reportPrivateUsage] - as in another process
        await asyncio.gather(*(find(other, "Anna") for other in others))
        await asyncio.gather(*(other._tasks.settle() for other in others))  # pyright: ignore[reportPrivateUsage]
        assert len(world.model.requests) == 2


async def test_an_extraction_that_is_taken_up_knows_when_it_was_said(file_url: str) -> None:
    world = World(file_url, [Reply(hangs=True)])
    background_tasks.CLOSE_S = 0.05
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await asyncio.sleep(0.05)
    world.clock.move(ABANDONED_S + 1)
    world.clock.local = "2026-02-03 04:05:06"
    world.model = ScriptedModel([Reply('{"semantic": ["The user flies tomorrow."]}')])
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
        found = await find(memories, "Anna flies", similarity_threshold=0.0)
    ((_, request),) = world.model.requests
    assert "2026-01-02 03:04:05" in request.system
    assert {entry.valid_at for entry in found} == {"2026-01-02 03:04:05"}
