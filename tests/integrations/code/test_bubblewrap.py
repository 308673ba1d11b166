import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.code import bubblewrap as module
from ragflow_lg.integrations.code.bubblewrap import Bubblewrap, find_bubblewrap
from ragflow_lg.integrations.code.code_settings import CodeLimits, Interpreters
from ragflow_lg.integrations.code.programs import CodeRequest
from ragflow_lg.services.artifacts import Artifact
from tests.conftest import SHARED
from tests.harness.cases import read_cases
from tests.harness.rows import each_row
from tests.integrations.code.sandboxes import Run, require_bubblewrap

pytestmark = pytest.mark.slow

ARGUMENTS: dict[str, Any] = {"text": "ü", "none": None, "yes": True, "numbers": [1, 2.5], "map": {"a": {}}}


def test_arguments_and_values_keep_their_types(run: Run) -> None:
    assert run("def main(**arguments): return arguments", arguments=ARGUMENTS).value == ARGUMENTS
    result = run("function main(args) { return args.map; }", "javascript", arguments=ARGUMENTS)
    assert (result.value, result.exit_code) == ({"a": {}}, 0)


def test_what_a_program_prints_is_kept_apart_from_its_value(run: Run) -> None:
    result = run(
        "import sys\ndef main():\n    print('out', end='')\n    print('err', file=sys.stderr)\n    return None"
    )
    assert (result.stdout, result.stderr, result.has_value, result.value) == ("out", "err\n", True, None)
    result = run("function main() { console.log('out'); console.error('err'); return null; }", "javascript")
    assert (result.stdout, result.stderr, result.has_value, result.value) == ("out\n", "err\n", True, None)


@each_row(
    ("language", "code"),
    [
        ("javascript", "module.exports = { main: (args) => args.n + 1 };"),
        ("javascript", "module.exports = async (args) => args.n + 1;"),
        ("javascript", "exports.main = function (args) { return args.n + 1; } // the end"),
        ("javascript", "async function main({ n }) { return n + 1; }"),
        ("javascript", "const main = ({ n }) => n + 1;"),
        ("python", "from functools import partial\nmain = partial(lambda m, n: n + m, 1)"),
        ("python", "import main\nmain.value = 1\ndef main(n): return n + 1"),
    ],
)
def test_forms_of_main(run: Run, language: str, code: str) -> None:
    result = run(code, language, arguments={"n": 1})
    assert result.value == 2, result.stderr


def test_files_in_artifacts_are_returned_in_order(run: Run) -> None:
    code = (
        "import os\n"
        "def main():\n"
        "    os.mkdir('artifacts/sub')\n"
        "    for name in ('b.csv', 'a.PNG', 'sub/c.json'): open('artifacts/' + name, 'w').write(name)\n"
        "    return 1"
    )
    assert run(code).artifacts == (
        Artifact("a.PNG", "image/png", b"a.PNG"),
        Artifact("b.csv", "text/csv", b"b.csv"),
        Artifact("sub/c.json", "application/json", b"sub/c.json"),
    )
    code = "const fs = require('fs'); function main() { fs.writeFileSync('artifacts/a.csv', '1'); return 1; }"
    assert run(code, "javascript").artifacts == (Artifact("a.csv", "text/csv", b"1"),)


def test_programs_that_end_themselves_have_no_value(run: Run) -> None:
    result = run("import os\ndef main(): os._exit(3)")
    assert (result.has_value, result.exit_code) == (False, 3)
    result = run("import sys\ndef main(): sys.exit(0)")
    assert (result.has_value, result.exit_code) == (False, 0)
    result = run("function main() { process.exit(4); }", "javascript")
    assert (result.has_value, result.exit_code) == (False, 4)


@pytest.mark.skipif(not (SHARED / "conformance").is_dir(), reason="the folder ../shared/conformance does not exist")
def test_the_programs_of_the_recorded_cases_return_what_was_recorded(run: Run) -> None:
    """RAGFlow's service was scripted when the cases were recorded. Here the same programs really run."""
    count = 0
    for case in read_cases(SHARED / "conformance" / "cases"):
        replies = [entry.get("reply") for turn in case.data["turns"] for entry in turn.get("sandbox_script", ())]
        calls = [call for turn in case.expected for call in turn.get("sandbox_calls", ())]
        for reply, call in zip(replies, calls, strict=False):
            if reply and reply.get("result") and "main" in call["code"]:
                language = "python" if call["language"] == "python" else "javascript"
                result = run(call["code"], language, arguments=call["arguments"])
                if "unexpected keyword argument" not in result.stderr:  # one case passes more than its main takes
                    assert (case.id, result.value) == (case.id, reply["result"]["value"])
                    count += 1
    assert count >= 4


async def test_a_cancelled_run_ends_at_once(tmp_path: Path) -> None:
    sandbox = Bubblewrap(require_bubblewrap())
    task = asyncio.create_task(sandbox.run(CodeRequest("python", "import time\ndef main(): time.sleep(60)")))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


async def test_runs_leave_no_open_files_behind() -> None:
    sandbox = Bubblewrap(require_bubblewrap())
    await sandbox.run(CodeRequest("python", "def main(): return 1"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await sandbox.run(CodeRequest("python", "def main(): return 1"))
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_another_interpreter_and_further_folders() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # as root, programs run as another user
        (folder / "data.txt").write_text("data")
        link = folder / "bin" / "python"
        link.parent.mkdir()
        link.symlink_to("/usr/bin/python3")
        sandbox = Bubblewrap(require_bubblewrap(), CodeLimits(), Interpreters(str(link), folders=(name,)))
        code = f"import sys\ndef main(): return [sys.executable, open({str(folder / 'data.txt')!r}).read()]"
        result = await sandbox.run(CodeRequest("python", code))
        assert result.value == [str(link), "data"]
        refused = await sandbox.run(CodeRequest("python", f"def main(): open({str(folder / 'new')!r}, 'w')"))
        assert "Read-only file system" in refused.stderr


async def test_a_missing_interpreter_is_named() -> None:
    sandbox = Bubblewrap(require_bubblewrap(), interpreters=Interpreters(node="/nowhere/node"))
    with pytest.raises(
        SettingsError, match=r"needs Node.js, which is not installed at '/nowhere/node'. Install it, or"
    ):
        await sandbox.run(CodeRequest("javascript", "function main() {}"))


async def test_a_failure_of_bwrap_is_an_error() -> None:
    sandbox = Bubblewrap(require_bubblewrap(), interpreters=Interpreters(folders=("/nowhere",)))
    with pytest.raises(ServiceError, match=r"Bubblewrap failed: Can't find source path /nowhere"):
        await sandbox.run(CodeRequest("python", "def main(): return 1"))
    with pytest.raises(ServiceError, match=r"Bubblewrap failed: failed to execute|cannot be started"):
        await Bubblewrap("/nowhere/bwrap").run(CodeRequest("python", "def main(): return 1"))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"bwrap is not installed\."):
        find_bubblewrap("/nowhere/bwrap")
    monkeypatch.setattr(module, "PROGRAMS", ("no-such-program",))
    with pytest.raises(SettingsError, match=r"needs no-such-program, which is not installed. Install util-linux"):
        find_bubblewrap()
    monkeypatch.setattr(module, "CHILDREN", Path("/nowhere"))
    with pytest.raises(SettingsError, match="kernel does not list the processes of a program"):
        find_bubblewrap()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SettingsError, match="needs Linux"):
        find_bubblewrap()
