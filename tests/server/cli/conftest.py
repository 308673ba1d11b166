import json
from pathlib import Path

import pytest

from tests.fakes.canvas import canvas
from tests.fakes.regions import assign, form, loop, out, text
from tests.server.cli.command import Cli, call


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Calls the command in an empty home with ``words.json``, which asks for a word in each of two rounds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    body = {
        "ask": form("w", tips="word?", downstream=["t"]),
        "t": text(["k"], "{lp@seen}{ask@w}"),
        "k": assign("lp@seen", "t@result"),
    }
    document = canvas({**loop(body, count=2, variables={"seen": ""}), **out("got {lp@seen}")})
    (tmp_path / "words.json").write_text(json.dumps(document))
    return call
