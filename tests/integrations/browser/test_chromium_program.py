import os
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.chromium_process import check_user, find_chromium

pytestmark = pytest.mark.slow


def test_chromium_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="apt install chromium"):
        find_chromium(BrowserSection())
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert find_chromium(BrowserSection()) == str(program)
    assert find_chromium(BrowserSection(executable=str(program))) == str(program)
    with pytest.raises(SettingsError, match="cannot be executed"):
        find_chromium(BrowserSection(executable=str(tmp_path / "none")))


def test_root_must_choose_to_run_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SettingsError, match="sandbox = false"):
        check_user(BrowserSection())
    check_user(BrowserSection(sandbox=False))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check_user(BrowserSection())
