import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base import extras
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, invoke

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


def test_the_files_are_written_without_a_server(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "loop.json", tmp_path)
    (tmp_path / "broken.json").write_text("{")
    result = invoke("studio", tmp_path, "--no-server", "--model", "demo")
    assert result.exit_code == 0, result.stderr
    assert "1 canvas\n" in result.stdout
    assert "langgraph dev" in result.stdout
    assert "broken.json is skipped" in result.stderr
    written = json.loads((tmp_path / "langgraph.json").read_text())
    assert written["graphs"]["loop"]["path"] == "./ragflow_lg_studio.py:loop"
    assert "checkpointer" in written
    result = invoke("studio", EXAMPLES / "order_form.json", "--no-server", "-o", tmp_path, "--checkpoint", "memory://")
    assert result.exit_code == 0, result.stderr
    written = json.loads((tmp_path / "langgraph.json").read_text())
    assert list(written["graphs"]) == ["order_form"]
    assert "checkpointer" not in written


def test_without_the_extra_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> object:
        return None if name == "langgraph_api" else object()

    monkeypatch.setattr(extras, "find_spec", find_spec)
    result = invoke("studio", EXAMPLES / "loop.json", "-o", tmp_path / "new")
    assert "[studio]'" in str(result.exception)
    assert not (tmp_path / "new").exists()
    written = invoke("studio", EXAMPLES / "loop.json", "-o", tmp_path / "new", "--no-server")
    assert written.exit_code == 0
    assert "This server needs langgraph_api. Install it with: pip install" in written.stderr


@each_row(
    ("arguments", "problem"),
    [
        (["none"], "cannot be read"),
        ([EXAMPLES, "-o", "file/none"], "cannot be created"),
        ([EXAMPLES, "--checkpoint", "mysql://x"], "Invalid session store URL"),
    ],
)
def test_user_errors_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str | Path], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = invoke("studio", *arguments, "--no-server")
    assert result.exit_code != 0
    assert problem in f"{result.stderr}{result.exception}"


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def assistants(client: httpx.Client) -> set[str]:
    try:
        return {assistant["graph_id"] for assistant in client.post("/assistants/search", json={}).json()}
    except httpx.HTTPError:  # it restarts
        return set()


def test_the_server_restarts_for_a_new_canvas_and_ends_with_the_command(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "loop.json", tmp_path)
    options = ("--model", "demo", "--checkpoint", "memory://")
    command = [sys.executable, "-m", "ragflow_lg", "studio", str(tmp_path), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log_file = tmp_path.with_name("log_file.log")  # not where the server watches for changes
    with (
        log_file.open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as run,
    ):
        assert run.stdout is not None
        lines = [run.stdout.readline() for _ in range(3)]
        url = lines[1].removeprefix("API:").strip()
        assert url.startswith("http://127.0.0.1:")
        assert lines[2].strip().endswith(f"baseUrl={url}")
        assert "serves" in str(invoke("studio", tmp_path, "--no-server").exception)
        assert log_file.read_text() == "", "only problems are shown"
        with httpx.Client(base_url=url, trust_env=False) as client:
            shutil.copy(EXAMPLES / "order_form.json", tmp_path)
            wait_until(lambda: assistants(client) == {"loop", "order_form"})
            (tmp_path / "loop.json").unlink()
            (tmp_path / "order_form.json").rename(tmp_path / "order_form")
            wait_until(lambda: "There is no canvas" in log_file.read_text())
            assert client.get("/ok").is_success, "it still serves the old graphs"
            run.send_signal(signal.SIGHUP)
            assert run.wait(30) == 0
            with pytest.raises(httpx.ConnectError):
                client.get("/ok")
