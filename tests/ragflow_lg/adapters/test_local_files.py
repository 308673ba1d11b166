"""Files on this machine."""

import os
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.folder_artifacts import FolderArtifacts
from ragflow_lg.adapters.local_files import LocalFiles
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.local_paths import local_file_id
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.services import FileContent
from ragflow_lg.services.speech import SpokenText
from ragflow_lg.services.workers import NoWorkers
from tests.harness.rows import each_row


class _Ears:
    can_speak = False
    can_transcribe = True

    async def speak(self, text: str, tts_id: str) -> SpokenText:
        raise AssertionError

    async def transcribe(self, name: str, mime_type: str, content: bytes) -> str:
        return f"heard {name} of {len(content)} bytes"


FILES = LocalFiles(NoWorkers(), _Ears())


def attach(path: Path, content: bytes) -> dict[str, str]:
    path.write_bytes(content)
    return {"id": local_file_id(path, content), "name": path.name}


async def test_a_file_is_read_as_text_and_as_bytes(tmp_path: Path) -> None:
    file = attach(tmp_path / "a.csv", b"\xef\xbb\xbfa,b\n")
    assert await FILES.read([file]) == ["a,b\n"]
    assert await FILES.load(file) == FileContent("a.csv", b"\xef\xbb\xbfa,b\n")
    assert await FILES.read([{**file, "content": "known"}]) == ["known"]


@each_row(
    ("file", "text"),
    [
        ("data:text/plain;base64,SGVsbG8=", "Hello"),
        ({"name": "a.txt", "content": "data:text/plain;charset=utf-8;base64,SGVsbG8="}, "Hello"),
        ({"name": "a.csv", "content": "data:text/csv,a%2Cb"}, "a,b"),
        ("data:application/json,%7B%7D", "{}"),
        ("data: three numbers, 5", "data: three numbers, 5"),
        ("data:image/png;base64,AA==", "data:image/png;base64,AA=="),
        ("plain", "plain"),
    ],
)
async def test_a_data_uri_is_read_as_its_text(file: Any, text: str) -> None:
    assert await FILES.read([file]) == [text]


async def test_audio_is_transcribed(tmp_path: Path) -> None:
    assert await FILES.read([attach(tmp_path / "a.mp3", b"123")]) == ["heard a.mp3 of 3 bytes"]


async def test_what_a_run_has_written_is_read(tmp_path: Path) -> None:
    stored = await FolderArtifacts(tmp_path).store(Artifact("a.txt", "text/plain", b"x"))
    assert await FILES.load({"doc_id": stored.id, "file_name": "other"}) == FileContent("a.txt", b"x")


async def test_an_id_gives_access_to_its_content_only(tmp_path: Path) -> None:
    file = attach(tmp_path / "a.txt", b"old")
    (tmp_path / "a.txt").write_bytes(b"new")
    with pytest.raises(ServiceError, match="has changed since it was attached"):
        await FILES.load(file)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ServiceError, match="no such file"):
        await FILES.load(file)
    guessed = f"{'0' * 64}:{tmp_path / 'a.txt'}"
    (tmp_path / "a.txt").write_bytes(b"secret")
    with pytest.raises(ServiceError, match="has changed"):
        await FILES.read([{"id": guessed, "file_id": "x"}])


async def test_paths_and_other_ids_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"secret")
    for file in ({"id": str(tmp_path / "a.txt")}, {"path": str(tmp_path / "a.txt")}, {"id": 7}, 3, None):
        assert await FILES.load(file) is None
    with pytest.raises(ServiceError, match="has no content"):
        await FILES.read([{"id": str(tmp_path / "a.txt")}])
    assert await FILES.load({"id": "x", "text": "data:text/csv,a"}) == FileContent("uploaded.csv", b"a")


async def test_nothing_but_files_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ServiceError, match="it is not a file"):
            await FILES.load({"id": local_file_id(path, b"")})
    with pytest.raises(ServiceError, match="cannot be read"):
        await FILES.load({"id": f"{'0' * 64}:/bad\0path"})
