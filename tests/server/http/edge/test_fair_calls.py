"""Which call of which tenant runs next, with a clock of the tests."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextvars import Context

import pytest

from ragflow_lg.server.http.edge import fair_calls
from ragflow_lg.server.http.edge.fair_calls import Call, FairCalls
from ragflow_lg.server.http.edge.fair_loop import PAUSE_S


def _clock() -> tuple[Callable[[], float], Callable[[float], None]]:
    now = [0.0]

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return lambda: now[0], pass_time


def test_the_tenant_that_has_used_the_least_time_is_next():
    clock, pass_time = _clock()
    seen: list[str] = []
    calls = FairCalls(clock, clock)

    def add(tenant: str, seconds: float) -> None:
        def work() -> None:
            seen.append(tenant)
            pass_time(seconds)

        calls.add(tenant, Call(work, (), asyncio.new_event_loop(), Context()))

    for _ in range(4):
        add("slow", 1.0)
        add("fast", 0.25)
    while calls:
        calls.run()
    assert seen == ["slow", "fast", "fast", "fast", "fast", "slow", "slow", "slow"]


@pytest.mark.parametrize(
    ("others", "least_s", "most_s"),
    [("quiet", 0.4, 0.55), ("light", 0.15, 0.4), ("busy", 0.9, 1.01), ("", 1.9, 2.01)],
)
def test_a_tenant_with_a_backlog_uses_a_share_of_the_time_beside_one_without(
    others: str, least_s: float, most_s: float
) -> None:
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    used_s = defaultdict[str, float](float)

    def work(tenant: str) -> None:
        used_s[tenant] += 0.001
        pass_time(0.001)
        calls.add(tenant, Call(work, (tenant,), loop, Context()))

    calls.add("first", Call(work, ("first",), loop, Context()))
    if others == "busy":
        calls.add("second", Call(work, ("second",), loop, Context()))
    rest_s, before_s = 0.0, 0.0
    while clock() < 3:
        if clock() < 1:
            before_s = used_s["first"]
        if others == "quiet":
            calls.add("second", Call(lambda: None, (), loop, Context()))
        elif others == "light" and clock() >= rest_s:  # it uses about half of the time
            calls.add("second", Call(pass_time, (0.001,), loop, Context()))
            rest_s = clock() + 0.002
        if not calls.run():
            pass_time(PAUSE_S)
    loop.close()
    assert least_s <= used_s["first"] - before_s <= most_s


def test_a_tenant_that_is_in_the_way_of_others_is_reported_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_calls, "REPORT_S", 1.0)
    clock, pass_time = _clock()
    reported = list[str]()
    calls, loop = FairCalls(clock, clock, reported.append), asyncio.new_event_loop()

    def work() -> None:
        pass_time(0.001)
        calls.add("busy", Call(work, (), loop, Context()))

    def run_until(end_s: float) -> None:
        while clock() < end_s:
            if not calls.run():
                pass_time(PAUSE_S)

    calls.add("busy", Call(work, (), loop, Context()))
    run_until(2)
    assert reported == []  # nobody else is there
    while clock() < 4.5:
        calls.add("quiet", Call(lambda: None, (), loop, Context()))
        run_until(clock() + 0.01)
    loop.close()
    assert reported == ["busy"] * 3


def test_all_tenants_with_a_backlog_together_use_the_share_of_one() -> None:
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    used_s = defaultdict[str, float](float)

    def work(tenant: str) -> None:
        used_s[tenant] += 0.001
        pass_time(0.001)
        calls.add(tenant, Call(work, (tenant,), loop, Context()))

    for number in range(4):
        calls.add(f"busy {number}", Call(work, (f"busy {number}",), loop, Context()))
    before_s = 0.0
    while clock() < 4:
        if clock() < 2:  # meanwhile, each of them gets a backlog
            before_s = sum(used_s.values())
        calls.add("quiet", Call(lambda: None, (), loop, Context()))
        if not calls.run():
            pass_time(PAUSE_S)
    loop.close()
    assert 0.4 <= sum(used_s.values()) - before_s <= 0.6
    assert min(used_s.values()) >= max(used_s.values()) * 0.7


def test_short_work_in_threads_uses_the_share_of_a_tenant_with_a_backlog() -> None:
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    used_s = before_s = 0.0
    is_computing = True

    def start_thread() -> None:
        nonlocal is_computing
        is_computing = True

    while clock() < 4:
        if clock() < 2:
            before_s = used_s
        calls.add("quiet", Call(lambda: None, (), loop, Context()))
        if is_computing:
            is_computing = False
            used_s += 0.008
            pass_time(0.008)
            calls.note_thread("busy", 0.008)
            calls.add("busy", Call(start_thread, (), loop, Context()))
        if not calls.run():
            pass_time(PAUSE_S)
    loop.close()
    assert 0.3 <= used_s - before_s <= 0.6


def test_threads_that_wait_do_not_give_their_tenant_a_backlog() -> None:
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    busy_s, thread_ends_s = 0.0, 0.05

    def start_thread() -> None:
        nonlocal thread_ends_s
        pass_time(0.001)
        thread_ends_s = clock() + 0.05

    def work() -> None:
        nonlocal busy_s
        busy_s += 0.009
        pass_time(0.009)
        calls.add("busy", Call(work, (), loop, Context()))

    while clock() < 20:
        if clock() >= thread_ends_s:
            thread_ends_s = 100.0
            calls.note_thread("quiet", 0.0001)
            calls.add("quiet", Call(start_thread, (), loop, Context()))
        if clock() >= 15 and not busy_s:
            work()
        if not (calls and calls.run()):
            pass_time(PAUSE_S)
    loop.close()
    assert 1.0 <= busy_s <= 2.0  # of five seconds


@pytest.mark.parametrize(
    ("others", "call_s", "least_s", "most_s"),
    [
        ("quiet", 0.020, 0.5, 0.8),
        ("quiet", 0.100, 0.2, 0.3),
        ("quiet", 0.300, 0.6, 0.6),  # waits a second at most
        ("quiet", 0.005, 1.2, 1.4),
        ("long", 0.020, 0.9, 1.1),
        ("", 0.020, 1.3, 1.4),
    ],
)
def test_a_tenant_waits_after_a_long_call_while_others_have_short_ones(
    others: str, call_s: float, least_s: float, most_s: float
) -> None:
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    used_s = defaultdict[str, float](float)
    waiting = dict[str, float]()
    """When the next call of a tenant comes: half a call after the last one, so that its queue becomes empty."""

    def work(tenant: str) -> None:
        used_s[tenant] += call_s
        pass_time(call_s)
        waiting[tenant] = clock() + call_s / 2

    waiting["first"] = 0
    if others == "long":
        waiting["second"] = 0
    while clock() < 2:
        if others == "quiet":
            calls.add("second", Call(lambda: None, (), loop, Context()))
        for tenant in [tenant for tenant, at in waiting.items() if at <= clock()]:
            del waiting[tenant]
            calls.add(tenant, Call(work, (tenant,), loop, Context()))
        if not (calls and calls.run()):
            pass_time(PAUSE_S / 4)
        pass_time(0.00001)
    loop.close()
    assert least_s <= used_s["first"] <= most_s


def test_a_tenant_that_was_idle_saves_little_time():
    clock, pass_time = _clock()
    seen: list[str] = []
    calls = FairCalls(clock, clock)

    def add(tenant: str) -> None:
        def work() -> None:
            seen.append(tenant)
            pass_time(0.01)

        calls.add(tenant, Call(work, (), asyncio.new_event_loop(), Context()))

    for _ in range(30):
        add("old")
    for _ in range(10):
        calls.run()
    for _ in range(20):
        add("new")
    seen.clear()
    for _ in range(14):
        calls.run()
    assert len(seen) == 14
    assert 8 <= seen.count("new") <= 10


def test_a_tenant_that_others_delay_gets_no_backlog_by_that():
    """A tenant was slowed down for seconds: its calls had waited for another one, and then for their own backlog."""
    clock, pass_time = _clock()
    calls, loop = FairCalls(clock, clock), asyncio.new_event_loop()
    waited_s = list[float]()

    def work(tenant: str, began_s: float) -> None:
        pass_time(0.009 if tenant == "rare" else 0.001)
        if tenant == "often":
            waited_s.append(clock() - began_s)

    next_s = {"often": 0.0, "rare": 0.0}
    while clock() < 5:
        for tenant, pause_s in (("often", 0.0014), ("rare", 0.05)):
            if clock() >= next_s[tenant]:
                calls.add(tenant, Call(work, (tenant, clock()), loop, Context()))
                next_s[tenant] = max(next_s[tenant] + pause_s, clock() - 0.1)
        if not calls.run():
            pass_time(PAUSE_S)
        pass_time(0.00001)
    loop.close()
    assert max(waited_s) < 0.1


def test_queues_without_calls_are_forgotten_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_calls, "MAX_QUEUES", 3)
    loop = asyncio.new_event_loop()
    calls, called = FairCalls(), list[int]()
    for number in range(20):
        calls.add("waiting", Call(called.append, (-1,), loop, Context()))
        calls.add(f"tenant {number}", Call(called.append, (number,), loop, Context()))
        assert len(calls._queues) <= 4  # pyright: ignore[reportPrivateUsage] - its size is what this is about
        while calls:
            calls.run()
    loop.close()
    assert sorted(called) == [-1] * 20 + list(range(20))


def test_a_tenant_waits_after_work_in_a_thread_that_was_longer_than_the_wait() -> None:
    clock, pass_time = _clock()
    calls, loop, began_s = FairCalls(clock, clock), asyncio.new_event_loop(), list[float]()
    calls.add("large", Call(pass_time, (0.0001,), loop, Context()))
    calls.run()
    pass_time(2)
    calls.note_thread("large", 2)
    calls.add("large", Call(lambda: began_s.append(clock()), (), loop, Context()))
    while calls and clock() < 5:
        calls.add("other", Call(lambda: None, (), loop, Context()))
        if not calls.run():
            pass_time(PAUSE_S)
        pass_time(0.0001)
    loop.close()
    assert began_s
    assert 2.9 < began_s[0] < 3.2


def test_a_tenant_does_not_wait_after_a_call_that_another_thread_has_delayed() -> None:
    clock, pass_time = _clock()
    processor_clock, pass_processor_time = _clock()
    calls, loop, began_s = FairCalls(clock, processor_clock), asyncio.new_event_loop(), list[float]()

    def work() -> None:
        pass_processor_time(0.001)
        pass_time(0.1)
        calls.add("delayed", Call(lambda: began_s.append(clock()), (), loop, Context()))

    calls.add("delayed", Call(work, (), loop, Context()))
    while calls and clock() < 5:
        calls.add("other", Call(lambda: None, (), loop, Context()))
        if not calls.run():
            pass_time(PAUSE_S)
        pass_time(0.0001)
    loop.close()
    assert began_s
    assert began_s[0] < 0.2


def test_few_queues_are_looked_at_before_a_call_however_many_tenants_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand tenants, a call waited for a look at each of them."""
    calls, loop, called, looked = FairCalls(), asyncio.new_event_loop(), list[int](), list[int]()
    refill = fair_calls._Queue.refill  # pyright: ignore[reportPrivateUsage] - calls of it are counted

    def count(queue: fair_calls._Queue, now: float, left_s: float) -> None:  # pyright: ignore[reportPrivateUsage]
        looked.append(1)
        refill(queue, now, left_s)

    monkeypatch.setattr(fair_calls._Queue, "refill", count)  # pyright: ignore[reportPrivateUsage]
    for number in range(1_000):
        calls.add(f"tenant {number}", Call(called.append, (number,), loop, Context()))
    while calls:
        calls.run()
    loop.close()
    assert called == list(range(1_000))
    assert len(looked) <= 2_000


def test_new_tenants_do_not_keep_others_from_coming_next() -> None:
    """Each began with less than what the one before it had used."""
    clock, pass_time = _clock()
    calls, loop, called = FairCalls(clock, clock), asyncio.new_event_loop(), list[str]()

    def add(tenant: str) -> None:
        def work() -> None:
            called.append(tenant)
            pass_time(0.001)

        calls.add(tenant, Call(work, (), loop, Context()))

    for _ in range(200):
        add("old")
    while calls:
        calls.run()
    pass_time(1)
    called.clear()
    add("old")
    for number in range(2_000):
        add(f"new {number}")
        add(f"other {number}")
        calls.run()
        calls.run()
    loop.close()
    assert "old" in called
