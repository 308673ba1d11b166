"""Deno: how processes are kept ready, and what is missing."""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ragflow_lg.adapters.code import deno as module
from ragflow_lg.adapters.code.code_settings import CodeLimits
from ragflow_lg.adapters.code.deno import Deno, check_readable, find_deno
from ragflow_lg.adapters.code.pyodide_folder import FILES, check_folder, fetch_pyodide
from ragflow_lg.base.errors import CodeLimitError, ServiceError, SettingsError
from ragflow_lg.services.code import CodeRequest
from tests.harness import pyodide_package
from tests.ragflow_lg.adapters.code.sandboxes import require_deno

pytestmark = pytest.mark.slow

PYTHON = CodeRequest("python", "def main(): return 1")


async def test_a_process_is_used_once() -> None:
    sandbox = Deno(require_deno(), pyodide_package.FOLDER)
    left = CodeRequest(
        "python", "import builtins, os\ndef main():\n    builtins.left = 1\n    return os.listdir('/tmp')"
    )
    assert (await sandbox.run(left)).value == ["run"]
    result = await sandbox.run(CodeRequest("python", "def main(): return left"))
    assert "NameError" in result.stderr


async def test_a_time_limit_ends_the_program_and_not_the_next_one() -> None:
    sandbox = Deno(require_deno(), pyodide_package.FOLDER, CodeLimits(timeout_s=5))
    with pytest.raises(CodeLimitError):
        await sandbox.run(CodeRequest("python", "import time\ndef main(): time.sleep(30)"))
    assert (await sandbox.run(PYTHON)).value == 1


async def test_a_cancelled_run_ends_its_process() -> None:
    sandbox = Deno(require_deno(), pyodide_package.FOLDER)
    before = _children()
    task = asyncio.create_task(sandbox.run(CodeRequest("javascript", "function main() { while (true); }")))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
    assert _children() <= before


def _children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text("ascii").split())


async def test_a_failure_of_deno_is_an_error() -> None:
    require_deno()
    with pytest.raises(ServiceError, match="The sandbox cannot be started"):
        await Deno("/usr/bin/false", pyodide_package.FOLDER).run(PYTHON)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Deno is not installed. Install it with: pip install .*code-deno"):
        find_deno("/nowhere/deno")
    with pytest.raises(SettingsError, match="Run `ragflow-lg sandbox setup`"):
        check_folder(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text("other")
    with pytest.raises(SettingsError, match="is not the file of Pyodide"):
        check_folder(tmp_path)
    with pytest.raises(ServiceError, match="Pyodide cannot be fetched"):
        fetch_pyodide("/usr/bin/false", tmp_path)

    def which(name: str) -> str | None:
        return None if name == "setpriv" else f"/usr/bin/{name}"

    monkeypatch.setattr(module.shutil, "which", which)
    monkeypatch.setattr(module, "_is_root", lambda: True)
    with pytest.raises(SettingsError, match="As root, Deno must run as the user nobody"):
        find_deno("x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts Deno as another user")
def test_a_folder_that_nobody_can_read_is_named() -> None:
    with TemporaryDirectory() as name:
        with pytest.raises(SettingsError, match="all users must be able to read"):
            check_readable(Path(name))
        Path(name).chmod(0o755)
        check_readable(Path(name))
