from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_schedules import find_times, format_times
from tests.harness.rows import each_row

BERLIN = "Europe/Berlin"


def times(cron: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    after_ms = int(datetime.fromisoformat(after).timestamp() * 1000)
    return format_times(find_times(cron, zone, after_ms, count), zone)


def test_times_are_those_of_the_zone() -> None:
    assert times("0 9 * * MON", "2026-11-24T12:00Z", 2) == ["Mon 2026-11-30 09:00 +0100", "Mon 2026-12-07 09:00 +0100"]
    assert times("0 9 * * MON", "2026-11-30T08:00Z", 1) == ["Mon 2026-12-07 09:00 +0100"]  # after, not at
    assert times("30 8 1 */3 *", "2026-11-24T12:00Z", 1, "Asia/Tokyo") == ["Fri 2027-01-01 08:30 +0900"]


def test_each_day_has_one_time_when_the_clocks_change() -> None:
    assert times("30 2 * * *", "2026-03-27T12:00Z", 3) == [
        "Sat 2026-03-28 02:30 +0100",
        "Sun 2026-03-29 03:00 +0200",  # there is no 02:30
        "Mon 2026-03-30 02:30 +0200",
    ]
    assert times("30 2 * * *", "2026-10-24T12:00Z", 2) == ["Sun 2026-10-25 02:30 +0200", "Mon 2026-10-26 02:30 +0100"]
    # between the two 02:30 of that day, the next one is on the next day
    assert times("30 2 * * *", "2026-10-25T00:45Z", 1) == ["Mon 2026-10-26 02:30 +0100"]
    # the same holds in the second hour from 02:00: the first 02:30 is in the past
    assert times("30 2 * * *", "2026-10-25T01:10Z", 1) == ["Mon 2026-10-26 02:30 +0100"]
    assert times("0,30 1-3 * * *", "2026-10-25T01:10Z", 1) == ["Sun 2026-10-25 03:00 +0100"]
    every_hour = find_times("0 * * * *", BERLIN, int(datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp() * 1000), 6)
    assert {later - earlier for earlier, later in pairwise(every_hour)} == {3_600_000}


@each_row(
    "cron",
    [
        *("", "* * * * * *", "* * * *", "@daily", "0-99999999999 * * * *", "*/0 * * * *", "60 * * * *", "* * 30 2 *"),
        *("²L * * * *", "\x00 * * * *", ",".join("1" * 99) + " * * * *", "1/1/1/1/1/1L#2 * * * *", "0 0 29 2 L"),
    ],
)
def test_invalid_expressions_are_refused(cron: str) -> None:
    with pytest.raises(RequestError, match="cron expression") as caught:
        find_times(cron, "UTC", 0)
    assert caught.value.status == 422


@each_row("zone", ["", "Europe", "../etc/passwd", "/etc/passwd", "a\0b", "x" * 9999, "Europe/Atlantis"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(RequestError, match="no time zone"):
        find_times("0 9 * * *", zone, 0)


@given(st.text("0123456789*/,-#LW ", max_size=40) | st.text(max_size=40), st.integers(0, 4_000_000_000_000))
def test_any_text_is_read_or_refused(cron: str, after_ms: int) -> None:
    try:
        found = find_times(cron, BERLIN, after_ms, 2)
    except RequestError:
        return
    assert all(time > after_ms for time in found)
