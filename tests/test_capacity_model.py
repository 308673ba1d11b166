"""The arithmetic of the load model in ``benchmarks/capacity.py``, on costs whose results can be worked out by hand."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("simpy", reason="simpy is missing: make test installs it")

from benchmarks.capacity import (
    CLIENTS,
    PARTS,
    Costs,
    Demand,
    Deployment,
    Simulation,
    Traffic,
    Work,
    deployment_for,
    first_full,
    most_streams,
    percentile,
    read_costs,
    split,
    use,
)

TRAFFIC = Traffic(streams=100, pieces=100, pieces_per_s=10)
"""Ten turns a second."""


def costs(
    demands: Mapping[str, tuple[float, float]],
    idle: Mapping[str, float] | None = None,
    idle_more: Mapping[str, float] | None = None,
) -> Costs:
    """Return the costs of some parts in milliseconds, for a turn and a piece; the others cost nothing."""
    all_ = {part: Demand(*(ms / 1000 for ms in demands.get(part, (0, 0)))) for part in (*PARTS, CLIENTS)}
    at_rest, more = ({part: (given or {}).get(part, 0.0) for part in PARTS} for given in (idle, idle_more))
    return Costs(all_, at_rest, more, load=0)


def test_streams_are_turns_that_last_as_long_as_their_answers() -> None:
    assert TRAFFIC.turns_per_s == 10
    assert Traffic(10_000, 300, 20).turns_per_s == pytest.approx(666.7, abs=0.1)


def test_a_part_is_as_busy_as_its_turns_and_what_it_does_at_rest() -> None:
    demands = {"worker": (20, 0.3), "sessions": (5, 0), "events": (1, 0.02)}
    given = costs(demands, {"worker": 0.1, "events": 0.005}, {"events": 0.002})
    busy = use(given, TRAFFIC, Deployment(servers=1, workers=2))
    assert busy["worker"] == pytest.approx(10 * (0.020 + 100 * 0.0003) / 2 + 0.1)
    assert busy["redis"] == pytest.approx(10 * (0.005 + 0.003) + 0.005 + 0.002), "one worker more asks Redis"
    apart = use(given, TRAFFIC, Deployment(servers=1, workers=2, has_three_redis=True))
    assert apart["redis for events"] + apart["redis for sessions"] == pytest.approx(busy["redis"])


def test_a_full_store_takes_less_for_a_turn() -> None:
    given = msgspec.structs.replace(costs({"worker": (20, 0), "queue": (9, 0)}), limits={"queue": Demand(0.006, 0)})
    deployment = Deployment(servers=1, workers=1)
    busy, full = (use(each, TRAFFIC, deployment) for each in (given, given.when_full()))
    assert (busy["redis"], full["redis"]) == (pytest.approx(0.09), pytest.approx(0.06))
    assert full["worker"] == busy["worker"]


def test_the_smallest_deployment_leaves_room_in_each_part() -> None:
    given = costs({"server": (10, 0), "worker": (100, 0), "postgresql": (150, 0)}, {"worker": 0.2})
    deployment = deployment_for(given, TRAFFIC)
    assert (deployment.servers, deployment.workers, deployment.postgresql_processors) == (1, 2, 3)
    assert max(use(given, TRAFFIC, deployment).values()) <= 0.7 + 1e-9


def test_the_first_full_part_is_the_one_with_the_fewest_streams() -> None:
    given = costs({"worker": (50, 0), "sessions": (2, 0), "postgresql": (8, 0)}, idle_more={"sessions": 0.001})
    deployment = Deployment(servers=10, workers=100, postgresql_processors=4)
    assert most_streams(given, TRAFFIC, deployment, "worker") == pytest.approx(100 / 0.05 * 10)
    assert first_full(given, TRAFFIC, deployment) == ("redis", pytest.approx((1 - 0.108) / 0.002 * 10))
    assert most_streams(given, TRAFFIC, deployment, "server") == float("inf")


def test_a_simulated_part_is_as_busy_as_computed() -> None:
    given = costs({"server": (5, 0), "worker": (20, 0.2), "sessions": (4, 0.01), "postgresql": (10, 0)})
    deployment = Deployment(servers=1, workers=1, postgresql_processors=1)
    traffic = Traffic(streams=10, pieces=10, pieces_per_s=10)
    outcome = Simulation(given, deployment).run(traffic, 20)
    for group, expected in use(given, traffic, deployment).items():
        assert outcome.use[group] == pytest.approx(expected, rel=0.15, abs=0.01)
    assert percentile(outcome.first_event_s, 0) == pytest.approx(0.039 * 2 / 5, abs=0.001), "two of five visits"


def test_deployments_are_added_until_no_redis_is_full() -> None:
    given = costs({"sessions": (10, 0), "events": (20, 0)})
    traffic = Traffic(streams=1000, pieces=100, pieces_per_s=10)  # a hundred turns a second
    count, part, deployment = split(given, traffic)
    assert (count, part.streams) == (5, 200), "3 seconds of Redis in a second, of which one may use 0.7"
    assert use(given, part, deployment)["redis"] == pytest.approx(0.6)
    assert split(given, traffic, has_three_redis=True)[0] == 3
    with pytest.raises(ValueError, match="full with one stream"):
        split(costs({"queue": (100_000, 0)}), traffic)


def test_a_queue_waits_as_long_as_theory_says() -> None:
    """Pollaczek and Khinchine's mean for turns that begin at random times and take the same time."""
    traffic = Traffic(streams=6, pieces=1, pieces_per_s=1)
    simulation = Simulation(costs({"queue": (100, 0)}), Deployment(1, 1), seed=3, visits=(0, 1, 0))
    outcome = simulation.run(traffic, 300)
    mean = sum(outcome.first_event_s) / len(outcome.first_event_s)
    assert mean == pytest.approx(0.1 + 0.1 * 0.6 / (2 * 0.4), rel=0.2)


def test_clients_on_one_machine_share_its_processors() -> None:
    given = costs({"worker": (30, 0), "server": (10, 0), CLIENTS: (10, 0)})
    work = Work(pieces=1, turns=0, at_once=8)
    deployment = Deployment(1, 1, 1)
    half = Simulation(given, deployment, machine=0.5).run_clients(work, 5, pieces_per_s=1000)
    assert half.turns / 5 == pytest.approx(0.5 / 0.050, rel=0.1), "the processors are the limit"
    two = Simulation(given, deployment, machine=2).run_clients(work, 5, pieces_per_s=1000)
    assert two.turns / 5 == pytest.approx(1 / 0.030, rel=0.1), "the worker is the limit"
    both = Simulation(given, Deployment(1, 2, 1), machine=2).run_clients(work, 5, pieces_per_s=1000)
    assert both.turns / 5 == pytest.approx(2 / 0.050, rel=0.15), "the processors are the limit again"


def test_a_missing_or_wrong_file_ends_the_program_with_a_message(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    advice = rf" To write it, run: python -m benchmarks\.turn_costs {file}$"
    with pytest.raises(SystemExit, match=rf"^{file} cannot be used: No such file or directory\.{advice}"):
        read_costs(file)
    file.write_text("{}")
    with pytest.raises(SystemExit, match=rf"cannot be used: Object missing required field `demands`\.{advice}"):
        read_costs(file)
    file.write_bytes(msgspec.json.encode(costs({})))
    assert read_costs(file) == costs({})
