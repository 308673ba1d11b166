from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.recording.cassette import CassetteWriter, DatasetsLine, MetadataLine, SearchLine, read_cassette
from ragflow_lg.adapters.recording.knowledge_recording import RecordedKnowledge
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, SearchResult
from ragflow_lg.services.services import Caller
from tests.fakes.knowledge import FakeKnowledge, chunk

MANUALS = Dataset("ds1", "Manuals", "embed@Test")


@dataclass
class Failing(FakeKnowledge):
    """A place whose every answer is this error."""

    raised: Exception = field(default_factory=lambda: ServiceError("down"))

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        raise self.raised

    async def search(self, search: DatasetSearch) -> SearchResult:
        raise self.raised


class Slow(FakeKnowledge):
    async def search(self, search: DatasetSearch) -> SearchResult:
        await asyncio.Event().wait()
        raise AssertionError


def recorded(writer: CassetteWriter, knowledge: FakeKnowledge, redactor: Redactor | None = None) -> RecordedKnowledge:
    numbers = iter(range(1, 100))
    return RecordedKnowledge(
        knowledge, Caller("search", "2.0"), redactor or Redactor(), lambda: next(numbers), writer.write
    )


def lines(path: Path) -> list[Any]:
    return [line for _, line in read_cassette(path)]


async def test_every_question_and_answer_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded(writer, FakeKnowledge(metas={"year": {"2026": ["d1"]}}))
        found = await knowledge.datasets(["Manuals", "none"])
        await knowledge.metadata([found["Manuals"]])
        await knowledge.search(DatasetSearch("rice", (MANUALS,), document_ids=()))
        given = await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    datasets, metadata, none, search = lines(file)
    assert [(line.node, line.position, line.order) for line in lines(file)] == [
        ("search", "2.0", number) for number in (1, 2, 3, 4)
    ]
    assert isinstance(datasets, DatasetsLine)
    assert datasets.request == {"names": ["Manuals", "none"]}
    assert [held and held.name for held in datasets.datasets or ()] == ["Manuals", None]
    assert isinstance(metadata, MetadataLine)
    assert metadata.metadata == {"year": {"2026": ["d1"]}}
    assert isinstance(none, SearchLine)
    assert none.request["document_ids"] == []
    assert isinstance(search, SearchLine)
    assert "document_ids" not in search.request
    assert search.found is not None
    assert (search.found.chunks, search.found.total) == (list(given.chunks), 2)
    assert search.found.documents == [("guide.pdf", "doc-guide.pdf", 1), ("tea.md", "doc-tea.md", 1)]


@pytest.mark.parametrize(
    ("raised", "is_setting", "is_retryable"),
    [(ServiceError("It is down.", is_retryable=True), False, True), (SettingsError("Set url."), True, False)],
)
async def test_failures_are_recorded(tmp_path: Path, raised: Exception, is_setting: bool, is_retryable: bool) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded(writer, Failing(raised=raised))
        with pytest.raises(type(raised)):
            await knowledge.datasets(["Manuals"])
        with pytest.raises(type(raised)):
            await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    for line in lines(file):
        assert (line.error.text, line.error.is_setting, line.error.is_retryable, line.is_stopped) == (
            str(raised),
            is_setting,
            is_retryable,
            False,
        )


async def test_a_search_that_nobody_waited_for_is_recorded_as_stopped(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        searching = asyncio.ensure_future(recorded(writer, Slow()).search(DatasetSearch("rice", (MANUALS,))))
        await asyncio.sleep(0)
        searching.cancel()
        await asyncio.wait([searching])
    (line,) = lines(file)
    assert (line.is_stopped, line.found, line.error) == (True, None, None)


async def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    chunks = [chunk("c", "It is settings-key-0001.", api_key="chunk-key-0002")]
    metas = {"access_token": {"meta-key-0003": ["d1"], "meta-key-0004": ["d2"]}}
    with CassetteWriter(file) as writer:
        knowledge = recorded(writer, FakeKnowledge(chunks=chunks, metas=metas), Redactor(["settings-key-0001"]))
        await knowledge.search(DatasetSearch("Is it settings-key-0001?", (MANUALS,)))
        await knowledge.metadata([MANUALS])
    assert "-key-000" not in file.read_text()
    assert lines(file)[1].metadata == {"access_token": {"***": ["d1", "d2"]}}


async def test_what_is_no_json_in_a_chunk_does_not_break_the_search(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    with CassetteWriter(file) as writer:
        knowledge = recorded(writer, FakeKnowledge(chunks=[chunk("c", "Rice.", at=tmp_path), "odd"]))
        found = await knowledge.search(DatasetSearch("rice", (MANUALS,)))
    assert len(found.chunks) == 2
    (line,) = lines(file)
    assert line.found.chunks[1] == "odd"
