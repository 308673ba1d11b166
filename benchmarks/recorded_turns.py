"""A recorded turn that can be sent again, with other ids: in Redis' protocol and in PostgreSQL's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from benchmarks.wire_recording import Trip

_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-f])")
_CLOCK = re.compile(rb"(?<![0-9.])(?:[0-9]{16}(?![0-9])|[0-9]{13}-[0-9])")
"""What Redis makes of its clock: the token of a lease, and the id of an entry in the queue's stream."""
_HELLO = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
_SYNC = b"S\0\0\0\4"
_ENDS = (b"COMMIT\0", b"ROLLBACK\0")
_NOTHING = (b"_\r\n", b"*-1\r\n")

Sent = Sequence[bytes | bytearray]
Count = Callable[[bytes], tuple[int, int]]
"""Returns how many answers are complete, and how many errors are in them."""


def count_redis(reply: bytes) -> tuple[int, int]:
    """Count Redis' answers."""
    found = errors = at = 0
    while at < len(reply):
        begin, left = at, 1
        while left:
            end = reply.find(b"\r\n", at)
            if end < 0:
                return found, errors
            kind, number = reply[at : at + 1], reply[at + 1 : end]
            left, at = left - 1, end + 2
            if kind in b"$=!" and number != b"-1":
                at += int(number) + 2
            elif kind in b"*~>%" and number != b"-1":
                left += int(number) * (2 if kind == b"%" else 1)
            if at > len(reply):
                return found, errors
        found, errors = found + 1, errors + (reply[begin : begin + 1] == b"-")
    return found, errors


def count_postgresql(reply: bytes) -> tuple[int, int]:
    """Count how often PostgreSQL was ready for the next request."""
    kinds = [kind for kind, _ in _messages(reply)]
    return kinds.count(b"Z"), kinds.count(b"E")


def _messages(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield PostgreSQL's complete messages: kind and content. The first ones of a connection have no kind."""
    at = 0
    while at + 5 <= len(data):
        begin = at + (data[at] != 0)
        end = begin + int.from_bytes(data[begin : begin + 4], "big")
        if end > len(data):
            return
        yield data[at:begin], data[begin + 4 : end]
        at = end


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) + 4).to_bytes(4, "big") + content


class Step(Struct):
    """A trip to be sent again: its text, divided at the values that each turn has of its own."""

    connection: int
    parts: list[bytes]
    answers: int
    clocks: list[bytes]
    """The values in the recorded reply that later steps send."""

    def request(self, values: Mapping[bytes, bytes]) -> bytes:
        """Return the text with the values of a turn."""
        parts = self.parts.copy()
        for place in range(1, len(parts), 2):
            parts[place] = values.get(parts[place], parts[place])
        return b"".join(parts)


class RecordedTurn(Struct):
    """A turn as a store sees it."""

    steps: list[Step]
    ids: Collection[bytes]
    openings: dict[int, bytes]
    """What each connection sends before its steps: RESP's version, or the statements that it prepares."""
    count: Count

    @property
    def request_bytes(self) -> int:
        """The size of what is sent."""
        return sum(len(part) for step in self.steps for part in step.parts)

    @property
    def transactions(self) -> int:
        """The number of PostgreSQL's transactions."""
        return sum(step.parts[-1].endswith(_ENDS) for step in self.steps)

    def new_ids(self, number: int) -> dict[bytes, bytes]:
        """Return ids of the same length for a turn with this number."""
        return {value: b"%b%012x" % (value[:-12], number) for value in self.ids}


def clocks(reply: bytes) -> list[bytes]:
    """Return what Redis has made of its clock."""
    return _CLOCK.findall(reply)


def own_ids(turn: Iterable[Trip], other: Iterable[Trip]) -> set[bytes]:
    """Return the ids of a turn that are not also in another one, as those of the agent are."""
    found, known = (
        {value for trip in trips for text in (trip.request, trip.reply) for value in _ID.findall(text)}
        for trips in (turn, other)
    )
    return found - known


def redis_turn(trips: Sequence[Trip], ids: Collection[bytes]) -> RecordedTurn:
    """Return a turn without the trips that name neither it nor its entry in the queue, as those at rest.

    A read that waits is sent when its answer is there, and one that gets none is left out.
    """
    named = [trip for trip in trips if _has(trip, ids)]
    entries = {value for trip in named for value in clocks(trip.reply)}
    of_turn = [trip for trip in trips if _has(trip, {*ids, *entries}) and not (_waits(trip) and trip.reply in _NOTHING)]
    of_turn.sort(key=lambda trip: trip.answered if _waits(trip) else trip.asked)
    return _turn(of_turn, ids, {trip.connection: _HELLO for trip in of_turn}, count_redis)


def _waits(trip: Trip) -> bool:
    return b"\r\nBLOCK\r\n" in trip.request


def _has(trip: Trip, values: Iterable[bytes]) -> bool:
    return any(value in trip.request or value in trip.reply for value in values)


def postgresql_turn(trips: Sequence[Trip], ids: Collection[bytes], at_rest: Sequence[Trip], sent: Sent) -> RecordedTurn:
    """Return a turn without the transactions that are also made at rest. It binds prepared statements."""
    statements = dict[bytes, int]()
    trips, at_rest = (_prepare(some, sent, statements) for some in (trips, at_rest))
    idle = {name for trip in at_rest for name in _statements(trip)}
    transactions = [each for each in _transactions(trips) if not any(idle & _statements(trip) for trip in each)]
    of_turn = [trip for each in transactions for trip in each]
    of_turn.sort(key=lambda trip: trip.asked)
    opening = b"".join(_message(b"P", b"r%d\0%b" % (number, text)) for text, number in statements.items()) + _SYNC
    return _turn(of_turn, ids, {trip.connection: opening for trip in of_turn}, count_postgresql)


def _prepare(trips: Iterable[Trip], sent: Sent, statements: dict[bytes, int]) -> list[Trip]:
    """Return trips that only bind statements, each by its number."""
    found, named = list[Trip](), dict[int, dict[bytes, bytes]]()
    for trip in trips:
        if (known := named.get(trip.connection)) is None:
            known = named[trip.connection] = dict(_parsed(bytes(sent[trip.connection])))
        known.update(_parsed(trip.request))
        request = b""
        for kind, content in _messages(trip.request):
            if kind == b"B":
                portal, name, rest = content.split(b"\0", 2)
                number = statements.setdefault(known[name], len(statements))
                content = b"%b\0r%d\0%b" % (portal, number, rest)
            request += b"" if kind == b"P" else _message(kind, content)
        found.append(Trip(trip.connection, trip.asked, request, trip.answered, trip.reply))
    return found


def _parsed(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the statements that are prepared: name and text."""
    for kind, content in _messages(data):
        if kind == b"P":
            name, text = content.split(b"\0", 1)
            yield name, text


def _statements(trip: Trip) -> set[bytes]:
    return {content.split(b"\0", 2)[1] for kind, content in _messages(trip.request) if kind == b"B"}


def _transactions(trips: Iterable[Trip]) -> Iterator[list[Trip]]:
    """Yield the trips of each transaction, with the check of the connection before it."""
    open_: dict[int, list[Trip]] = {}
    for trip in trips:
        open_.setdefault(trip.connection, []).append(trip)
        if trip.request.endswith(_ENDS):
            yield open_.pop(trip.connection)


def _turn(trips: Sequence[Trip], ids: Collection[bytes], openings: dict[int, bytes], count: Count) -> RecordedTurn:
    sent = b"\n".join(trip.request for trip in trips)
    known = {value for trip in trips for value in clocks(trip.reply) if value in sent}
    values = re.compile(b"(" + b"|".join(map(re.escape, sorted({*ids, *known}))) + b")")
    steps = [
        Step(
            trip.connection,
            values.split(trip.request),
            count(trip.reply)[0],
            found if known.intersection(found := clocks(trip.reply)) else [],
        )
        for trip in trips
    ]
    return RecordedTurn(steps, ids, openings, count)
