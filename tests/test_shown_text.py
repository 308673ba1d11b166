"""Random canvases: what a Message has sent is what it has stored, also after stops.

``SHOWN_CANVASES`` is the number of canvases and ``SHOWN_SEED`` the first seed. ``python -m tests.campaigns shown``
plays many of them.
"""

import os

import pytest

from tests.fakes.canvas import canvas, node, plan_of
from tests.harness.rows import each_row
from tests.harness.shown_runs import check_seed
from tests.harness.shown_text import find_shown_problems

pytestmark = pytest.mark.slow

COUNT, FIRST = int(os.environ.get("SHOWN_CANVASES", "16")), int(os.environ.get("SHOWN_SEED", "1000"))


@each_row("seed", range(FIRST, FIRST + COUNT))
async def test_what_is_shown_is_what_is_stored(seed: int) -> None:
    _, problems = await check_seed(seed)
    assert problems == []


def test_a_message_that_stores_another_text_is_found() -> None:
    plan = plan_of(canvas({"m": node("Message", {"content": ["x"]})}))
    end = {"component_id": "m", "component_type": "Message", "error": None}
    frames = [
        {"event": "message", "content": "a"},
        {"event": "message", "content": "b"},
        {"event": "message_end"},
        {"event": "node_finished", **end, "outputs": {"content": "ab"}},
    ]
    assert find_shown_problems(frames, {"outputs": {"m": {"content": "ab"}}}, plan) == []
    assert find_shown_problems(frames, None, plan) == []
    assert len(find_shown_problems(frames, {"outputs": {"m": {"content": "a"}}}, plan)) == 1
    assert len(find_shown_problems(frames[1:], None, plan)) == 1
