import asyncio
import sys

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.code import sandbox_choice
from ragflow_lg.integrations.code.code_settings import CodeSettings
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult
from ragflow_lg.integrations.code.sandbox_choice import ChosenSandbox, FoundSandbox, find_sandbox
from tests.fakes.counted_workers import CountedWorkers
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row
from tests.integrations.code.sandboxes import require_bubblewrap

pytestmark = pytest.mark.slow

REQUEST = CodeRequest("python", "def main(): return 1")


async def test_auto_takes_bubblewrap_if_it_works() -> None:
    found = await find_sandbox(CodeSettings(bubblewrap=require_bubblewrap()), ScriptedHttp(), CountedWorkers())
    assert found.sandbox is not None
    assert found.description.startswith("Bubblewrap (/")
    assert (await found.sandbox.run(REQUEST)).value == 1


async def test_auto_takes_the_service_if_its_address_is_set() -> None:
    found = await find_sandbox(CodeSettings(url="http://sandbox.test:9385"), ScriptedHttp(), CountedWorkers())
    assert (found.is_working, found.description) == (True, "the service at http://sandbox.test:9385")


@pytest.mark.skipif(sys.platform != "linux", reason="Bubblewrap needs Linux")
@each_row(
    ("settings", "reason"),
    [
        (CodeSettings("refuse"), 'CodeExec is switched off: provider is "refuse" in the section [code]'),
        (
            CodeSettings("http"),
            "CodeExec has no sandbox. The provider http needs the setting url. There are two ways: install",
        ),
        (
            CodeSettings(bubblewrap="/nowhere"),
            "CodeExec has no sandbox. bwrap is not installed. There are two ways: install bubblewrap (Linux), for "
            "example with `apt install bubblewrap`, or set url in the section [code] of the settings to the address of "
            "a sandbox service: RAGFlow's, or `ragflow-lg sandbox serve`",
        ),
        (
            CodeSettings("bubblewrap", bubblewrap="/usr/bin/false"),
            "CodeExec has no sandbox. Bubblewrap does not isolate",
        ),
    ],
)
async def test_nothing_runs_without_a_working_sandbox(settings: CodeSettings, reason: str) -> None:
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
    sandbox = ChosenSandbox(CodeSettings(concurrency=3), ScriptedHttp())
    await asyncio.gather(*(sandbox.run(CodeRequest("python", "pass")) for _ in range(10)))
    assert (searches, slow.most) == (1, 3)
