import json
from pathlib import Path

import pytest

from tests.fakes.canvas import canvas
from tests.fakes.regions import form, out
from tests.server.cli.command import invoke


def test_nodes_are_listed_by_id_and_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    titled = {"nodes": [{"id": "Form:A", "data": {"name": "Which size?"}}], "edges": []}
    document = canvas({"Form:A": form("size", downstream=["out"]), **out("x")}, graph=titled)
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert invoke("run", tmp_path / "c.json", "hi", "--session", "s").exit_code == 0
    newest, *_, oldest = invoke("history", "s").stdout.splitlines()
    assert newest.endswith("next: Form:A (Which size?)")
    assert "begin" in oldest
