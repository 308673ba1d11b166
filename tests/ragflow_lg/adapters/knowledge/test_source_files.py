import inspect
import os
import sys
from pathlib import Path

import pytest

from ragflow_lg.adapters.knowledge import source_files as module
from ragflow_lg.adapters.knowledge.source_files import (
    SourceFile,
    is_deleted,
    list_source_files,
    list_unsupported_files,
    read_source,
    resolve_source_name,
)
from ragflow_lg.base.errors import ServiceError


def test_supported_files_of_a_folder_are_listed(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.TXT", "a/x.png", ".git/d.md", ".hidden.md", "b.md.meta.json", "~$e.docx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", "utf-8")
    (tmp_path / "link.md").symlink_to("/etc/hostname")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert [file.name for file in list_source_files(tmp_path)] == ["b.md", "a/c.TXT"]
    assert list(list_unsupported_files(tmp_path)) == ["a/x.png"]
    assert list(list_source_files(tmp_path / "b.md")) == [SourceFile(tmp_path / "b.md", "b.md")]
    with pytest.raises(ServiceError, match="no file or folder"):
        list(list_source_files(tmp_path / "none"))


def test_the_hash_depends_on_the_file_and_its_metadata_file(tmp_path: Path) -> None:
    file = SourceFile(tmp_path / "a.md", "a.md")
    file.path.write_text("one", "utf-8")
    first = read_source(file).hash
    (tmp_path / "a.md.meta.json").write_text("{}", "utf-8")
    second = read_source(file).hash
    file.path.write_text("two", "utf-8")
    assert len({first, second, read_source(file).hash}) == 3


def test_unreadable_files_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = SourceFile(tmp_path / "a.md", "a.md")
    large.path.write_text("long text", "utf-8")
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 3)
    with pytest.raises(ServiceError, match="larger than 3 bytes"):
        read_source(large)
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(ServiceError, match="not a regular file"):
        read_source(SourceFile(tmp_path / "pipe.md", "pipe.md"))
    with pytest.raises(ServiceError, match="cannot be opened"):
        read_source(SourceFile(tmp_path / "none.md", "none.md"))


def test_a_name_may_be_too_long_for_a_metadata_file(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 250}.md"
    path.write_text("text", "utf-8")
    (file,) = list_source_files(tmp_path)
    assert read_source(file).content == b"text"
    with pytest.raises(ServiceError, match="cannot be opened: File name too long"):
        list(list_source_files(tmp_path / ("n" * 300)))


def test_a_large_metadata_file_is_an_error(tmp_path: Path) -> None:
    file = SourceFile(tmp_path / "a.md", "a.md")
    file.path.write_text("text", "utf-8")
    (tmp_path / "a.md.meta.json").write_bytes(b" " * 300_000)
    with pytest.raises(ServiceError, match="larger than 262,144 bytes"):
        read_source(file)


def test_folders_may_be_nested_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 400)
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("text", "utf-8")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        files = list(list_source_files(tmp_path))
    finally:
        sys.setrecursionlimit(limit)
    assert [file.name for file in files] == ["d/" * 400 + "a.md"]


def test_a_folder_that_cannot_be_listed_is_an_error_when_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.md").write_text("text", "utf-8")
    scandir = os.scandir

    def scan(path: Path) -> object:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    files = list(list_source_files(tmp_path))
    assert [file.name for file in files] == ["a.md", "locked/"]
    with pytest.raises(ServiceError, match="cannot be opened: Is a directory"):
        read_source(files[1])
    with pytest.raises(ServiceError, match="cannot be opened: Permission denied"):
        list(list_source_files(tmp_path / "locked"))


def test_deleted_files_and_links_count_as_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", "utf-8")
    (tmp_path / "link").symlink_to("a")
    assert [is_deleted(f"{tmp_path}/{name}") for name in ("a", "b", "a/b", "link", "n" * 300)] == [0, 1, 1, 1, 0]


def test_invalid_bytes_in_names_are_replaced(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.md"
    with open(path, "wb") as file:
        file.write(b"x")
    (source,) = list_source_files(tmp_path)
    assert source.name == "\ufffd.md"
    resolve_source_name(source.path).encode("utf-8")
