import sys
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from tests.integrations.code.sandboxes import require_bubblewrap
from tests.server.cli.command import end, invoke, read_lines, start

pytestmark = pytest.mark.slow


def test_it_prints_its_url_runs_programs_and_ends(tmp_path: Path) -> None:
    settings = tmp_path / "s.toml"
    settings.write_text(f"[code]\nbubblewrap = {require_bubblewrap()!r}\napi_key = 'k'\n")
    process = start("sandbox", "serve", "--port", "0", "--settings", settings)
    (url,) = read_lines(process, 1)
    body = {"code_b64": "ZGVmIG1haW4obik6IHJldHVybiBuICsgMQ==", "language": "python", "arguments": {"n": 1}}
    reply = httpx.post(f"{url}/run", json=body, headers={"Authorization": "Bearer k"}, timeout=20).json()
    assert (reply["status"], reply["result"]["value"]) == ("success", 2)
    code, errors = end(process)
    assert (code, errors[:26]) == (0, "Programs run in Bubblewrap")


@pytest.mark.skipif(sys.platform != "linux", reason="Bubblewrap needs Linux")
def test_it_does_not_start_without_a_local_sandbox(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    for section, reason in {
        "url = 'http://sandbox.test:9385'": "A sandbox service cannot use another one",
        "bubblewrap = '/nowhere'": "CodeExec has no sandbox. bwrap is not installed",
    }.items():
        settings.write_text(f"[code]\n{section}\n")
        error = invoke("sandbox", "serve", "--port", "0", "--settings", settings).exception
        assert isinstance(error, SettingsError)
        assert str(error).startswith(reason)


def test_doctor_names_the_sandbox(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"

    def report(section: str) -> tuple[int, str]:
        settings.write_text(f"[code]\n{section}\n")
        result = invoke("doctor", "--settings", settings, "--checkpoint", "memory://")
        return result.exit_code, result.stdout

    code, text = report(f"bubblewrap = {require_bubblewrap()!r}")
    assert (code, "ok    CodeExec uses Bubblewrap (" in text) == (0, True)
    code, text = report("bubblewrap = '/nowhere'")
    assert (code, "note  CodeExec refuses all programs" in text) == (0, True)
    code, text = report("provider = 'bubblewrap'\nbubblewrap = '/nowhere'")
    assert (code, "FAIL  CodeExec refuses all programs" in text) == (1, True)
    code, text = report("url = 'http://127.0.0.1:1'")
    assert (code, "FAIL  the sandbox for CodeExec cannot be used" in text) == (1, True)
