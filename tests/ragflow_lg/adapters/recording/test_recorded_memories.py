"""Recordings of searches in memories."""

from pathlib import Path

import pytest

from tests.fakes.memories import FakeMemories
from tests.fakes.recordings import record, replay
from tests.fakes.regions import node, out
from tests.fakes.services import fake_services

SEARCH = {"query": "{sys.query}", "memory_ids": ["m1"], "retrieval_from": "memory", "empty_response": "nothing"}
COMPONENTS = {"a": node("Retrieval", SEARCH, ["out"]), **out("{a@formalized_content}")}


@pytest.mark.parametrize("entries", [["likes tea", "has a cat"], []])
async def test_a_replay_does_not_search(entries: list[str], tmp_path: Path) -> None:
    file, memories = tmp_path / "r.jsonl", FakeMemories({"m1": entries})
    run, events = await record(file, COMPONENTS, fake_services(memories=memories))
    again, replayed, _ = await replay(file, COMPONENTS)
    assert run.answer == ("likes tea\nhas a cat" if entries else "nothing")
    assert (again.answer, replayed) == (run.answer, events)
    assert len(memories.searches) == 1


@pytest.mark.parametrize("memories", [FakeMemories(), FakeMemories({"m1": []}, error="the store is gone")])
async def test_errors_are_replayed(memories: FakeMemories, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run, events = await record(file, COMPONENTS, fake_services(memories=memories))
    again, replayed, _ = await replay(file, COMPONENTS)
    assert run.status == again.status == "failed"
    assert replayed == events


async def test_a_replay_writes_nothing(tmp_path: Path) -> None:
    file, memories = tmp_path / "r.jsonl", FakeMemories({"m1": []})
    components = {**COMPONENTS, "out": node("Message", {"content": ["hi"], "memory_ids": ["m1"]})}
    await record(file, components, fake_services(memories=memories))
    again, _, _ = await replay(file, components)
    assert (again.status, len(memories.exchanges)) == ("succeeded", 1)
