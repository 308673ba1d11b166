import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.knowledge import indexing
from ragflow_lg.integrations.knowledge.indexing import AddedFiles, Indexer, is_deleted, list_source_files
from ragflow_lg.integrations.knowledge.knowledge_file import (
    KnowledgeFile,
    add_dataset,
    find_dataset,
    list_documents,
    read_chunks,
)
from tests.architecture.sources import ROOT
from tests.fakes.embedded import CountingEmbedder


async def add(
    path: Path, embedder: CountingEmbedder | None = None, folder: Path | None = None, *, parallel: int = 4
) -> AddedFiles:
    file = KnowledgeFile((folder or path).parent / "k.db")
    with file.writing() as connection:
        dataset = find_dataset(connection, "d") or add_dataset(connection, "d", "m", chunk_tokens=16, overlap_tokens=0)
    indexer = Indexer(file, dataset, embedder or CountingEmbedder(), parallel=parallel)
    return await indexer.add([file for file in list_source_files(path) if file.is_supported], str(path.resolve()))


def read_stored(folder: Path) -> dict[str, list[str]]:
    with KnowledgeFile(folder.parent / "k.db").reading() as connection:
        documents: dict[str, list[str]] = {document.name: [] for document in list_documents(connection, 1)}
        for chunk in read_chunks(connection, "dataset = 1 ORDER BY chunks.number"):
            documents[chunk.document_name].append(chunk.content)
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
    assert read_stored(folder) == {"a.md": ["A\none"], "b.txt": ["three"], "c.txt": ["four"]}
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


async def test_other_files_and_vectors_are_not_mixed_with_those_of_a_dataset(folder: Path, tmp_path: Path) -> None:
    class Other(CountingEmbedder):
        vector_model = "other"

    await add(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("something else", "utf-8")
    assert "has a document with this name" in (await add(other)).failed["a.md"]
    (folder / "c.txt").write_text("four", "utf-8")
    with pytest.raises(ServiceError, match=r"'d' has vectors of the embedding model .* those of 'other'"):
        await add(folder, Other())


async def test_a_renamed_file_is_neither_a_duplicate_nor_missing(folder: Path) -> None:
    await add(folder)
    (folder / "b.txt").rename(folder / "c.txt")
    (folder / "b.txt").write_text("new", "utf-8")
    report = await add(folder)
    assert (report.added, report.changed, report.duplicates) == (["c.txt"], ["b.txt"], {})
    assert read_stored(folder)["c.txt"] == ["two"]
    (folder / "sub").mkdir()
    (folder / "sub" / "d.txt").write_text("three", "utf-8")
    await add(folder)
    report = await add(folder / "sub", folder=folder)
    assert (report.duplicates, report.missing) == ({"d.txt": "sub/d.txt"}, [])


async def test_lone_surrogates_are_replaced(folder: Path) -> None:
    (folder / "c.json").write_text('["\\ud800 half"]', "utf-8")
    (folder / "c.json.meta.json").write_text('{"\\ud800": "\\udfff", "n": NaN}', "utf-8")
    await add(folder)
    assert read_stored(folder)["c.json"] == ['[\n"\ufffd half"\n]']


async def test_files_with_equal_names_after_decoding_are_reported(folder: Path) -> None:
    for name in (b"\xfe.txt", b"\xff.txt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text(str(name), "utf-8")
    report = await add(folder)
    assert "\ufffd.txt" in report.added
    assert "rename one" in report.failed["\ufffd.txt"]


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.fakes.embedded import CountingEmbedder
from tests.integrations.knowledge.test_indexing import add

class Killed(CountingEmbedder):
    async def embed_chunks(self, texts):
        if len(self.texts) >= 12:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().embed_chunks(texts)

asyncio.run(add(Path(sys.argv[1]), Killed(), parallel=1))
"""


async def test_indexing_continues_after_a_killed_process(folder: Path) -> None:
    for number in range(20):
        (folder / f"c{number}.txt").write_text(f"text {number}", "utf-8")
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
    assert len(embedder.texts) == 22 - 12
    assert len(read_stored(folder)) == 22


def test_files_of_a_folder_are_listed(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.TXT", "a/x.png", ".git/d.md", ".hidden.md", "b.md.meta.json", "~$e.docx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", "utf-8")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x", "utf-8")
    (tmp_path / "link.md").symlink_to("/etc/hostname")
    (tmp_path / "circle").symlink_to(tmp_path)
    files = list_source_files(tmp_path)
    assert [(file.name, file.is_supported) for file in files] == [
        ("b.md", True),
        ("\ufffd.md", True),
        ("a/c.TXT", True),
        ("a/x.png", False),
    ]
    files[1].source.encode("utf-8")
    assert [file.name for file in list_source_files(tmp_path / "b.md")] == ["b.md"]
    for name in ("none", "n" * 300):
        with pytest.raises(ServiceError, match="no file or folder"):
            list_source_files(tmp_path / name)


async def test_files_that_cannot_be_read_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "large.md").write_text("x" * 100, "utf-8")
    (folder / "b.txt.meta.json").write_bytes(b" " * 100)
    os.mkfifo(folder / "pipe.md")
    long = f"{'n' * 250}.md"  # too long for a metadata file
    (folder / long).write_text("text", "utf-8")
    (folder / "linked.md").write_text("linked", "utf-8")
    (folder / "linked.md.meta.json").symlink_to("/etc/hostname")  # not read
    monkeypatch.setattr(indexing, "MAX_FILE_BYTES", 50)
    monkeypatch.setattr(indexing, "MAX_SIDECAR_BYTES", 50)
    (folder / "locked").mkdir()
    walk = os.walk

    def lock(path: Path, onerror: object) -> object:
        for entry in walk(path):
            if entry[0].endswith("locked"):
                onerror(PermissionError(13, "Permission denied", entry[0]))  # pyright: ignore[reportCallIssue]
            else:
                yield entry

    monkeypatch.setattr(os, "walk", lock)
    report = await add(folder)
    assert report.added == ["a.md", "linked.md", long]
    assert report.failed == {
        "b.txt": "'b.txt.meta.json' is larger than 50 bytes; split it",
        "large.md": "'large.md' is larger than 50 bytes; split it",
        "locked/": "it cannot be opened: Is a directory",
        "pipe.md": "it is not a regular file",
    }


def test_deleted_files_and_links_count_as_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", "utf-8")
    (tmp_path / "link").symlink_to("a")
    assert [is_deleted(f"{tmp_path}/{name}") for name in ("a", "b", "a/b", "link", "n" * 300)] == [0, 1, 1, 1, 0]


async def test_a_deleted_dataset_is_an_error(folder: Path) -> None:
    class Deleting(CountingEmbedder):
        async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            with KnowledgeFile(folder.parent / "k.db").writing() as connection:
                connection.execute("DELETE FROM datasets")
            return await super().embed_chunks(texts)

    with pytest.raises(ServiceError, match=r"'d' has been deleted\."):
        await add(folder, Deleting())
