import pytest
from langgraph.store.base import PutOp

from ragflow_lg.integrations.memories import stored_memories
from ragflow_lg.integrations.memories.memory_settings import MAX_ENTRIES
from ragflow_lg.integrations.memories.stored_memories import SWEEP_S
from tests.integrations.memories.memory_world import World, exchange, find


async def test_the_oldest_entries_are_forgotten_when_there_are_too_many(file_url: str) -> None:
    world = World(file_url, types=("raw",), max_entries=3)
    async with world.opened() as memories:
        for number in range(6):
            world.clock.move(1)
            await world.remember(memories, exchange(f"k{number}"))
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
        assert {entry.key for entry in await find(memories, "Anna")} == {"k3", "k4", "k5"}


async def test_old_entries_are_not_found_and_are_forgotten(file_url: str) -> None:
    world = World(file_url, types=("raw",), max_age_days=2)
    async with world.opened() as memories:
        await world.remember(memories, exchange("old"))
        world.clock.move(86_400)
        await world.remember(memories, exchange("new"))
        assert len(await find(memories, "Anna")) == 2
        world.clock.move(86_401)
        assert [entry.key for entry in await find(memories, "Anna")] == ["new"]
    async with world.opened() as memories:
        await find(memories, "Anna")
        await world.tasks.settle()
        shelf = memories.shelves["m1"]
        assert [entry.key for entry in await shelf.entries(shelf.namespace("default", "anna"))] == ["new"]


async def test_what_is_too_old_is_forgotten_of_users_who_do_not_return(url: str) -> None:
    world = World(url, types=("raw",), max_age_days=2)
    async with world.opened() as memories:
        await world.remember(memories, exchange(user="anna"))
        world.clock.move(3 * 86_400)
        await world.remember(memories, exchange(user="ben"))
        assert await memories.shelves["m1"].users("default") == ["ben"]


async def test_all_users_together_have_a_limit(url: str) -> None:
    world = World(url, types=("raw",), max_total_entries=3)
    async with world.opened() as memories:
        others = memories.of_tenant("other")
        await others.remember(["m1"], exchange())
        for number in range(6):
            world.clock.move(SWEEP_S)
            await world.remember(memories, exchange(user=f"user {number}"))
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


async def test_an_export_and_a_deletion_leave_nothing_out(file_url: str) -> None:
    world = World(file_url, types=("raw",))
    async with world.opened() as memories:
        shelf = memories.shelves["m1"]
        place = shelf.namespace("default", "anna")
        value = {"type": "semantic", "content": "a fact", "user": "anna"}
        for start in range(0, MAX_ENTRIES + 100, 5050):
            await shelf.store.abatch([PutOp(place, str(start + number), value) for number in range(5050)])
        assert len(await shelf.entries(place)) == MAX_ENTRIES + 100
        assert await shelf.delete_user(place) == MAX_ENTRIES + 100
        assert await shelf.entries(place) == []
