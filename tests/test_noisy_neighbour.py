"""The harness of noisy neighbours plays attacks. `python -m tests.campaigns noisy` plays all of them, and for longer.

No test here depends on how fast the machine is.
"""

from pathlib import Path

import pytest

from tests.harness.noisy import Result, open_stage, play
from tests.harness.noisy_attacks import ATTACKS

pytestmark = pytest.mark.slow


async def test_attacks_leave_the_neighbour_unharmed(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        for name in ("template-search", "body", "heads"):
            result = await play(stage, name, 2.0, settle_s=0)
            assert (name, result.lives, result.errors) == (name, True, []), stage.log.read_text()[-2000:]
            assert result.turns > 0
            assert result.alone_p99 > 0
            assert result.rss_before > 0


def test_every_goal_can_be_missed() -> None:
    result = Result("a", 10, 80, 5, [], 1000, 100, 140)
    assert result.problems() == []
    result.p99, result.errors, result.health_max, result.rss_after, result.lives = 81, ["x"], 1001, 141, False
    assert len(result.problems()) == 5


def test_there_are_few_attacks() -> None:
    assert len(ATTACKS) == 15
