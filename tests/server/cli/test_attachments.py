from __future__ import annotations

from pathlib import Path

import pytest
import typer

from ragflow_lg.server.cli import attachments
from ragflow_lg.server.cli.attachments import read_attachments


def test_texts_are_read_and_pictures_encoded(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("\ufeffÜber".encode())
    (tmp_path / "b.PNG").write_bytes(b"\x89PNG")
    assert read_attachments([tmp_path / "a.md", tmp_path / "b.PNG"]) == [
        {"name": "a.md", "content": "Über"},
        {"name": "b.PNG", "content": "data:image/png;base64,iVBORw=="},
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("none.txt", None, "no such file"),
        (".", None, "is a directory"),
        ("bad\0name", None, "cannot be read"),
        ("a.bin", b"\xff\xfe\x00", "neither UTF-8 text nor a picture"),
        ("big.txt", b"x" * 101, "is larger than"),
    ],
)
def test_files_that_cannot_be_attached_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, reason: str
) -> None:
    monkeypatch.setattr(attachments, "MAX_BYTES", 100)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(typer.BadParameter, match=reason):
        read_attachments([tmp_path / name])
