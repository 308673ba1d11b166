from pathlib import Path

import pytest

from tests.fakes.regions import assign, form, loop, out, text
from tests.server.cli.command import Cli, call, save


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Work in an empty folder with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Calls the command beside ``words.json``, which asks for a word in each of two rounds."""
    body = {
        "ask": form("w", tips="word?", downstream=["t"]),
        "t": text(["k"], "{lp@seen}{ask@w}"),
        "k": assign("lp@seen", "t@result"),
    }
    save(tmp_path / "words.json", {**loop(body, count=2, variables={"seen": ""}), **out("got {lp@seen}")})
    return call
