import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.indexing import AddedFiles, Indexer, Progress
from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
from ragflow_lg.adapters.knowledge.knowledge_records import (
    add_dataset,
    delete_dataset,
    find_dataset,
    iterate_chunks,
    list_documents,
)
from ragflow_lg.adapters.knowledge.source_files import list_source_files
from ragflow_lg.base.errors import ServiceError
from tests.architecture.sources import ROOT
from tests.fakes.embedded import CountingEmbedder

PARAGRAPHS = [f"paragraph number {i} of a long text here" for i in range(30)]


async def add(
    path: Path, embedder: CountingEmbedder | None = None, folder: Path | None = None, **options: Any
) -> AddedFiles:
    database = KnowledgeDatabase((folder or path).parent / "k.db")
    with database.writing() as connection:
        dataset = find_dataset(connection, "d") or add_dataset(connection, "d", "m", chunk_tokens=16, overlap_tokens=0)
    try:
        indexer = Indexer(database, dataset, embedder or CountingEmbedder(), **options)
        return await indexer.add(list(list_source_files(path)), str(path.resolve()))
    finally:
        database.close()


def read_stored(folder: Path) -> dict[str, list[str]]:
    database = KnowledgeDatabase(folder.parent / "k.db")
    documents: dict[str, list[str]] = {}
    with database.reading() as connection:
        for document in list_documents(connection, 1):
            documents[document.name] = ["complete" if document.is_complete else "partial"]
        for chunk in iterate_chunks(connection, 1):
            documents[chunk.document_name].append(chunk.content)
    database.close()
    return documents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.md").write_text("# A\none", "utf-8")
    (files / "b.txt").write_text("two", "utf-8")
    return files


async def test_only_new_and_changed_files_are_embedded(folder: Path) -> None:
    first = await add(folder)
    assert (first.added, first.chunks) == (["a.md", "b.txt"], 2)
    embedder = CountingEmbedder()
    (folder / "b.txt").write_text("three", "utf-8")
    (folder / "c.txt").write_text("four", "utf-8")
    (folder / "a.md.meta.json").write_text('{"year": 2026}', "utf-8")
    second = await add(folder, embedder)
    assert (second.added, second.changed, second.unchanged) == (["c.txt"], ["a.md", "b.txt"], [])
    assert sorted(embedder.texts) == ["A\none", "four", "three"]
    assert read_stored(folder) == {
        n: ["complete", t] for n, t in (("a.md", "A\none"), ("b.txt", "three"), ("c.txt", "four"))
    }
    (folder / "c.txt").unlink()
    third = await add(folder, CountingEmbedder(fails_after=0))
    assert (third.unchanged, third.missing, third.chunks) == (["a.md", "b.txt"], ["c.txt"], 0)


async def test_unreadable_files_and_duplicates_are_reported_and_the_others_added(folder: Path) -> None:
    (folder / "bad.json").write_text("{", "utf-8")
    (folder / "bad.pdf").write_bytes(b"no pdf")
    (folder / "empty.txt").write_text(" \n", "utf-8")
    (folder / "same.txt").write_text("two", "utf-8")
    report = await add(folder)
    assert report.added == ["a.md", "b.txt"]
    assert report.duplicates == {"same.txt": "b.txt"}
    assert list(report.failed) == ["bad.json", "bad.pdf", "empty.txt"]
    assert report.failed["empty.txt"] == "it contains no text"
    (folder / "b.txt").rename(folder / "c.txt")
    renamed = await add(folder)
    assert (renamed.added, renamed.missing) == (["c.txt"], ["b.txt"])
    assert renamed.duplicates == {"same.txt": "c.txt"}


async def test_chunks_stored_before_a_failure_are_not_embedded_again(folder: Path) -> None:
    (folder / "long.txt").write_text("\n\n".join(PARAGRAPHS[:20]), "utf-8")
    with pytest.raises(ServiceError, match="gone"):
        await add(folder, CountingEmbedder(fails_after=8), batch=4, parallel=1)
    assert read_stored(folder)["long.txt"][0] == "partial"
    embedder = CountingEmbedder()
    report = await add(folder, embedder, batch=4)
    assert len(embedder.texts) == 22 - 8
    assert "long.txt" in report.added
    status, *contents = read_stored(folder)["long.txt"]
    assert status == "complete"
    assert contents == PARAGRAPHS[:20]


async def test_a_file_does_not_replace_another_one_with_the_same_name(folder: Path, tmp_path: Path) -> None:
    await add(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("something else", "utf-8")
    assert "has a document with this name" in (await add(other)).failed["a.md"]


async def test_vectors_of_another_length_are_an_error(folder: Path) -> None:
    await add(folder)
    (folder / "c.txt").write_text("four", "utf-8")

    class Short(CountingEmbedder):
        async def embed_chunks(self, texts: Any) -> Any:
            return [[1.0, 2.0]] * len(texts)

    with pytest.raises(ServiceError, match=r"'d' has vectors of 384 numbers.*returns 2"):
        await add(folder, Short())


async def test_vectors_of_another_model_are_not_added(folder: Path) -> None:
    class Other(CountingEmbedder):
        vector_model = "other"

    await add(folder)
    (folder / "c.txt").write_text("four", "utf-8")
    with pytest.raises(ServiceError, match=r"'d' has vectors of the embedding model .* those of 'other'"):
        await add(folder, Other())


async def test_a_renamed_file_is_not_a_duplicate_of_its_old_name(folder: Path) -> None:
    await add(folder)
    (folder / "b.txt").rename(folder / "c.txt")
    (folder / "b.txt").write_text("new", "utf-8")
    report = await add(folder)
    assert (report.added, report.changed, report.duplicates) == (["c.txt"], ["b.txt"], {})
    assert read_stored(folder)["c.txt"] == ["complete", "two"]


async def test_a_document_with_another_name_is_not_missing(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "c.txt").write_text("three", "utf-8")
    await add(folder)
    report = await add(folder / "sub", folder=folder)
    assert (report.duplicates, report.missing) == ({"c.txt": "sub/c.txt"}, [])


async def test_lone_surrogates_are_replaced(folder: Path) -> None:
    (folder / "c.json").write_text('["\\ud800 half"]', "utf-8")
    (folder / "c.json.meta.json").write_text('{"\\ud800": "\\udfff", "n": NaN}', "utf-8")
    await add(folder)
    assert read_stored(folder)["c.json"] == ["complete", "\ufffd half"]


async def test_files_with_equal_names_after_decoding_are_reported(folder: Path) -> None:
    for name in (b"\xfe.txt", b"\xff.txt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(str(name), "utf-8")
    report = await add(folder)
    assert "\ufffd.txt" in report.added
    assert "rename one" in report.failed["\ufffd.txt"]


async def test_a_dataset_deleted_meanwhile_is_an_error(folder: Path) -> None:
    class Deleting(CountingEmbedder):
        async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            database = KnowledgeDatabase(folder.parent / "k.db")
            with database.writing() as connection:
                delete_dataset(connection, 1)
            database.close()
            return await super().embed_chunks(texts)

    with pytest.raises(ServiceError, match=r"'d' has been deleted\."):
        await add(folder, Deleting())


async def test_large_vectors_are_normalized_without_overflow(folder: Path) -> None:
    class Large(CountingEmbedder):
        async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            return [[1e30, 0.0]] * len(texts)

    await add(folder, Large())
    database = KnowledgeDatabase(folder.parent / "k.db")
    with database.reading() as connection:
        (vector,) = connection.execute("SELECT vector FROM vectors_1").fetchone()
    database.close()
    assert vector == b"\0\0\x80?\0\0\0\0"


async def test_progress_is_reported(folder: Path) -> None:
    reports: list[Progress] = []
    await add(folder, on_progress=reports.append)
    assert reports[-1] == Progress(2, 2, 2)


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.fakes.embedded import CountingEmbedder
from tests.ragflow_lg.adapters.knowledge.test_indexing import add

class Killed(CountingEmbedder):
    async def embed_chunks(self, texts):
        if len(self.texts) >= 12:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().embed_chunks(texts)

asyncio.run(add(Path(sys.argv[1]), Killed(), batch=4, parallel=1))
"""


async def test_indexing_continues_after_a_killed_process(folder: Path) -> None:
    (folder / "long.txt").write_text("\n\n".join(PARAGRAPHS), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    embedder = CountingEmbedder()
    await add(folder, embedder)
    assert len(embedder.texts) == 32 - 12
    assert read_stored(folder)["long.txt"][1:] == PARAGRAPHS
