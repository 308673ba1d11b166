"""Recordings of searches in datasets."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.recordings import record, replay
from tests.fakes.regions import out
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

FILTER = {"method": "manual", "manual": [{"key": "year", "op": "=", "value": "2026"}]}
METAS = {"year": {"2026": ["doc-guide.pdf"]}}


def retrieval(**params: Any) -> dict[str, Any]:
    return {
        "a": node("Retrieval", {"query": "{sys.query}", "dataset_ids": ["Manuals"], **params}, ["out"]),
        **out("{a@formalized_content}"),
    }


AGENT = {
    "a": node(
        "Agent",
        {
            "llm_id": "m@Test",
            "prompts": "{sys.query}",
            "tools": [{"component_name": "Retrieval", "name": "Search", "params": {"dataset_ids": ["Manuals"]}}],
        },
        ["out"],
    ),
    **out("{a@content}"),
}
ANSWERS = (
    tool_calls(("search_my_dateset_0", {"query": "rice"}), ("search_my_dateset_0", {"query": "tea"})),
    Reply("Rice needs water [ID:1]."),
    Reply("Rice needs water."),
)


@pytest.mark.parametrize(
    ("components", "knowledge"),
    [
        (retrieval(meta_data_filter=FILTER), FakeKnowledge(metas=METAS)),
        (retrieval(meta_data_filter=FILTER, empty_response="Nothing."), FakeKnowledge()),
        (retrieval(), FakeKnowledge(error="The index is down.")),
        (retrieval(dataset_ids=["gone"]), FakeKnowledge()),
        (AGENT, FakeKnowledge()),
    ],
    ids=["found", "no documents", "down", "no dataset", "as a tool"],
)
async def test_a_run_is_replayed_without_the_datasets(
    tmp_path: Path, components: dict[str, Any], knowledge: FakeKnowledge
) -> None:
    file = tmp_path / "r.jsonl"
    services = fake_services(models=OneModel(ScriptedModel(list(ANSWERS))), knowledge=knowledge)
    run, events = await record(file, components, services)
    again, replayed, player = await replay(file, components)
    assert (again.status, again.answer, again.error) == (run.status, run.answer, run.error)
    assert replayed == events
    assert (player.unused, player.problems) == (0, [])


async def test_another_question_is_an_error_in_strict_mode_only(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run, _ = await record(file, retrieval(), fake_services(knowledge=FakeKnowledge()), query="rice")
    changed, _, player = await replay(file, retrieval(), query="tea")
    assert changed.status == "failed"
    assert player.problems == [
        "Node 'a': knowledge.search 'tea' was not recorded; the nearest recorded request (line 7) differs: "
        f"question was 'rice' and is 'tea'. Record again with --record {file}, or match by order with "
        "--replay-mode loose."
    ]
    for components in (retrieval(), retrieval(dataset_ids=["Handbook"], top_n=3)):
        loose, _, player = await replay(file, components, query="tea", is_loose=True)
        assert (loose.answer, player.problems) == (run.answer, [])
