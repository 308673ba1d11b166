from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import CassetteWriter, DatasetsLine, Line, MetadataLine, SearchLine
from ragflow_lg.adapters.recording.knowledge_replaying import ReplayedKnowledge
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from ragflow_lg.services.services import Caller
from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.recordings import record, replay
from tests.fakes.regions import out
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

FILTER = {"method": "manual", "manual": [{"key": "year", "op": "=", "value": "2026"}]}
METAS = {"year": {"2026": ["doc-guide.pdf"]}}
MANUALS = Dataset("ds1", "Manuals", "embed@Test")


def retrieval(**params: Any) -> dict[str, Any]:
    return {"a": node("Retrieval", {"dataset_ids": ["Manuals"], **params}, ["out"]), **out("{a@formalized_content}")}


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
async def test_a_run_is_the_same_without_the_datasets(
    tmp_path: Path, components: dict[str, Any], knowledge: FakeKnowledge
) -> None:
    file = tmp_path / "r.jsonl"
    services = fake_services(models=OneModel(ScriptedModel(list(ANSWERS))), knowledge=knowledge)
    run, events = await record(file, components, services)
    again, replayed, tape = await replay(file, components)
    assert (again.status, again.answer, again.error) == (run.status, run.answer, run.error)
    assert replayed == events
    assert (tape.unused, tape.problems) == (0, [])


async def test_strictly_another_question_is_an_error_and_loosely_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    run, _ = await record(file, retrieval(), fake_services(knowledge=FakeKnowledge()), query="rice")
    changed, _, tape = await replay(file, retrieval(), query="tea")
    assert changed.status == "failed"
    assert tape.problems == [
        "Node 'a' asks the datasets something that was not recorded; the nearest recorded request (line 5) differs: "
        f"question was 'rice' and is 'tea'. Record again with --record {file}, or match by order with "
        "--replay-mode loose."
    ]
    for components in (retrieval(), retrieval(dataset_ids=["Handbook"], top_n=3)):
        loose, _, tape = await replay(file, components, query="tea", is_loose=True)
        assert (loose.answer, tape.problems) == (run.answer, [])


def lines_of(tmp_path: Path, *lines: Line) -> ReplayedKnowledge:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        for line in lines:
            writer.write(line)
    return ReplayedKnowledge(Player(file, Redactor(), is_loose=True), Caller("a"), Redactor())


async def test_lines_without_an_answer_are_errors(tmp_path: Path) -> None:
    made: dict[str, Any] = {"order": 1, "node": "a", "request": {}}
    knowledge = lines_of(tmp_path, DatasetsLine(**made), SearchLine(**made), MetadataLine(**made))
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.datasets(["Manuals"])
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.metadata([MANUALS])


async def test_a_setting_that_was_wrong_is_told_again(tmp_path: Path) -> None:
    error = {"text": "rerank_id is set.", "is_setting": True}
    line = SearchLine.model_validate({"order": 1, "node": "a", "request": {}, "error": error})
    with pytest.raises(SettingsError, match="rerank_id is set"):
        await lines_of(tmp_path, line).search(DatasetSearch("rice", (MANUALS,)))


async def test_a_recording_without_searches_says_so(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="asks for datasets something that was not recorded; nothing of the kind"):
        await lines_of(tmp_path).datasets(["Manuals"])
