"""How far a deployment goes: ``python -m benchmarks.sizing [FILE]``.

FILE has costs of ``benchmarks.turn_costs``, and limits of ``benchmarks.store_limits``. Without it, those in
``benchmarks/turn_costs.json`` are taken, with which docs/operations.md was written.

Prints how well the simulation meets what was measured with one and two workers, what a turn costs each part and how
much it can take, a table of deployments for up to 10,000 open streams, which part is full first, and a simulation of
deployments, also near the limit.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.capacity import (
    PARTS,
    REDIS,
    Costs,
    Deployment,
    Point,
    Simulation,
    Traffic,
    first_full,
    most_streams,
    percentile,
    read_costs,
    split,
    use,
)

MEASURED = Path(__file__).with_name("turn_costs.json")
PACE = 200.0
"""Pieces a second of the model in the measurement."""
MACHINE_S = 300.0
STREAMS = (100, 300, 1000, 3000, 10_000)
MAX_WORKERS = 100
SIMULATED_S = 20.0
_HEAD = " streams  turns/s  deployments  servers  workers  PostgreSQL  busiest Redis"


def simulate_point(costs: Costs, point: Point) -> tuple[float, float]:
    """Return turns a second and the median seconds to the first event, as the simulation has them."""
    deployment = Deployment(1, point.workers, 2, has_three_redis=True)
    simulation = Simulation(costs, deployment, machine=point.processors, batch=10)
    outcome = simulation.run_clients(point.work, MACHINE_S, PACE)
    return outcome.turns / MACHINE_S, percentile(outcome.first_event_s, 0.5)


def _validate(costs: Costs) -> None:
    print("measured and simulated on one machine, with the costs of two workers")
    for point in costs.points:
        turns, first_s = simulate_point(costs, point)
        print(
            f"  {point.workers} worker(s), {point.work.pieces:3} pieces, {point.processors:.2f} processors: "
            f"{point.turns_per_s:6.2f} turns/s, simulated {turns:6.2f} ({turns / point.turns_per_s:.2f}); "
            f"first event {point.first_event_s:.2f} s, simulated {first_s:.2f} s"
        )


def _limits(costs: Costs, traffic: Traffic) -> None:
    print(f"a turn with {traffic.pieces} pieces, and what one processor takes")
    for part in PARTS:
        ms = costs.demands[part].of(traffic.pieces) * 1000
        unit = {"postgresql": "transactions"}.get(part, "commands" if part in REDIS else "")
        name = f"{part}_{unit}"
        more = ""
        if name in costs.demands:
            count = costs.demands[name].of(traffic.pieces)
            more = f"; {count:,.0f} {unit} a turn, {count / max(ms, 1e-9) * 1000:,.0f} a second at most"
        print(f"  {part:12} {ms:8.1f} ms, {1000 / max(ms, 1e-9):7.1f} turns/s{more}")
    kept = sum(costs.demands[f"{part}_bytes_kept"].of(traffic.pieces) for part in REDIS)
    print(f"  Redis keeps {max(0.0, kept) / 1000:,.0f} kB of a turn until it expires")


def _table(costs: Costs) -> None:
    for has_three in (False, True):
        print("three Redis servers in each deployment" if has_three else "one Redis server in each deployment")
        print(_HEAD)
        for streams in STREAMS:
            traffic = Traffic(streams)
            count, part, one = split(costs, traffic, has_three_redis=has_three)
            busy, group = max((busy, group) for group, busy in use(costs, part, one).items() if "redis" in group)
            numbers = (
                f"{count:>13}{one.servers * count:>9}{one.workers * count:>9}{one.postgresql_processors * count:>12}"
            )
            print(f"{streams:>8,}{traffic.turns_per_s:>9.1f}{numbers}  {group} {busy:.0%}")


def _breaks(costs: Costs) -> None:
    print(f"what is full first, with {MAX_WORKERS} workers and {MAX_WORKERS // 2} servers in one deployment")
    for has_three in (False, True):
        deployment = Deployment(MAX_WORKERS // 2, MAX_WORKERS, 16, has_three)
        group, streams = first_full(costs, Traffic(1), deployment)
        others = {g: most_streams(costs, Traffic(1), deployment, g) for g in deployment.groups() if g != group}
        rest = ", ".join(f"{name} at {count:,.0f}" for name, count in others.items())
        print(f"  {group} at {streams:,.0f} open streams; {rest}")
        for part in (0.7, 0.9, 1.1):
            print(f"  {part:.0%} of that: {_simulate(costs, Traffic(int(streams * part)), deployment)}")


def _simulate(costs: Costs, traffic: Traffic, deployment: Deployment) -> str:
    """Return what a simulation has seen: how soon turns begin, and how late pieces arrive."""
    outcome = Simulation(costs, deployment).run(traffic, SIMULATED_S)
    if not outcome.first_event_s:
        return "no turn begins"
    first, late = (
        "P50 {:,.0f} ms, P99 {:,.0f} ms".format(*(percentile(values, part) * 1000 for part in (0.5, 0.99)))
        for values in (outcome.first_event_s, outcome.piece_s)
    )
    return f"first event {first}; pieces late {late}"


def _simulate_largest(costs: Costs) -> None:
    for streams in STREAMS:
        count, part, one = split(costs, Traffic(streams), has_three_redis=True)
        print(f"  {streams:,} streams, one of {count} deployments: {_simulate(costs, part, one)}")


def main() -> None:
    """Print everything."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    costs = read_costs(file)
    print(f"costs measured at a load average of {costs.load:.1f}")
    _validate(costs)
    costs = costs.when_full()
    _limits(costs, Traffic(1))
    _table(costs)
    _breaks(costs)
    print(f"deployments of the second table, simulated for {SIMULATED_S:.0f} s")
    _simulate_largest(costs)


if __name__ == "__main__":
    main()
