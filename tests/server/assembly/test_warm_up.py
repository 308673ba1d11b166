import asyncio
import threading
from pathlib import Path

import pytest

from ragflow_lg.server.assembly import warm_up
from tests.fakes.python_process import python_process

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
        run = Runner(load_canvas(MODEL), app_state.services, store=app_state.store).start("s", {"query": "q"})
        assert [event.event async for event in run][-1] == "workflow_finished"
        print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings.")))


asyncio.run(play())
"""


def test_the_first_turn_of_a_server_loads_no_code(tmp_path: Path) -> None:
    with python_process(PROGRAM, str(tmp_path), is_new=True) as process:
        assert process.read_line() == ""


async def test_a_server_that_stops_loads_no_more_modules_but_finishes_the_one_it_is_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []
    is_loading, may_finish = threading.Event(), threading.Event()

    def load(name: str) -> None:
        is_loading.set()
        assert may_finish.wait(10)
        loaded.append(name)

    monkeypatch.setattr(warm_up, "import_module", load)
    with warm_up.loading_turn_code() as start_loading:
        start_loading()
        assert await asyncio.to_thread(is_loading.wait, 10)
        assert warm_up.is_loading()
    may_finish.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert loaded == [warm_up.LAZY_MODULES[0]]
