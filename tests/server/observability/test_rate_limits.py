from __future__ import annotations

from ragflow_lg.server.observability.rate_limits import Rates


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_has_so_many_requests_and_they_come_back_evenly() -> None:
    time = Time()
    rates = Rates(60, time)
    assert [rates.wait_s("a") for _ in range(60)] == [0.0] * 60
    assert rates.wait_s("a") == 1.0
    assert rates.wait_s("b") == 0.0
    time.now = 0.5
    assert rates.wait_s("a") == 0.5
    time.now = 1.0
    assert [rates.wait_s("a"), rates.wait_s("a")] == [0.0, 1.0]


def test_nothing_is_counted_without_a_limit() -> None:
    rates = Rates(0, Time())
    assert [rates.wait_s("a") for _ in range(1000)] == [0.0] * 1000


def test_those_who_are_remembered_are_bounded() -> None:
    rates = Rates(1, Time(), max_askers=2)
    for asker in ("a", "b", "c"):
        assert rates.wait_s(asker) == 0.0
    assert rates.wait_s("c") > 0
    assert rates.wait_s("a") == 0.0
