from tests.fakes.python_process import python_process

PROGRAM = """
import sys

from ragflow_lg.adapters.chat.openai_client import make_chat, open_connections
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.settings import Settings
from tests.fakes.canvas import canvas
from tests.harness.takeover_canvases import CANVASES, VARIABLES

load_turn_code()
before = set(sys.modules)
for components, first in CANVASES.values():
    load_canvas(canvas(components, first, variables=VARIABLES), Settings())
make_chat("m", open_connections(1.0), base_url="http://x", api_key="", timeout_s=1.0, counts_streams=True)
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings.")))
"""


def test_the_first_turn_of_a_server_loads_no_code() -> None:
    with python_process(PROGRAM, is_new=True) as process:
        assert process.read_line() == ""
