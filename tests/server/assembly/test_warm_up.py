from pathlib import Path

import pytest

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
