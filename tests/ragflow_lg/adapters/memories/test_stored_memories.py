import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.endpoint_embedder import HashingEmbedder
from ragflow_lg.adapters.memories import background_tasks, stored_memories
from ragflow_lg.adapters.memories.background_tasks import BackgroundTasks
from ragflow_lg.adapters.memories.extraction import MAX_PER_TYPE
from ragflow_lg.adapters.memories.memory_layout import FIELD
from ragflow_lg.adapters.memories.memory_settings import MAX_ENTRIES, MemorySettings
from ragflow_lg.adapters.memories.memory_shelf import MemoryShelf, put_value
from ragflow_lg.adapters.memories.stored_memories import ABANDONED_S, MAX_ATTEMPTS, SWEEP_S, StoredMemories
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.checkpoints import open_items
from ragflow_lg.models.prompt_texts import PROMPTS
from ragflow_lg.services.memories import Exchange, MemorySearch, Remembered
from tests.fakes.redis_process import AOF, redis_process
from tests.fakes.services import MovingClock, OneModel, Reply, ScriptedModel
from tests.stores import fresh_prefix

FACTS = json.dumps(
    {
        "semantic": [{"content": "The user's name is Anna.", "valid_at": "2026-01-01"}],
        "episodic": [{"content": "The user flew to Oslo.", "valid_at": "2025-12-24T10:00:00", "invalid_at": "no date"}],
        "unknown": [{"content": "left out"}],
    }
)


class World:
    """Memories with a scripted model, over a store that survives `reopened`."""

    def __init__(self, url: str, replies: Sequence[Reply] = (), **settings: Any) -> None:
        self.url = url
        self.prefix = fresh_prefix()
        self.model = ScriptedModel(list(replies))
        self.clock = MovingClock()
        self.settings = MemorySettings("m1", **settings)
        self.embed_error = ""
        self.vector_model = "hashing"
        self.tasks = BackgroundTasks()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[StoredMemories]:
        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            if self.embed_error:
                raise ServiceError(self.embed_error)
            return await HashingEmbedder().embed_chunks(texts)

        async with open_items(self.url, self.clock, prefix=self.prefix) as items:
            self.tasks = BackgroundTasks()
            store = items.indexed(embed, [FIELD], self.vector_model)
            shelves = {
                id_: MemoryShelf(replace(self.settings, id=id_), store, store, compares_words=True)
                for id_ in ("m1", "m2")
            }
            prompt = PROMPTS["memory_extraction"].text
            yield StoredMemories(shelves, self.tasks, OneModel(self.model), self.clock, prompt)
            await self.tasks.aclose()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/items.db"


def exchange(key: str = "k1", user: str = "anna", question: str = "I am Anna.", answer: str = "Hello!") -> Exchange:
    return Exchange(key, user, question, answer)


async def find(memories: StoredMemories, question: str, user: str = "anna", **more: Any) -> list[Remembered]:
    return [*(await memories.search(MemorySearch(question, more.pop("ids", ("m1",)), user, **more))).entries]


def contents(found: Sequence[Remembered]) -> set[str]:
    return {entry.content for entry in found}


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
        others = memories.restrict("other", ["m1"], OneModel(world.model), world_workers())
        visitors = memories.for_agent("agent1", is_page=True)
        for number, user in enumerate(users):
            for owner, realm in ((memories, "first"), (others, "second"), (visitors, "third")):
                await owner.remember(["m1"], exchange(f"k{number}", user, f"the secret of {realm} {number}"))
        await world.tasks.settle()
        for number, user in enumerate(users):
            for owner, realm in ((memories, "first"), (others, "second"), (visitors, "third")):
                found = await find(owner, "the secret", user, top_n=100, similarity_threshold=0.0)
                assert contents(found) == {f"User: the secret of {realm} {number}\nAssistant: Hello!"}
        assert await find(memories, "the secret", "nobody", similarity_threshold=0.0) == []


def world_workers() -> Any:
    from ragflow_lg.services.workers import NoWorkers

    return NoWorkers()


async def test_an_exchange_is_stored_and_extracted_once(url: str) -> None:
    world = World(url, [Reply(FACTS)])
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        await memories.remember(["m1"], exchange(answer="Hello again!"))
        await world.tasks.settle()
        assert len(await find(memories, "Anna", similarity_threshold=0.0)) == 3
    assert len(world.model.requests) == 1


async def test_storing_does_not_wait_for_the_model(url: str) -> None:
    world = World(url, [Reply(hangs=True)])
    async with world.opened() as memories:
        async with asyncio.timeout(5):
            await memories.remember(["m1"], exchange())
            assert await find(memories, "Anna") == []  # it is embedded with what it says
        background_tasks.CLOSE_S = 0.05
    assert len(world.model.requests) == 1


@pytest.fixture(autouse=True)
def _close_soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    monkeypatch.setattr(background_tasks, "CLOSE_S", 5.0)


async def test_an_extraction_that_a_stop_has_cut_off_is_taken_up_again(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", [Reply(hangs=True)])
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


@pytest.mark.parametrize("reply", [Reply(error="no such model"), Reply("I would rather not."), Reply("[1, 2]")])
async def test_a_failing_extraction_is_tried_again_and_then_given_up(reply: Reply, tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", [replace_reply(reply)])
    for _ in range(MAX_ATTEMPTS + 2):
        async with world.opened() as memories:
            await memories.remember(["m1"], exchange())
            await world.tasks.settle()
        world.clock.move(ABANDONED_S + 1)
    assert len(world.model.requests) == MAX_ATTEMPTS


def replace_reply(reply: Reply) -> Reply:
    from dataclasses import replace as replace_fields

    return replace_fields(reply, repeat=True)


async def test_a_failing_embedding_model_keeps_the_exchange(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", [Reply(FACTS, repeat=True)])
    world.embed_error = "the embedding model is gone"
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        with pytest.raises(ServiceError, match="is gone"):
            await find(memories, "Anna")
    world.embed_error = ""
    world.clock.move(ABANDONED_S + 1)
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        assert len(await find(memories, "Anna", similarity_threshold=0.0)) == 3


async def test_another_embedding_model_embeds_everything_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", types=("raw",))
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


async def test_only_wanted_types_are_extracted_and_found(url: str) -> None:
    world = World(url, [Reply(FACTS)], types=("semantic",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        found = await find(memories, "Anna", similarity_threshold=0.0)
    assert contents(found) == {"The user's name is Anna."}


async def test_without_types_to_extract_no_model_is_asked(url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        assert len(await find(memories, "Anna")) == 1
    assert len(world.model.requests) == 0


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


async def test_the_oldest_entries_are_forgotten_when_there_are_too_many(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", types=("raw",), max_entries=3)
    async with world.opened() as memories:
        for number in range(6):
            world.clock.move(1)
            await memories.remember(["m1"], exchange(f"k{number}"))
            await world.tasks.settle()
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
        assert {entry.key for entry in await find(memories, "Anna")} == {"k3", "k4", "k5"}


async def test_old_entries_are_not_found_and_are_forgotten(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", types=("raw",), max_age_days=2)
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange("old"))
        await world.tasks.settle()
        world.clock.move(86_400)
        await memories.remember(["m1"], exchange("new"))
        await world.tasks.settle()
        assert len(await find(memories, "Anna")) == 2
        world.clock.move(86_401)
        assert [entry.key for entry in await find(memories, "Anna")] == ["new"]
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
        shelf = memories.shelves["m1"]
        assert [entry.key for entry in await shelf.entries(shelf.namespace("default", "anna"))] == ["new"]


async def test_long_texts_are_cut(url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange(question="tea " * 100_000, answer="x" * 100_000))
        await world.tasks.settle()
        (found,) = await find(memories, "tea " * 100_000, similarity_threshold=0.0)
    assert len(found.content) < 50_000


@pytest.mark.parametrize(
    "value",
    [{}, {"type": "raw"}, {"type": "raw", "content": 3}, {"type": ["raw"], "content": "Anna"}, {"content": "Anna"}],
)
async def test_what_another_program_has_stored_there_is_ignored(value: dict[str, Any], url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        shelf = memories.shelves["m1"]
        await shelf.store.aput(
            shelf.namespace("default", "anna"), "foreign", {**value, "content2": "Anna"}, index=["content2"]
        )
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        assert [entry.key for entry in await find(memories, "Anna", similarity_threshold=0.0)] == ["k1"]


async def test_more_extractions_than_allowed_are_left_for_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(background_tasks, "MAX_WAITING", 3)
    world = World(f"sqlite:///{tmp_path}/items.db", [Reply(FACTS, repeat=True)])
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


async def test_a_failing_store_is_a_failing_service(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", types=("raw",))
    async with world.opened() as memories:
        (tmp_path / "items.db").unlink()
        with pytest.raises(ServiceError, match="session store"):
            await memories.remember(["m1"], exchange())
        with pytest.raises(ServiceError, match="session store"):
            await find(memories, "Anna")
        await world.tasks.settle()


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


@pytest.mark.parametrize(
    "text", ["my tea \ud800", "\0", "\u202e\u2066\uffff", "tea" * 400_000, "{{ 1 }} '; DROP TABLE items"]
)
async def test_any_text_is_stored(text: str, url: str) -> None:
    world = World(url, [Reply(json.dumps({"semantic": [text], "episodic": [{"content": text, "valid_at": text}]}))])
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange(question=text, answer=text))
        await world.tasks.settle()
        await find(memories, text)
        shelf = memories.shelves["m1"]
        found = shelf.remembered(await shelf.entries(shelf.namespace("default", "anna")))
    assert sorted(entry.type for entry in found) == ["episodic", "raw", "semantic"]
    assert all(len(entry.content) < 50_000 for entry in found)


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 100_000,
        '{"semantic": "no list", "episodic": {"content": "no list"}, "procedural": null}',
        '{"semantic": [null, 3, {"content": 3}, ["a"], {"text": "b"}, {"content": " "}]}',
        '{"semantic": [' + ", ".join(['"' + "x" * 3_000 + '"'] * 1_000) + "]}",
    ],
)
async def test_rubbish_from_the_model_is_bounded(answer: str, url: str) -> None:
    world = World(url, [Reply(answer, repeat=True)])
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange())
        await world.tasks.settle()
        shelf = memories.shelves["m1"]
        found = shelf.remembered(await shelf.entries(shelf.namespace("default", "anna")))
    assert 1 <= len(found) <= 1 + MAX_PER_TYPE
    assert sum(len(entry.content) for entry in found) < 20_000


@pytest.mark.parametrize("user", ["a\0b", "a\nb", "\u202eanna", "x" * 1_000, "[1, 2]", "../anna", "*"])
async def test_any_user_has_a_memory_of_its_own(user: str, url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange("k1", user, "my tea is green"))
        await memories.remember(["m1"], exchange("k2", "anna", "my tea is black"))
        await world.tasks.settle()
        assert [entry.key for entry in await find(memories, "tea", user)] == ["k1"]
        shelf = memories.shelves["m1"]
        assert await shelf.users("default") == sorted([user, "anna"])
        assert await shelf.delete_user(shelf.namespace("default", user)) == 1
        assert await shelf.users("default") == ["anna"]


@pytest.mark.parametrize(("user", "problem"), [("\ud800", "unpaired surrogates"), ("x" * 1_001, "1,001 characters")])
async def test_a_user_that_no_export_could_name_has_no_memory(user: str, problem: str, tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", types=("raw",))
    async with world.opened() as memories:
        with pytest.raises(ServiceError, match=problem):
            await memories.remember(["m1"], exchange(user=user))
        with pytest.raises(ServiceError, match=problem):
            await find(memories, "tea", user)


async def test_what_cannot_be_extracted_is_found_as_it_was_said(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", [Reply("I would rather not.", repeat=True)])
    for _ in range(MAX_ATTEMPTS):
        async with world.opened() as memories:
            await memories.remember(["m1"], exchange())
            await world.tasks.settle()
        world.clock.move(ABANDONED_S + 1)
    async with world.opened() as memories:
        assert [entry.type for entry in await find(memories, "Anna")] == ["raw"]


async def test_without_the_raw_type_the_text_is_not_kept_after_its_extraction(url: str) -> None:
    world = World(url, [Reply(FACTS)], types=("semantic",))
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange(question="my secret"))
        await world.tasks.settle()
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
        others = [memories.restrict("default", ["m1"], OneModel(world.model), world_workers()) for _ in range(5)]
        for other in others:
            other._tasks = BackgroundTasks()  # pyright: ignore[reportPrivateUsage] - as in another process
        await asyncio.gather(*(find(other, "Anna") for other in others))
        await asyncio.gather(*(other._tasks.settle() for other in others))  # pyright: ignore[reportPrivateUsage]
        assert len(world.model.requests) == 2


async def test_an_extraction_that_is_taken_up_knows_when_it_was_said(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/items.db", [Reply(hangs=True)])
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


async def test_what_is_too_old_is_forgotten_of_users_who_do_not_return(url: str) -> None:
    world = World(url, types=("raw",), max_age_days=2)
    async with world.opened() as memories:
        await memories.remember(["m1"], exchange(user="anna"))
        await world.tasks.settle()
        world.clock.move(3 * 86_400)
        await memories.remember(["m1"], exchange(user="ben"))
        await world.tasks.settle()
        assert await memories.shelves["m1"].users("default") == ["ben"]


async def test_all_users_together_have_a_limit(url: str) -> None:
    world = World(url, types=("raw",), max_total_entries=3)
    async with world.opened() as memories:
        others = memories.restrict("other", ["m1"], OneModel(world.model), world_workers())
        await others.remember(["m1"], exchange())
        for number in range(6):
            world.clock.move(SWEEP_S)
            await memories.remember(["m1"], exchange(user=f"user {number}"))
            await world.tasks.settle()
        assert len(await memories.shelves["m1"].users("default")) <= 4
        assert await memories.shelves["m1"].users("other") == ["anna"]


async def test_users_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_memories, "MAX_COUNTED", 10)
    world = World("memory://", types=("raw",))
    async with world.opened() as memories:
        for number in range(50):
            await find(memories, "tea", f"user {number}")
            await world.tasks.settle()
        assert len(memories._uses) <= 10  # pyright: ignore[reportPrivateUsage]


async def test_concurrent_turns_write_one_memory(url: str) -> None:
    world = World(url, [Reply(FACTS, repeat=True)])
    async with world.opened() as memories:
        writes = (memories.remember(["m1"], exchange(f"k{number}", question=f"tea {number}")) for number in range(40))
        await asyncio.gather(*writes)
        await world.tasks.settle()
        shelf = memories.shelves["m1"]
        found = shelf.remembered(await shelf.entries(shelf.namespace("default", "anna")))
    assert len(found) == 40 * 3
    assert len(world.model.requests) == 40


async def test_an_export_and_a_deletion_leave_nothing_out(url: str) -> None:
    world = World(url, types=("raw",))
    async with world.opened() as memories:
        shelf = memories.shelves["m1"]
        place = shelf.namespace("default", "anna")
        value = {"type": "semantic", "content": "a fact", "user": "anna"}
        puts = [put_value(place, str(number), value, is_indexed=False) for number in range(MAX_ENTRIES + 100)]
        await shelf.store.abatch(puts)
        assert len(await shelf.entries(place)) == MAX_ENTRIES + 100
        assert await shelf.delete_user(place) == MAX_ENTRIES + 100
        assert await shelf.entries(place) == []


async def test_memories_outlive_a_restart_of_redis(tmp_path: Path) -> None:
    with redis_process(tmp_path / "redis", *AOF) as server:
        world = World(server.url, types=("raw",))
        async with world.opened() as memories:
            await memories.remember(["m1"], exchange("k1"))
            await world.tasks.settle()
            server.kill()
            with pytest.raises(ServiceError, match="session store"):
                await memories.remember(["m1"], exchange("k2"))
            server.start()
            await memories.remember(["m1"], exchange("k3"))
            await world.tasks.settle()
            assert {entry.key for entry in await find(memories, "Anna")} == {"k1", "k3"}
