"""Files of runs in a folder."""

from pathlib import Path

import pytest

from ragflow_lg.adapters.folder_artifacts import FolderArtifacts, file_name
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.artifacts import Artifact
from tests.harness.rows import each_row


async def test_files_are_written_and_found_again(tmp_path: Path) -> None:
    artifacts = FolderArtifacts(tmp_path / "new" / "folder")
    first = await artifacts.store(Artifact("a.csv", "text/csv", b"1,2"))
    second = await artifacts.store(Artifact("a.csv", "text/csv", b"3"), has_text=False)
    assert (first.text, second.text) == ("1,2", "")
    assert [Path(stored.url).name for stored in (first, second)] == ["a.csv", "a-2.csv"]
    assert [Path(stored.url).read_bytes() for stored in (first, second)] == [b"1,2", b"3"]
    assert await artifacts.find(second.url) == b"3"


async def test_other_files_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    artifacts = FolderArtifacts(tmp_path)
    for address in (str(tmp_path / "secret"), "secret", "/etc/passwd", "https://x/y.png"):
        assert await artifacts.find(address) is None


@each_row("name", ["../x", "/etc/x", "..\\x", "x\x00", "x\n", ". x "])
async def test_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / str(name.encode().hex())
    stored = await FolderArtifacts(folder).store(Artifact(name, "text/plain", b""))
    assert Path(stored.url) == folder / "x"


def test_names_have_characters_and_keep_their_extension() -> None:
    assert {file_name(name) for name in ("", "..", "/", "\x00")} == {"file"}
    assert file_name("x" * 500 + ".pdf") == "x" * 196 + ".pdf"


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ServiceError, match="cannot be written to"):
        await FolderArtifacts(tmp_path / "file").store(Artifact("a", "text/plain", b""))


async def test_a_deleted_file_is_an_error(tmp_path: Path) -> None:
    artifacts = FolderArtifacts(tmp_path)
    stored = await artifacts.store(Artifact("a", "text/plain", b""))
    Path(stored.url).unlink()
    with pytest.raises(ServiceError, match="cannot be read"):
        await artifacts.find(stored.url)
