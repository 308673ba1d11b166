import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.code import sandbox_choice
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult
from ragflow_lg.integrations.code.sandbox_choice import ChosenSandbox, FoundSandbox, find_sandbox
from tests.fakes.counted_workers import CountedWorkers
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row
from tests.integrations.code.sandboxes import require_bubblewrap
from tests.server.cli.command import end, invoke, read_lines, start

pytestmark = pytest.mark.slow

REQUEST = CodeRequest("python", "def main(): return 1")


async def test_auto_takes_bubblewrap_if_it_works() -> None:
    found = await find_sandbox(CodeSection(bubblewrap=require_bubblewrap()), ScriptedHttp(), CountedWorkers())
    assert found.sandbox is not None
    assert found.description.startswith("Bubblewrap (/")
    assert (await found.sandbox.run(REQUEST)).value == 1


async def test_auto_takes_the_service_if_its_address_is_set() -> None:
    found = await find_sandbox(CodeSection(url="http://sandbox.test:9385"), ScriptedHttp(), CountedWorkers())
    assert (found.is_working, found.description) == (True, "the service at http://sandbox.test:9385")


@pytest.mark.skipif(sys.platform != "linux", reason="Bubblewrap needs Linux")
@each_row(
    ("settings", "reason"),
    [
        (CodeSection(provider="refuse"), 'CodeExec is switched off: provider is "refuse" in the section [code]'),
        (
            CodeSection(bubblewrap="/nowhere"),
            "CodeExec has no sandbox. bwrap is not installed. There are two ways: install bubblewrap (Linux), for "
            "example with `apt install bubblewrap`, or set url in the section [code] of the settings to the address of "
            "a sandbox service: RAGFlow's, or `ragflow-lg sandbox serve`",
        ),
        (
            CodeSection(provider="bubblewrap", bubblewrap="/usr/bin/false"),
            "CodeExec has no sandbox. Bubblewrap does not isolate",
        ),
    ],
)
async def test_nothing_runs_without_a_working_sandbox(settings: CodeSection, reason: str) -> None:
    sandbox = ChosenSandbox(settings, ScriptedHttp())
    assert not (await sandbox.find()).is_working
    with pytest.raises(SettingsError) as caught:
        await sandbox.run(REQUEST)
    assert str(caught.value).startswith(reason)


class _Slow:
    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    async def run(self, request: CodeRequest) -> CodeResult:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        return CodeResult()


async def test_programs_wait_for_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, searches = _Slow(), 0

    async def find(*_: object) -> FoundSandbox:
        nonlocal searches
        searches += 1
        return FoundSandbox(slow, "slow")  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(sandbox_choice, "find_sandbox", find)
    sandbox = ChosenSandbox(CodeSection(concurrency=3), ScriptedHttp())
    await asyncio.gather(*(sandbox.run(CodeRequest("python", "pass")) for _ in range(10)))
    assert (searches, slow.most) == (1, 3)


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
