"""Recording what a turn sends to a store, and sending it again for other ids: ``benchmarks/store_limits.py``."""

import socket
from contextlib import ExitStack
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from redis.asyncio import Redis

pytest.importorskip("simpy", reason="simpy is missing: make test installs it")

from benchmarks.recorded_turns import count_postgresql, count_redis, own_ids, postgresql_turn, redis_turn
from benchmarks.store_limits import Lane
from benchmarks.wire_recording import Recorder, Trip

LEASE = """
local time = redis.call('TIME')
local token = time[1] .. string.format('%06d', time[2])
redis.call('SET', KEYS[1], token, 'EX', 60)
return token
"""
STORE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('TAKEN') end
redis.call('SET', KEYS[2], ARGV[2], 'EX', 60)
return redis.call('GET', KEYS[2])
"""


def connect(url: str) -> Any:
    """Return a client."""
    return cast("Any", Redis).from_url(url)


async def store(client: Any, agent: str, session: str) -> None:
    """Lease a session with a token of Redis' clock, and store a text under it."""
    place = f"limits:{agent}:{session}"
    token = await client.eval(LEASE, 1, f"{place}:lease")
    async with client.pipeline(transaction=False) as together:
        together.eval(STORE, 2, f"{place}:lease", place, token, "one\r\ntwo")
        together.exists(place)
        assert await together.execute() == [b"one\r\ntwo", 1]


async def test_a_recorded_turn_is_sent_again_for_other_sessions(redis_url: str) -> None:
    agent, recorder, turns, parts = uuid4().hex, Recorder(), list[Any](), urlsplit(redis_url)
    async with recorder.between("sessions", redis_url) as url, connect(url) as client:
        for _ in range(2):
            await store(client, agent, uuid4().hex)
            await client.ping()  # no part of the turn
            turns.append(recorder.take())
    other, last = (each["sessions"] for each in turns)
    turn = redis_turn(last, own_ids(last, other))
    assert [step.answers for step in turn.steps] == [1, 2]
    with ExitStack() as stack:
        lane = Lane(
            turn,
            lambda: stack.enter_context(socket.create_connection((parts.hostname, parts.port or 6379), timeout=10)),
        )
        while lane.steps < 3 * len(turn.steps):
            for each in lane.sockets.values():
                lane.read(each)
    assert lane.errors == 0, "each turn has the token that its own lease has got"
    async with connect(redis_url) as client:
        keys = [key async for key in client.scan_iter(f"limits:{agent}:*", count=10_000) if b"lease" not in key]
        assert len(keys) == 2 + 3
        assert {await client.get(key) for key in keys} == {b"one\r\ntwo"}


def test_answers_of_redis_are_counted_when_they_are_complete() -> None:
    replies = b"+OK\r\n*2\r\n$5\r\n-1\r\nx\r\n%1\r\n+a\r\n*-1\r\n-ERR no\r\n$-1\r\n"
    assert count_redis(replies) == (4, 1)
    assert [count_redis(replies[:size])[0] for size in (4, 5, 20, 35, 39)] == [0, 1, 1, 2, 2]


def test_answers_of_postgresql_end_when_it_is_ready() -> None:
    ready, error = b"Z\0\0\0\5I", b"E\0\0\0\x06x\0"
    assert count_postgresql(ready + error + ready) == (2, 1)
    assert count_postgresql(error + ready[:-1]) == (0, 1)


def message(kind: bytes, content: bytes) -> bytes:
    """Return a message of PostgreSQL's protocol."""
    return kind + (len(content) + 4).to_bytes(4, "big") + content


def transaction(first: int, name: bytes, statement: bytes, value: bytes) -> list[Trip]:
    """Return the trips of a transaction that prepares a statement if it has no name."""
    prepare = b"" if name else message(b"P", b"\0" + statement)
    bind = message(b"B", b"\0%b\0" % name + value)
    requests = (message(b"Q", b"BEGIN ISOLATION LEVEL READ COMMITTED\0"), prepare + bind, message(b"Q", b"COMMIT\0"))
    return [Trip(0, first + place, request, 0, b"Z\0\0\0\5I") for place, request in enumerate(requests)]


def test_a_turn_in_postgresql_binds_prepared_statements_and_leaves_out_what_is_made_at_rest() -> None:
    row, sent = uuid4().hex.encode(), [message(b"P", b"known\0INSERT\0")]
    turn = [
        *transaction(0, b"", b"LOOK\0", b"now"),
        *transaction(3, b"known", b"", row),
        *transaction(6, b"", b"INSERT\0", row),
    ]
    recorded = postgresql_turn(turn, {row}, transaction(9, b"", b"LOOK\0", b"later"), sent)
    new = recorded.new_ids(7)
    assert new[row] == row[:20] + b"000000000007"
    insert = [message(b"B", b"\0r1\0" + new[row])]
    requests = [step.request(new) for step in recorded.steps]
    assert requests == [turn[0].request, *insert, turn[2].request] * 2
    assert recorded.transactions == 2
    assert recorded.openings[0].startswith(message(b"P", b"r0\0LOOK\0") + message(b"P", b"r1\0INSERT\0"))
