"""A sample of what ``python -m tests.campaigns deaths`` does: processes that end at one of their writes."""

from collections.abc import Sequence

import pytest

from tests.harness.death_stage import Place
from tests.harness.deaths import Plan, play_some

pytestmark = pytest.mark.slow

SAMPLES: list[tuple[Place, list[tuple[str, Sequence[Plan]]]]] = [
    ("worker", [("turn", [(5, "before"), (2, "after")])]),
    ("server", [("turn", [(3, "after")])]),
    ("alone", [("turn", [(6, "before")])]),
]


@pytest.mark.usefixtures("redis_url")
@pytest.mark.parametrize(("place", "plays"), SAMPLES, ids=[place for place, _ in SAMPLES])
async def test_others_go_on_after_a_death_between_two_writes(
    place: Place, plays: list[tuple[str, Sequence[Plan]]]
) -> None:
    result = await play_some(place, plays)
    assert result.problems == []
    assert result.kills == sum(len(plans) for _, plans in plays)
