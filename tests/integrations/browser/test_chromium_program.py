import os
import subprocess
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.browser.browser_settings import BrowserSettings
from ragflow_lg.integrations.browser.chromium_process import (
    check_user,
    environment,
    find_chromium,
    find_process,
    kill,
    memory_of,
    write_launcher,
)

pytestmark = pytest.mark.slow


def test_chromium_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="apt install chromium"):
        find_chromium(BrowserSettings())
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert find_chromium(BrowserSettings()) == str(program)
    assert find_chromium(BrowserSettings(executable=str(program))) == str(program)
    with pytest.raises(SettingsError, match="cannot be executed"):
        find_chromium(BrowserSettings(executable=str(tmp_path / "none")))


def test_root_must_choose_to_run_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SettingsError, match="sandbox = false"):
        check_user(BrowserSettings())
    check_user(BrowserSettings(sandbox=False))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check_user(BrowserSettings())


def test_chromium_gets_no_variable_of_this_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("DISPLAY", ":1")
    assert "sk-1" not in str(environment(tmp_path, headless=True))
    assert "DISPLAY" not in environment(tmp_path, headless=True)
    assert environment(tmp_path, headless=False)["DISPLAY"] == ":1"


def test_the_launcher_limits_files_and_names_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "with 'quotes' $HOME"
    folder.mkdir()
    program = folder / "program"
    program.write_text('#!/bin/sh\necho "$1"; ulimit -f; sleep 60 & sleep 60\n')
    program.chmod(0o700)
    launcher = write_launcher(folder, str(program), BrowserSettings(download_bytes=2**30))
    with subprocess.Popen([launcher, "token 1"], stdout=subprocess.PIPE, start_new_session=True, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["token 1", str(2**31 // 512)]
        assert find_process(folder, "token 1") == process.pid
        assert find_process(folder, "another") == 0, "another process may have its number by now"
        assert memory_of(process.pid) > 0
        kill(process.pid)
        assert process.stdout.read() == "", "its own processes have ended as well"
    assert find_process(folder, "token 1") == 0
