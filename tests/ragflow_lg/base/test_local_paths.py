from pathlib import Path

import pytest

from ragflow_lg.base.local_paths import suggest_file


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cnvas.json", "canvas.json"), ("Canvas.JSON", "canvas.json"), ("examplez/a.json", "examples/a.json"),
        ("examplez/b.json", "examples"), ("examples/aa.json", "examples/a.json"), ("zzz", ""), ("canvas.json", ""),
        ("nowhere/to/go.json", ""),
    ],
)  # fmt: skip
def test_a_similar_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, near: str) -> None:
    (tmp_path / "examples").mkdir()
    for file in ("canvas.json", "examples/a.json"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    assert suggest_file(Path(name)) == (f" Did you mean {near!r}?" if near else "")
    assert suggest_file(tmp_path / name) == (f" Did you mean {str(tmp_path / near)!r}?" if near else "")
