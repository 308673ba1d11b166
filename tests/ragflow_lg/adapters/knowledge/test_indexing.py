from __future__ import annotations

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
    all_chunks,
    delete_dataset,
    documents_of,
    find_dataset,
)
from ragflow_lg.adapters.knowledge.source_files import source_files
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
        return await indexer.add(list(source_files(path)), str(path.resolve()))
    finally:
        database.close()


def stored(folder: Path) -> dict[str, list[str]]:
    database = KnowledgeDatabase(folder.parent / "k.db")
    found: dict[str, list[str]] = {}
    with database.reading() as connection:
        for document in documents_of(connection, 1):
            found[document.name] = ["complete" if document.is_complete else "partial"]
        for chunk in all_chunks(connection, 1):
            found[chunk.document_name].append(chunk.content)
    database.close()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    (made / "a.md").write_text("# A\none", "utf-8")
    (made / "b.txt").write_text("two", "utf-8")
    return made


async def test_only_what_is_new_or_changed_is_embedded(folder: Path) -> None:
    first = await add(folder)
    assert (first.added, first.chunks) == (["a.md", "b.txt"], 2)
    embedder = CountingEmbedder()
    (folder / "b.txt").write_text("three", "utf-8")
    (folder / "c.txt").write_text("four", "utf-8")
    (folder / "a.md.meta.json").write_text('{"year": 2026}', "utf-8")
    second = await add(folder, embedder)
    assert (second.added, second.changed, second.unchanged) == (["c.txt"], ["a.md", "b.txt"], [])
    assert sorted(embedder.texts) == ["A\none", "four", "three"]
    assert stored(folder) == {
        n: ["complete", t] for n, t in (("a.md", "A\none"), ("b.txt", "three"), ("c.txt", "four"))
    }
    (folder / "c.txt").unlink()
    third = await add(folder, CountingEmbedder(fails_after=0))
    assert (third.unchanged, third.missing, third.chunks) == (["a.md", "b.txt"], ["c.txt"], 0)


async def test_bad_files_and_duplicates_are_told_and_the_others_go_in(folder: Path) -> None:
    (folder / "bad.json").write_text("{", "utf-8")
    (folder / "bad.pdf").write_bytes(b"no pdf")
    (folder / "empty.txt").write_text(" \n", "utf-8")
    (folder / "same.txt").write_text("two", "utf-8")
    report = await add(folder)
    assert report.added == ["a.md", "b.txt"]
    assert report.duplicates == {"same.txt": "b.txt"}
    assert list(report.failed) == ["bad.json", "bad.pdf", "empty.txt"]
    assert report.failed["empty.txt"] == "it holds no text"
    (folder / "b.txt").rename(folder / "c.txt")
    renamed = await add(folder)
    assert (renamed.added, renamed.missing) == (["c.txt"], ["b.txt"])
    assert renamed.duplicates == {"same.txt": "c.txt"}


async def test_what_was_stored_before_a_failure_is_not_embedded_again(folder: Path) -> None:
    (folder / "long.txt").write_text("\n\n".join(PARAGRAPHS[:20]), "utf-8")
    with pytest.raises(ServiceError, match="gone"):
        await add(folder, CountingEmbedder(fails_after=8), batch=4, parallel=1)
    assert stored(folder)["long.txt"][0] == "partial"
    embedder = CountingEmbedder()
    report = await add(folder, embedder, batch=4)
    assert len(embedder.texts) == 22 - 8
    assert "long.txt" in report.added
    held = stored(folder)["long.txt"]
    assert held[0] == "complete"
    assert held[1:] == PARAGRAPHS[:20]


async def test_two_files_of_one_name_do_not_replace_each_other(folder: Path, tmp_path: Path) -> None:
    await add(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("something else", "utf-8")
    assert "has a document of this name" in (await add(other)).failed["a.md"]


async def test_vectors_of_another_length_are_refused(folder: Path) -> None:
    await add(folder)
    (folder / "c.txt").write_text("four", "utf-8")

    class Short(CountingEmbedder):
        async def embed_chunks(self, texts: Any) -> Any:
            return [[1.0, 2.0]] * len(texts)

    with pytest.raises(ServiceError, match=r"'d' holds vectors of 384 numbers.*gives 2"):
        await add(folder, Short())


async def test_files_that_swap_their_contents_are_no_duplicates(folder: Path) -> None:
    await add(folder)
    (folder / "b.txt").rename(folder / "c.txt")
    (folder / "b.txt").write_text("new", "utf-8")
    report = await add(folder)
    assert (report.added, report.changed, report.duplicates) == (["c.txt"], ["b.txt"], {})
    assert stored(folder)["c.txt"] == ["complete", "two"]


async def test_a_document_under_another_name_is_not_missing(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "c.txt").write_text("three", "utf-8")
    await add(folder)
    report = await add(folder / "sub", folder=folder)
    assert (report.duplicates, report.missing) == ({"c.txt": "sub/c.txt"}, [])


async def test_halves_of_surrogate_pairs_are_replaced(folder: Path) -> None:
    (folder / "c.json").write_text('["\\ud800 half"]', "utf-8")
    (folder / "c.json.meta.json").write_text('{"\\ud800": "\\udfff", "n": NaN}', "utf-8")
    await add(folder)
    assert stored(folder)["c.json"] == ["complete", "? half"]


async def test_two_files_whose_names_look_the_same(folder: Path) -> None:
    for name in (b"\xfe.txt", b"\xff.txt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(str(name), "utf-8")
    report = await add(folder)
    assert "\ufffd.txt" in report.added
    assert "rename one" in report.failed["\ufffd.txt"]


async def test_a_dataset_that_is_deleted_meanwhile(folder: Path) -> None:
    class Deleting(CountingEmbedder):
        async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            database = KnowledgeDatabase(folder.parent / "k.db")
            with database.writing() as connection:
                delete_dataset(connection, 1)
            database.close()
            return await super().embed_chunks(texts)

    with pytest.raises(ServiceError, match="'d' has been deleted meanwhile"):
        await add(folder, Deleting())


async def test_lengths_that_are_no_float32(folder: Path) -> None:
    class Large(CountingEmbedder):
        async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            return [[1e30, 0.0]] * len(texts)

    await add(folder, Large())
    database = KnowledgeDatabase(folder.parent / "k.db")
    with database.reading() as connection:
        (vector,) = connection.execute("SELECT vector FROM vectors_1").fetchone()
    database.close()
    assert vector == b"\0\0\x80?\0\0\0\0"


async def test_progress_is_told(folder: Path) -> None:
    told: list[Progress] = []
    await add(folder, tell=told.append)
    assert told[-1] == Progress(2, 2, 2)


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


async def test_a_killed_process_is_gone_on_with(folder: Path) -> None:
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
    assert stored(folder)["long.txt"][1:] == PARAGRAPHS
