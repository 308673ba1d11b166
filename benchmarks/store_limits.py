"""How many turns a second a store takes: ``python -m benchmarks.store_limits [redis] [postgresql] [FILE]``.

A real server and a real worker play a turn with a short answer and one with a long answer, as in
``benchmarks.turn_costs``, and what they send to Redis and PostgreSQL is recorded. Then they end, and the turns are sent
again and again with other ids through plain sockets, trip by trip and many turns at once, until a processor is full:
the store's or, since both share this machine, that of the client.
PostgreSQL is asked twice: also so that each commit waits for the disk.

FILE has the costs of ``benchmarks.turn_costs`` as JSON. The limits are added to it, for ``benchmarks.sizing``. Redis
does not rewrite its log in the meantime.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from benchmarks.capacity import REDIS, Demand, Work, read_costs
from benchmarks.recorded_turns import RecordedTurn, Step, clocks, own_ids, postgresql_turn, redis_turn
from benchmarks.turn_costs import STREAMS, TURNS, Stage, idle_s, open_database, open_stage
from benchmarks.wire_recording import Recorder, Trip

SHORT, LONG = (msgspec.structs.replace(work, turns=1, at_once=1) for work in (TURNS, STREAMS))
REST_S = 0.3
"""How long after an answer the turn is still being stored."""
IDLE_S = 2.0
WARM_UP_S, MEASURED_S = 1.0, 4.0
AT_ONCE = {**dict.fromkeys(REDIS, 48), "postgresql": 8}
_NUMBERS = count(1)
_PART_BYTES = 1 << 16


async def record(stage: Stage, recorder: Recorder, work: Work, query: str) -> dict[str, RecordedTurn]:
    """Play a turn twice, and return what the second one sends to each store."""
    taken = list[dict[str, list[Trip]]]()
    for _ in range(2):
        recorder.take()
        await stage.play(work, query)
        await asyncio.sleep(REST_S)
        taken.append(recorder.take())
    await asyncio.sleep(IDLE_S)
    at_rest, (other, turn) = recorder.take()["postgresql"], taken
    ids = own_ids(chain(*turn.values()), chain(*other.values()))
    turns = {part: redis_turn(turn[part], ids) for part in REDIS}
    return {**turns, "postgresql": postgresql_turn(turn["postgresql"], ids, at_rest, recorder.sent)}


Connect: TypeAlias = "Callable[[ExitStack], socket.socket]"


class Lane:
    """Plays a turn again and again, on as many connections as the turn had."""

    def __init__(self, turn: RecordedTurn, connect: Callable[[], socket.socket]) -> None:
        """Initialize. Connections are opened and prepared."""
        self._turn = turn
        self.sockets = {number: connect() for number in turn.openings}
        self.steps = self.errors = 0
        for number, opening in turn.openings.items():
            self.sockets[number].sendall(opening)
            received = b""
            while not turn.count(received)[0]:
                received += self.sockets[number].recv(_PART_BYTES)
        self._begin()

    def _begin(self) -> None:
        self._values = self._turn.new_ids(next(_NUMBERS))
        self._left = iter(self._turn.steps)
        self._send(next(self._left))

    def _send(self, step: Step) -> None:
        self._step, self._received = step, b""
        self.sockets[step.connection].sendall(step.request(self._values))

    def read(self, source: socket.socket) -> None:
        """Receive a part of an answer. After the last one of a step, take the next step."""
        self._received += source.recv(_PART_BYTES)
        complete, errors = self._turn.count(self._received)
        if complete < self._step.answers:
            return
        self.errors += errors
        if self._step.clocks:
            self._values.update(zip(self._step.clocks, clocks(self._received), strict=False))
        self.steps += 1
        if (step := next(self._left, None)) is not None:
            self._send(step)
        else:
            self._begin()


class Limit(Struct):
    """What a store has taken."""

    turns_per_s: float
    store_s: float
    """Its processor time for a turn."""
    busy: float
    """The processors that it used."""
    client_busy: float
    idle: float
    """The processors that nothing used."""
    commands: float
    """Commands, or transactions, in a turn."""
    errors: int


def saturate(stage: Stage, part: str, turn: RecordedTurn, connect: Connect) -> Limit:
    """Send turns as fast as the store answers."""
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        lanes = [Lane(turn, lambda: connect(stack)) for _ in range(AT_ONCE[part])]
        for lane in lanes:
            for each in lane.sockets.values():
                selector.register(each, selectors.EVENT_READ, lane)
        _play(selector, WARM_UP_S)
        steps, before, idle, client_s = _steps(lanes), stage.read(), idle_s(), time.process_time()
        _play(selector, MEASURED_S)
        turns, idle = (_steps(lanes) - steps) / len(turn.steps), idle_s() - idle
        client_s = time.process_time() - client_s
        used = {name: value - before[name] for name, value in stage.read().items()}
    return Limit(
        turns_per_s=turns / MEASURED_S,
        store_s=used[part] / turns,
        busy=used[part] / MEASURED_S,
        client_busy=client_s / MEASURED_S,
        idle=idle / MEASURED_S,
        commands=used[f"{part}_commands"] / turns if part in REDIS else turn.transactions,
        errors=sum(lane.errors for lane in lanes),
    )


def _steps(lanes: Sequence[Lane]) -> int:
    return sum(lane.steps for lane in lanes)


def _play(selector: selectors.BaseSelector, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for key, _ in selector.select(1.0):
            key.data.read(key.fileobj)


def _connect_redis(stack: ExitStack, url: str) -> socket.socket:
    parts = urlsplit(url)
    return stack.enter_context(socket.create_connection((parts.hostname, parts.port or 6379)))


def _connect_postgresql(stack: ExitStack, url: str, synchronous_commit: str) -> socket.socket:
    """Return the socket of a connection that has logged in."""
    connection = stack.enter_context(open_database(url))
    connection.execute(f"SET synchronous_commit = {synchronous_commit}".encode())
    source = stack.enter_context(socket.socket(fileno=os.dup(connection.fileno())))
    source.setblocking(True)
    return source


async def measure(parts: Sequence[str]) -> dict[str, list[Limit]]:
    """Return the limits for turns with short and with long answers, by store."""
    recorder, limits = Recorder(), dict[str, list[Limit]]()
    async with open_stage(1, recorder) as stage:
        recorded = [await record(stage, recorder, work, name) for work, name in ((SHORT, "short"), (LONG, "long"))]
        await stage.end_processes()
        for client in stage.redis.values():
            client.config_set("auto-aof-rewrite-percentage", 0)
        for part in parts:
            for name, connect in _ways(part, stage.urls[part]).items():
                limits[name] = [saturate(stage, part, turns[part], connect) for turns in recorded]
                for work, turns, limit in zip((SHORT, LONG), recorded, limits[name], strict=True):
                    _print(part, name, work.pieces, turns[part], limit)
    return limits


def _ways(part: str, url: str) -> dict[str, Connect]:
    """Return how to connect, by what is measured."""
    if part in REDIS:
        return {part: lambda stack: _connect_redis(stack, url)}
    return {
        part: lambda stack: _connect_postgresql(stack, url, "off"),
        f"{part}, waits for its disk": lambda stack: _connect_postgresql(stack, url, "on"),
    }


def _print(part: str, name: str, pieces: int, turn: RecordedTurn, limit: Limit) -> None:
    unit = "commands" if part in REDIS else "transactions"
    print(
        f"{name}, answers of {pieces} pieces: {limit.turns_per_s:,.1f} turns/s, "
        f"{limit.commands * limit.turns_per_s:,.0f} {unit}/s; a turn has {limit.store_s * 1000:.2f} ms, "
        f"{limit.commands:,.0f} {unit}, {len(turn.steps)} trips, {turn.request_bytes / 1000:,.1f} kB; processors: "
        f"store {limit.busy:.2f}, client {limit.client_busy:.2f}, idle {limit.idle:.2f}; {limit.errors} errors",
        flush=True,
    )


def demand(short: Limit, long: Limit) -> Demand:
    """Return the processor time of a turn and of a piece in a store that is full."""
    piece = max(0.0, (long.store_s - short.store_s) / (LONG.pieces - SHORT.pieces))
    return Demand(turn=max(0.0, short.store_s - piece * SHORT.pieces), piece=piece)


def main() -> None:
    """Measure, print the limits and add them to a file."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the processes end with this one
    names = [name for name in sys.argv[1:] if not name.endswith(".json")] or ["redis", "postgresql"]
    parts = [part for name in names for part in (REDIS if name == "redis" else (name,))]
    files = [Path(name) for name in sys.argv[1:] if name.endswith(".json")]
    for file in files:
        read_costs(file)  # before the measurement, which takes long
    limits = {name: demand(*found) for name, found in asyncio.run(measure(parts)).items()}
    for name, each in limits.items():
        print(f"{name}: {each.turn * 1000:.2f} ms a turn, {each.piece * 1000:.4f} ms a piece")
    for file in files:
        costs = read_costs(file)
        found: dict[str, Any] = {**costs.limits, **{part: limits[part] for part in parts}}
        costs = msgspec.structs.replace(costs, limits=found)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")


if __name__ == "__main__":
    main()
