"""The harness of noisy neighbours: it plays attacks, and it notices a server that they stop.

`make noisy` plays more attacks, and for longer. No test here depends on how fast the machine is.
"""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.harness.loaded_python import python_command
from tests.harness.noisy.attacks import (
    ATTACKS,
    bodies,
    canvases,
    components,
    connections,
    documents,
    floods,
    sessions,
    templates,
    upstreams,
    webhooks,
)
from tests.harness.noisy.campaign import HEALTH_MS, Loss, Result, play_on
from tests.harness.noisy.selection import SELECTED
from tests.harness.noisy.stage import start_services


@pytest.mark.slow
async def test_attacks_leave_the_neighbour_unharmed(tmp_path: Path) -> None:
    async with (
        start_services(tmp_path, has_postgresql=False) as services,
        services.stage(tmp_path, 1, python_command("-m", "ragflow_lg")) as stage,
    ):
        for name in ("jinja-rfind", "list-2mb", "half-heads"):
            result = await play_on(stage, ATTACKS[name], 1.0, settle_s=0)
            assert (name, result.lives, result.errors) == (name, True, []), result.log
            assert result.turns > 0
            assert result.answers
            assert 0 < result.alone_p50 <= result.alone_p99
            assert 0 < result.rss_before <= result.rss_peak


@pytest.mark.slow
async def test_a_component_that_blocks_the_event_loop_is_noticed(tmp_path: Path) -> None:
    async with (
        start_services(tmp_path, has_postgresql=False) as services,
        services.stage(tmp_path, 1, python_command("-m", "tests.fakes.blocking_server")) as stage,
    ):
        result = await play_on(stage, ATTACKS["web-hang"], 2.0, settle_s=0)
    assert result.health_max > HEALTH_MS
    assert any("/health" in problem for problem in result.problems())


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["killed", "stopped"])
async def test_an_attack_that_takes_a_replica_down_leaves_the_other_one_unharmed(tmp_path: Path, loss: Loss) -> None:
    async with (
        start_services(tmp_path, has_postgresql=False) as services,
        services.stage(tmp_path, 2) as stage,
    ):
        result = await play_on(stage, ATTACKS["turns"], 1.0, settle_s=0, loss=loss)
        if loss == "killed":
            await asyncio.wait_for(stage.replicas[0].process.wait(), 5)
        with pytest.raises(httpx.HTTPError):
            await _get_health(stage.replicas[0].url)
        assert await _get_health(stage.replicas[1].url) == 200
    assert (result.lives, result.errors) == (True, []), result.log
    assert result.turns > 0
    # an attacker that waits for a stopped server may not come back in time to report
    assert result.answers or loss == "stopped"


async def _get_health(url: str) -> int:
    async with httpx.AsyncClient(timeout=2) as client:
        return (await client.get(f"{url}/health")).status_code


def test_the_selection_contains_known_attacks_of_each_kind() -> None:
    assert not SELECTED - set(ATTACKS)
    kinds = (bodies, canvases, components, connections, documents, floods, sessions, templates, upstreams, webhooks)
    assert all(any(attack.name in SELECTED for attack in kind.ATTACKS) for kind in kinds)


def test_every_goal_can_be_missed() -> None:
    result = Result("a", "b", 10, 20, 11, 21, 5, 200, [], 3, 4, 100, 300, 101)
    assert result.problems() == []
    result.p99, result.errors, result.health_max, result.rss_after, result.lives = 61, ["x"], 201, 121, False
    assert len(result.problems()) == 5
    result.turns = 90
    assert "P99 3.0 × alone, the slowest of 90" in result.problems()


def test_there_are_attacks_of_every_kind_with_different_names() -> None:
    assert len(ATTACKS) >= 60
    assert all(attack.summary for attack in ATTACKS.values())
