import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import (
    CassetteWriter,
    ExchangeLine,
    FailureRecord,
    Line,
    read_cassette,
)
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.adapters.recording.recorder import Recorder
from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, SearchResult
from ragflow_lg.services.services import Caller, Services
from ragflow_lg.services.tool_policies import ToolPolicies
from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.recordings import record, replay
from tests.fakes.regions import out
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, OneModel, Reply, ScriptedModel, fake_services

MANUALS = Dataset("ds1", "Manuals", "embed@Test")


@dataclass
class Failing(FakeKnowledge):
    """Datasets that raise an error for every request."""

    error_raised: Exception = field(default_factory=lambda: ServiceError("down"))

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        raise self.error_raised

    async def search(self, search: DatasetSearch) -> SearchResult:
        raise self.error_raised


class Slow(FakeKnowledge):
    async def search(self, search: DatasetSearch) -> SearchResult:
        await asyncio.Event().wait()
        raise AssertionError


def knowledge_of(services: Services, caller: Caller) -> Knowledge:
    assert services.for_caller is not None
    knowledge = services.for_caller(caller).knowledge
    assert knowledge is not None
    return knowledge


def recorded_knowledge(writer: CassetteWriter, knowledge: FakeKnowledge, redactor: Redactor | None = None) -> Knowledge:
    """Return datasets that are recorded for one caller."""
    services = Recorder(writer, redactor or Redactor()).wrap(fake_services(knowledge=knowledge))
    return knowledge_of(services, Caller("search", "2.0"))


def lines(path: Path) -> list[Any]:
    return [line for _, line in read_cassette(path)]


async def test_every_exchange_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded_knowledge(writer, FakeKnowledge(metas={"year": {"2026": ["d1"]}}))
        by_name = await knowledge.datasets(["Manuals", "none"])
        await knowledge.metadata([by_name["Manuals"]])
        await knowledge.search(DatasetSearch("rice", (MANUALS,), document_ids=()))
        result = await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    datasets, metadata, none, search = lines(file)
    assert [(line.node, line.position, line.order) for line in lines(file)] == [
        ("search", "2.0", number) for number in (1, 2, 3, 4)
    ]
    assert [line.service for line in lines(file)] == ["datasets", "metadata", "search", "search"]
    assert datasets.request == {"names": ["Manuals", "none"]}
    assert [entry and entry[1] for entry in datasets.answer] == ["Manuals", None]
    assert metadata.answer == {"year": {"2026": ["d1"]}}
    assert none.request["document_ids"] == []
    assert "document_ids" not in search.request
    assert (search.answer["chunks"], search.answer["total"]) == (list(result.chunks), 2)
    assert search.answer["documents"] == [["guide.pdf", "doc-guide.pdf", 1], ["tea.md", "doc-tea.md", 1]]


@pytest.mark.parametrize(
    ("error", "is_setting", "is_retryable"),
    [(ServiceError("It is down.", is_retryable=True), False, True), (SettingsError("Set url."), True, False)],
)
async def test_failures_are_recorded(tmp_path: Path, error: Exception, is_setting: bool, is_retryable: bool) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded_knowledge(writer, Failing(error_raised=error))
        with pytest.raises(type(error)):
            await knowledge.datasets(["Manuals"])
        with pytest.raises(type(error)):
            await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    for line in lines(file):
        assert (line.error.text, line.error.is_setting, line.error.is_retryable, line.is_stopped) == (
            str(error),
            is_setting,
            is_retryable,
            False,
        )


async def test_a_cancelled_search_is_recorded_as_stopped(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        searching = asyncio.ensure_future(recorded_knowledge(writer, Slow()).search(DatasetSearch("rice", (MANUALS,))))
        await asyncio.sleep(0)
        searching.cancel()
        await asyncio.wait([searching])
    (line,) = lines(file)
    assert (line.is_stopped, line.answer, line.error) == (True, None, None)


async def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    chunks = [chunk("c", "It is settings-key-0001.", api_key="chunk-key-0002")]
    metas = {"access_token": {"meta-key-0003": ["d1"], "meta-key-0004": ["d2"]}}
    with CassetteWriter(file) as writer:
        knowledge = recorded_knowledge(
            writer, FakeKnowledge(chunks=chunks, metas=metas), Redactor(["settings-key-0001"])
        )
        await knowledge.search(DatasetSearch("Is it settings-key-0001?", (MANUALS,)))
        await knowledge.metadata([MANUALS])
    assert "-key-000" not in file.read_text()
    assert lines(file)[1].answer == {"access_token": {"***": ["d1", "d2"]}}


async def test_values_in_chunks_that_are_not_json_become_strings(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded_knowledge(writer, FakeKnowledge(chunks=[chunk("c", "Rice.", at=tmp_path), "odd"]))
        result = await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    assert len(result.chunks) == 2
    (line,) = lines(file)
    assert line.answer["chunks"][1] == "odd"


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
        "Node 'a': this request (dataset search) was not recorded; the nearest recorded request (line 5) differs: "
        f"question was 'rice' and is 'tea'. Record again with --record {file}, or match by order with "
        "--replay-mode loose."
    ]
    for components in (retrieval(), retrieval(dataset_ids=["Handbook"], top_n=3)):
        loose, _, player = await replay(file, components, query="tea", is_loose=True)
        assert (loose.answer, player.problems) == (run.answer, [])


def replayed_knowledge(tmp_path: Path, *lines: Line) -> Knowledge:
    """Return datasets that answer from lines, in loose mode."""
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        for line in lines:
            writer.write(line)
    player = Player(file, Redactor(), is_loose=True)
    return knowledge_of(player.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies()), Caller("a"))


async def test_lines_without_an_answer_are_errors(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"order": 1, "node": "a", "request": {}}
    knowledge = replayed_knowledge(
        tmp_path, *(ExchangeLine(service=service, **fields) for service in ("datasets", "search", "metadata"))
    )
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.datasets(["Manuals"])
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    with pytest.raises(ServiceError, match="has no answer"):
        await knowledge.metadata([MANUALS])


async def test_a_settings_error_is_replayed_as_one(tmp_path: Path) -> None:
    error = FailureRecord("rerank_id is set.", is_setting=True)
    line = ExchangeLine(service="search", order=1, node="a", request={}, error=error)
    with pytest.raises(SettingsError, match="rerank_id is set"):
        await replayed_knowledge(tmp_path, line).search(DatasetSearch("rice", (MANUALS,)))


async def test_a_request_of_a_kind_that_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        CassetteError, match=r"\(dataset lookup\) was not recorded; the recording has no request of this kind"
    ):
        await replayed_knowledge(tmp_path).datasets(["Manuals"])
