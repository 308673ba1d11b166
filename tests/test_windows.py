"""The commands in a process without what Windows lacks. They have not been run on Windows itself."""

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.harness.loaded_python import loaded_python, python_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
ROUTER = ROOT / "examples" / "customer_service_router.json"


@pytest.fixture(scope="module", autouse=True)
def without_what_windows_lacks() -> Generator[None]:
    with loaded_python("tests.fakes.windows"):
        yield


def start(folder: Path, *words: str | Path) -> subprocess.Popen[str]:
    """Start the command in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder)}
    return subprocess.Popen(
        python_command("-m", "ragflow_lg", *words),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *words: str | Path) -> tuple[int, str, str]:
    process = start(folder, *words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_session_runs_and_continues(tmp_path: Path) -> None:
    form = ROOT / "examples" / "order_form.json"
    code, _, err = run(tmp_path, "run", form, "Order", "--session", "ben", "--model", "demo")
    assert code == 0, err
    code, out, err = run(tmp_path, "resume", "ben", "--input", "size=42", "--input", "colour=red", "-e", "pretty")
    assert code == 0, err
    assert "42" in out
    assert "ben" in run(tmp_path, "sessions")[1]


@pytest.mark.parametrize(
    "words", [("check", ROUTER), ("canvas", "draw", ROUTER, "-o", "r.svg"), ("components",), ("kb", "list")]
)
def test_commands_that_run_nothing_work(tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    code, _, err = run(tmp_path, *words)
    assert (code, err) == (0, "")


def test_files_become_a_dataset(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "kb", "add", ROOT / "examples" / "handbook")
    assert code == 0, err
    assert out.startswith("handbook: 6 added")
    assert run(tmp_path, "kb", "search", "handbook", "vacation")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_servers_answer_and_stop(tmp_path: Path, number: signal.Signals) -> None:
    server = start(tmp_path, "serve", "--port", "0", "--model", "demo")
    mock = start(tmp_path, "mock-llm", ROOT / "examples" / "mock_rules.toml", "--port", "0")
    assert server.stdout is not None
    assert mock.stdout is not None
    assert httpx.get(f"{server.stdout.readline().strip()}/health", timeout=60).status_code == 200
    assert httpx.get(f"{mock.stdout.readline().strip()}/models", timeout=60).status_code == 200
    for process in (server, mock):
        process.send_signal(number)
    for process in (server, mock):
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "Traceback" not in err


def test_what_needs_another_system_says_so_by_name(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "studio", ROUTER, "-o", tmp_path)
    assert code == 2
    assert "LangGraph's development server (`--no-server` writes the files without it) needs Linux or macOS" in err
    code, _, err = run(tmp_path, "studio", ROUTER, "-o", tmp_path, "--no-server")
    assert code == 0, err
