import os
import sys
import threading
from concurrent.futures import Future

import pytest

from ragflow_lg.base.computing_threads import PRIORITY, ComputingThreads, compute_in_thread
from ragflow_lg.base.request_notes import RequestNotes, use_notes

LIMIT_S = 20.0


class Gate:
    """Work that counts those who are in it, until it is opened."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.opened = threading.Event()
        self._changed = threading.Condition()

    def enter(self, name: str) -> str:
        with self._changed:
            self.inside.append(name)
            self._changed.notify_all()
        assert self.opened.wait(LIMIT_S)
        return name

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.inside) >= count, LIMIT_S)


def _submit(threads: ComputingThreads, gate: Gate, tenant: str, name: str) -> Future[str]:
    with use_notes(RequestNotes(tenant=tenant)):
        return threads.submit(gate.enter, name)


def test_a_tenant_has_one_call_at_a_time_and_another_tenant_does_not_wait_for_it() -> None:
    gate = Gate()
    with ComputingThreads(4) as threads:
        calls = [_submit(threads, gate, "busy", name) for name in ("first", "second", "third")]
        gate.wait_for(1)
        calls.append(_submit(threads, gate, "other", "other"))
        gate.wait_for(2)
        inside = sorted(gate.inside)
        gate.opened.set()

        assert inside == ["first", "other"]
        assert [call.result(LIMIT_S) for call in calls] == ["first", "second", "third", "other"]


def test_tenants_take_turns() -> None:
    gate = Gate()
    with ComputingThreads(0) as threads:  # one thread
        calls = [_submit(threads, gate, "busy", name) for name in ("first", "second", "third")]
        calls.append(_submit(threads, gate, "other", "other"))
        gate.opened.set()
        for call in calls:
            call.result(LIMIT_S)

    assert gate.inside == ["first", "other", "second", "third"]


def test_a_tenant_does_not_wait_for_others_with_long_calls_which_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    with ComputingThreads(2) as threads:
        with monkeypatch.context() as patch:
            patch.setattr("ragflow_lg.base.computing_threads.LONG_S", 0.0)
            for tenant in ("long 1", "long 2", "long 3"):
                with use_notes(RequestNotes(tenant=tenant)):
                    threads.submit(str).result(LIMIT_S)
        calls = [_submit(threads, gate, f"long {number}", f"long {number}") for number in (1, 2, 3)]
        gate.wait_for(2)
        with use_notes(RequestNotes(tenant="other")):
            assert [threads.submit(str, number).result(LIMIT_S) for number in range(3)] == ["0", "1", "2"]
        inside = sorted(gate.inside)
        gate.opened.set()

        assert inside == ["long 1", "long 2"]
        assert [call.result(LIMIT_S) for call in calls] == ["long 1", "long 2", "long 3"]


def test_calls_for_nobody_do_not_wait_for_each_other() -> None:
    gate = Gate()
    with ComputingThreads(2) as threads:
        calls = [_submit(threads, gate, "", name) for name in ("one", "two")]
        gate.wait_for(2)
        gate.opened.set()
        assert [call.result(LIMIT_S) for call in calls] == ["one", "two"]


def test_a_call_that_is_cancelled_while_it_waits_does_not_run_and_the_next_one_does() -> None:
    gate = Gate()
    with ComputingThreads(1) as threads:
        first, second, third = (_submit(threads, gate, "busy", name) for name in ("first", "second", "third"))
        gate.wait_for(1)
        assert second.cancel()
        gate.opened.set()

        assert first.result(LIMIT_S) == "first"
        assert third.result(LIMIT_S) == "third"
    assert gate.inside == ["first", "third"]


def test_what_has_been_accepted_runs_after_the_threads_accept_nothing_more() -> None:
    gate = Gate()
    threads = ComputingThreads(1)
    calls = [_submit(threads, gate, "busy", name) for name in ("first", "second", "third")]
    threads.shutdown(wait=False)
    gate.opened.set()

    assert [call.result(LIMIT_S) for call in calls] == ["first", "second", "third"]


def test_a_thread_that_cannot_start_refuses_one_call_and_not_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    gate.opened.set()
    with ComputingThreads(1) as threads:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                _submit(threads, gate, "busy", "refused")

        assert _submit(threads, gate, "busy", "next").result(LIMIT_S) == "next"
    assert gate.inside == ["next"]


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_an_error_is_the_callers_and_the_next_call_runs() -> None:
    with use_notes(RequestNotes(tenant="busy")):
        with pytest.raises(ValueError, match="invalid literal"):
            await compute_in_thread(int, "no number")
        assert await compute_in_thread(int, "12", base=8) == 10


@pytest.mark.skipif(sys.platform != "linux", reason="others have no priorities of threads")
async def test_a_computing_thread_has_a_lower_priority() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)

    assert await compute_in_thread(os.getpriority, os.PRIO_PROCESS, 0) == min(own + PRIORITY, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
