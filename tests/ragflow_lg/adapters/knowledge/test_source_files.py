from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge import source_files as module
from ragflow_lg.adapters.knowledge.source_files import SourceFile, other_files, read_source, source_files, source_name
from ragflow_lg.errors import ServiceError


def test_which_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.TXT", "a/x.png", ".git/d.md", ".hidden.md", "b.md.meta.json", "~$e.docx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", "utf-8")
    (tmp_path / "link.md").symlink_to("/etc/hostname")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert [file.name for file in source_files(tmp_path)] == ["b.md", "a/c.TXT"]
    assert list(other_files(tmp_path)) == ["a/x.png"]
    assert list(source_files(tmp_path / "b.md")) == [SourceFile(tmp_path / "b.md", "b.md")]
    with pytest.raises(ServiceError, match="no file or folder"):
        list(source_files(tmp_path / "none"))


def test_the_hash_follows_the_file_and_the_one_beside(tmp_path: Path) -> None:
    file = SourceFile(tmp_path / "a.md", "a.md")
    file.path.write_text("one", "utf-8")
    first = read_source(file).hash
    (tmp_path / "a.md.meta.json").write_text("{}", "utf-8")
    second = read_source(file).hash
    file.path.write_text("two", "utf-8")
    assert len({first, second, read_source(file).hash}) == 3


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = SourceFile(tmp_path / "a.md", "a.md")
    large.path.write_text("long text", "utf-8")
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 3)
    with pytest.raises(ServiceError, match="larger than 3 bytes"):
        read_source(large)
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(ServiceError, match="no ordinary file"):
        read_source(SourceFile(tmp_path / "pipe.md", "pipe.md"))
    with pytest.raises(ServiceError, match="cannot be opened"):
        read_source(SourceFile(tmp_path / "none.md", "none.md"))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.md"
    with open(path, "wb") as file:
        file.write(b"x")
    (found,) = source_files(tmp_path)
    assert found.name == "\ufffd.md"
    source_name(found.path).encode("utf-8")
