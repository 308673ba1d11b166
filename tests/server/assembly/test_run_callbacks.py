import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly import run_callbacks
from ragflow_lg.server.assembly.run_callbacks import open_callbacks
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import OtelSection
from tests.fakes.python_process import python_process
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, SUPPORT

pytestmark = pytest.mark.slow

PLAY = """
import asyncio, sys
{before}
from ragflow_lg import open_runner

async def main():
    async with open_runner({canvas!r}, model="demo") as runner:
        async for _ in runner.start("s", {{"query": "q"}}):
            pass

asyncio.run(main())
print("ragflow_lg.adapters.telemetry.otel_spans" in sys.modules)
"""


def play(folder: Path, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PLAY.format(canvas=str(SUPPORT), before=before)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": "", **environment},
        timeout=60,
        check=False,
    )


def test_opentelemetry_is_not_needed_if_disabled(tmp_path: Path) -> None:
    """LangChain imports OpenTelemetry itself if it is installed."""
    done = play(tmp_path, before="sys.modules['opentelemetry'] = None")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_spans_of_a_run_are_exported(tmp_path: Path) -> None:
    done = play(tmp_path, RAGFLOW_LG_OTEL__EXPORTER="console")
    assert done.stdout == "True\n"
    assert '"name": "invoke_workflow"' in done.stderr
    assert '"service.name": "ragflow-lg"' in done.stderr


async def test_the_programs_own_provider_is_used() -> None:
    async with open_callbacks(Settings()) as callbacks:
        assert callbacks == ()
    async with open_callbacks(Settings(otel=OtelSection(exporter="program"))) as callbacks:
        assert [type(callback) for callback in callbacks] == [OtelSpans]


async def test_an_unknown_exporter_is_reported() -> None:
    with pytest.raises(SettingsError, match=r"unknown exporter 'otlp_proto_smoke' \(installed: console"):
        async with open_callbacks(Settings(otel=OtelSection(exporter="otlp_proto_smoke"))):
            pass


@each_row("exporter", ["program", "console"])
async def test_the_error_without_the_extra_says_what_to_install(exporter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(SettingsError, match=r"pip install '[^']*\[otel\]'"):
        async with open_callbacks(Settings(otel=OtelSection(exporter=exporter))):
            pass


class Stuck:
    """A provider whose collector does not answer."""

    def shutdown(self) -> None:
        time.sleep(2)


async def test_a_silent_collector_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_callbacks, "FLUSH_S", 0.02)
    start_s = time.monotonic()
    await run_callbacks._shut_down(Stuck())  # pyright: ignore[reportPrivateUsage]  # the provider cannot be injected
    assert time.monotonic() - start_s < 1.5
    assert "the last spans could not be sent within 0.02 s" in capsys.readouterr().err


pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, sys

from ragflow_lg.adapters.chat.openai_client import make_chat, open_connections
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.app_state import open_app_state
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.settings import Settings
from tests.fakes.canvas import canvas
from tests.harness.takeover_canvases import CANVASES, VARIABLES
from tests.server.http.app_server import MODEL


async def play():
    folder = f"sqlite:///{sys.argv[1]}"
    settings = Settings.model_validate({"checkpoints": f"{folder}/c.db", "server": {"database": f"{folder}/s.db"}})
    async with open_app_state(settings, model="demo") as app_state:
        await asyncio.to_thread(load_turn_code)
        before = set(sys.modules)
        for components, first in CANVASES.values():
            load_canvas(canvas(components, first, variables=VARIABLES), Settings())
        make_chat("m", open_connections(1.0), base_url="http://x", api_key="", timeout_s=1.0, counts_streams=True)
        model = load_canvas(MODEL, Settings())
        run = Runner(model, app_state.services, store=app_state.store).start("s", {"query": "q"})
        assert [event.event async for event in run][-1] == "workflow_finished"
        print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings.")))


asyncio.run(play())
"""


def test_the_first_turn_of_a_server_loads_no_code(tmp_path: Path) -> None:
    with python_process(PROGRAM, str(tmp_path), is_new=True) as process:
        assert process.read_line() == ""
