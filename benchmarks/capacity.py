"""A model of a deployment: how busy each part is, how soon turns begin, and which part is the first that is full.

A turn visits the parts in order, and queues where they are busy; its answer comes in pieces at the pace of the model.
Servers and workers have one processor each, PostgreSQL several, and Redis one for all it does, or one each for
sessions, events and the queue. ``benchmarks.turn_costs`` has measured what each visit costs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Generator, Mapping
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import simpy
from msgspec import Struct, field

REDIS = ("sessions", "events", "queue")
"""What Redis does. Each can have a server of its own."""
PARTS = ("server", "worker", "postgresql", *REDIS)
CLIENTS = "clients"
"""The clients and the model of a measurement, which run on the same machine."""
VISITS = (1, 2, 2)
"""How often a turn waits for each part: before its request (to make a session), from there to its first event, and
after its answer. Each visit costs the same."""
FULL = 0.7
"""A part that is busier than this counts as full: above, waiting times grow quickly."""
_ROUNDING = 1e-9


class Demand(Struct, frozen=True):
    """What something costs: a turn without its answer, and each piece of the answer."""

    turn: float
    piece: float

    def of(self, pieces: float) -> float:
        """Return the cost of a turn with an answer of this many pieces."""
        return self.turn + self.piece * pieces


class Work(Struct, frozen=True):
    """Turns of a measurement, ``at_once`` of them at the same time."""

    pieces: int
    turns: int
    at_once: int


class Point(Struct, frozen=True):
    """What was measured. ``processors`` is what other programs left of the machine's."""

    workers: int
    work: Work
    turns_per_s: float
    first_event_s: float
    processors: float


class Costs(Struct, frozen=True):
    """Measured costs: the processor time of the parts in seconds, and numbers and bytes."""

    demands: Mapping[str, Demand]
    idle: Mapping[str, float]
    """What is used in a second in which nothing happens, with one server and one worker."""
    idle_more: Mapping[str, float]
    """What each further worker adds to that. A further server is taken to add as much."""
    load: float
    """The load average of the machine."""
    points: list[Point] = field(default_factory=list[Point])
    limits: Mapping[str, Demand] = field(default_factory=dict[str, Demand])
    """The processor time in stores that are full: less than in ``demands``, because several requests come at once."""

    def when_full(self) -> Costs:
        """Return the costs with those of full stores."""
        return msgspec.structs.replace(self, demands={**self.demands, **self.limits})


def read_costs(file: Path) -> Costs:
    """Read costs that ``benchmarks.turn_costs`` has measured, or end with a message."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Costs)
    except OSError as error:
        reason = error.strerror
    except msgspec.MsgspecError as error:
        reason = str(error)
    sys.exit(f"{file} cannot be used: {reason}. To write it, run: python -m benchmarks.turn_costs {file}")


class Deployment(Struct, frozen=True):
    """How many of each part there are."""

    servers: int
    workers: int
    postgresql_processors: int = 4
    has_three_redis: bool = False

    def processors(self, part: str) -> int:
        """Return the number of processors of a part."""
        return {"server": self.servers, "worker": self.workers, "postgresql": self.postgresql_processors}.get(part, 1)

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return what shares processors, by name."""
        redis = {f"redis for {part}": (part,) for part in REDIS} if self.has_three_redis else {"redis": REDIS}
        return {"server": ("server",), "worker": ("worker",), "postgresql": ("postgresql",), **redis}


class Traffic(Struct, frozen=True):
    """Streams that are open at the same time: each is the answer of a turn."""

    streams: int
    pieces: int = 300
    pieces_per_s: float = 20.0

    @property
    def turns_per_s(self) -> float:
        """How many turns begin in a second, since a stream is open as long as its answer takes."""
        return self.streams * self.pieces_per_s / self.pieces


def idle_use(costs: Costs, part: str, deployment: Deployment) -> float:
    """Return the processor time that a part uses in a second in which nothing happens.

    That of Redis and PostgreSQL grows with the number of the servers and workers that ask them.
    """
    if part in ("server", "worker"):
        return costs.idle[part] * deployment.processors(part)
    return costs.idle[part] + costs.idle_more[part] * (deployment.servers + deployment.workers - 2)


def use(costs: Costs, traffic: Traffic, deployment: Deployment) -> dict[str, float]:
    """Return how busy each group of parts is: 1 is all the time of its processors."""
    return {
        group: sum(
            traffic.turns_per_s * costs.demands[part].of(traffic.pieces) + idle_use(costs, part, deployment)
            for part in parts
        )
        / deployment.processors(parts[0])
        for group, parts in deployment.groups().items()
    }


def deployment_for(costs: Costs, traffic: Traffic, *, has_three_redis: bool = False) -> Deployment:
    """Return the smallest deployment for a traffic. Only Redis can be full, because nothing can be added to it."""

    def count(part: str) -> int:
        busy = traffic.turns_per_s * costs.demands[part].of(traffic.pieces)
        return max(1, ceil(busy / (FULL - costs.idle[part]) - _ROUNDING))

    servers, workers = count("server"), count("worker")
    busy = traffic.turns_per_s * costs.demands["postgresql"].of(traffic.pieces)
    busy += idle_use(costs, "postgresql", Deployment(servers, workers))
    return Deployment(servers, workers, max(1, ceil(busy / FULL - _ROUNDING)), has_three_redis)


def split(costs: Costs, traffic: Traffic, *, has_three_redis: bool = False) -> tuple[int, Traffic, Deployment]:
    """Return how many equal deployments keep each Redis from being full, the traffic of each, and one of them.

    Raises:
        ValueError: if not even one stream has room.
    """
    for count in range(1, traffic.streams + 1):
        part = Traffic(ceil(traffic.streams / count), traffic.pieces, traffic.pieces_per_s)
        deployment = deployment_for(costs, part, has_three_redis=has_three_redis)
        if max(use(costs, part, deployment).values()) <= FULL + _ROUNDING:
            return count, part, deployment
    raise ValueError("Redis is full with one stream.")


def most_streams(costs: Costs, traffic: Traffic, deployment: Deployment, group: str, most: float = 1.0) -> float:
    """Return the number of open streams at which a group is busy to the degree ``most``."""
    parts = deployment.groups()[group]
    one = Traffic(1, traffic.pieces, traffic.pieces_per_s)
    each = one.turns_per_s * sum(costs.demands[part].of(traffic.pieces) for part in parts)
    idle = sum(idle_use(costs, part, deployment) for part in parts)
    free = most * deployment.processors(parts[0]) - idle
    return max(0.0, free / each) if each else float("inf")


def first_full(costs: Costs, traffic: Traffic, deployment: Deployment) -> tuple[str, float]:
    """Return the group that is the first to have no time left as streams are added, and their number then."""
    found = ((group, most_streams(costs, traffic, deployment, group)) for group in deployment.groups())
    return min(found, key=lambda each: each[1])


class Outcome(NamedTuple):
    """What a simulation has seen."""

    first_event_s: list[float]
    piece_s: list[float]
    """How late pieces arrived."""
    use: dict[str, float]
    turns: int


def percentile(values: list[float], part: float) -> float:
    """Return a percentile, or 0 without values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


class Simulation:
    """Plays turns on a deployment, or on one machine that all of it shares."""

    def __init__(
        self,
        costs: Costs,
        deployment: Deployment,
        *,
        seed: int = 0,
        visits: tuple[int, int, int] = VISITS,
        batch: int = 20,
        machine: float = 0.0,
    ) -> None:
        """Initialize.

        Pieces are played ``batch`` at a time, which is quicker and a little more pessimistic. ``machine`` is the number
        of processors that everything shares, or 0.
        """
        self._env = simpy.Environment()
        self._random = random.Random(seed)
        self._costs, self._deployment = costs, deployment
        self._visits, self._batch = visits, batch
        self._groups = {part: group for group, parts in deployment.groups().items() for part in parts}
        self._places: dict[str, list[Any]] = {CLIENTS: [simpy.Resource(self._env)]}
        for group, parts in deployment.groups().items():
            count = deployment.processors(parts[0])
            is_pool = group == "postgresql"
            self._places[group] = [
                simpy.Resource(self._env, count if is_pool else 1) for _ in range(1 if is_pool else count)
            ]
        self._machine = simpy.Resource(self._env, ceil(machine)) if machine else None
        self._speed = self._speeds(machine)
        self._busy = dict.fromkeys(self._places, 0.0)
        self._firsts, self._late, self._turns = list[float](), list[float](), 0

    def _speeds(self, machine: float) -> dict[str, float]:
        """Return which part of a processor's time is left for turns, by group."""
        groups = self._deployment.groups()
        if machine:
            idle = sum(idle_use(self._costs, part, self._deployment) for part in PARTS)
            return dict.fromkeys((*groups, CLIENTS), max(0.01, (machine - idle) / ceil(machine)))
        return {
            group: max(
                0.01,
                1
                - sum(idle_use(self._costs, part, self._deployment) for part in parts)
                / self._deployment.processors(parts[0]),
            )
            for group, parts in groups.items()
        } | {CLIENTS: 1.0}

    def run(self, traffic: Traffic, duration_s: float) -> Outcome:
        """Begin with all streams open, at random places in their answers, and start new turns at random times."""
        for _ in range(traffic.streams):
            self._env.process(self._stream(traffic, self._random.randrange(traffic.pieces)))
        self._env.process(self._arrivals(traffic))
        return self._run(duration_s)

    def run_clients(self, work: Work, duration_s: float, pieces_per_s: float) -> Outcome:
        """Take turns of clients one after the other, as in a measurement."""
        for _ in range(work.at_once):
            self._env.process(self._client(Traffic(0, work.pieces, pieces_per_s)))
        return self._run(duration_s)

    def _run(self, duration_s: float) -> Outcome:
        self._env.run(until=duration_s)
        groups = self._deployment.groups()
        used = {g: self._busy[g] / duration_s / self._deployment.processors(parts[0]) for g, parts in groups.items()}
        return Outcome(self._firsts, self._late, used, self._turns)

    def _client(self, traffic: Traffic) -> Generator[Any]:
        while True:
            yield from self._turn(traffic, with_clients=True)

    def _arrivals(self, traffic: Traffic) -> Generator[Any]:
        while True:
            yield self._env.timeout(self._random.expovariate(traffic.turns_per_s))
            self._env.process(self._turn(traffic))

    def _turn(self, traffic: Traffic, *, with_clients: bool = False) -> Generator[Any]:
        parts, places = (*PARTS, CLIENTS) if with_clients else PARTS, self._pick()
        before, until_first, after = self._visits
        yield from self._visit(before, places, parts)
        began = self._env.now
        yield from self._visit(until_first, places, parts)
        self._firsts.append(self._env.now - began)
        yield from self._answer(traffic, 0, places, parts)
        yield from self._visit(after, places, parts)
        self._turns += 1

    def _visit(self, count: int, places: Mapping[str, Any], parts: tuple[str, ...]) -> Generator[Any]:
        for _ in range(count):
            for part in parts:
                yield from self._work(part, places, self._costs.demands[part].turn / sum(self._visits))

    def _stream(self, traffic: Traffic, at: int) -> Generator[Any]:
        yield self._env.timeout(self._random.random() * self._batch / traffic.pieces_per_s)
        yield from self._answer(traffic, at, self._pick(), PARTS)

    def _answer(self, traffic: Traffic, at: int, places: Mapping[str, Any], parts: tuple[str, ...]) -> Generator[Any]:
        due = self._env.now
        while at < traffic.pieces:
            count = min(self._batch, traffic.pieces - at)
            due += count / traffic.pieces_per_s
            yield self._env.timeout(max(0.0, due - self._env.now))
            sent = self._env.now
            for part in parts:
                yield from self._work(part, places, self._costs.demands[part].piece * count)
            self._late.append(self._env.now - sent)
            at += count

    def _pick(self) -> Mapping[str, Any]:
        """Choose a server by chance, as a proxy does, and a worker that is free, as the queue does."""
        workers = self._places["worker"]
        some = self._random.sample(workers, min(4, len(workers)))
        worker = min(some, key=lambda place: place.count + len(place.queue))
        return {"server": self._random.choice(self._places["server"]), "worker": worker}

    def _work(self, part: str, places: Mapping[str, Any], seconds: float) -> Generator[Any]:
        if not seconds:
            return
        group = CLIENTS if part == CLIENTS else self._groups[part]
        seconds /= self._speed[group]
        with (places.get(part) or self._places[group][0]).request() as turn:
            yield turn
            if self._machine is None:
                yield self._env.timeout(seconds)
            else:
                with self._machine.request() as share:
                    yield share
                    yield self._env.timeout(seconds)
        self._busy[group] += seconds
