import asyncio
from typing import Any, cast

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.replica_watch import ReplicaWatch

LOOK_S, SILENCE_S = 0.02, 0.12


class FakeJournal:
    """Knows which run managers have reported, and which runs were woken."""

    def __init__(self) -> None:
        self.reported = {"one", "two"}
        self.woken: list[str] = []
        self.failure: Exception | None = None

    async def alive(self, players: set[str]) -> set[str]:
        if self.failure is not None:
            raise self.failure
        return players & self.reported

    def wake(self, run_id: str) -> None:
        self.woken.append(run_id)


def watch_of(journal: FakeJournal) -> ReplicaWatch:
    watch = ReplicaWatch(cast("Any", journal), look_s=LOOK_S, silence_s=SILENCE_S)
    watch.follow("a", "one")
    watch.follow("b", "two")
    return watch


async def test_followers_of_a_silent_run_manager_are_woken() -> None:
    journal = FakeJournal()
    watch = watch_of(journal)
    await asyncio.sleep(5 * LOOK_S)
    assert journal.woken == []
    journal.reported.discard("one")
    await asyncio.sleep(5 * LOOK_S)
    assert set(journal.woken) == {"a"}
    assert (watch.is_silent("one"), watch.is_silent("two")) == (True, False)
    journal.reported.add("one")
    await asyncio.sleep(5 * LOOK_S)
    assert not watch.is_silent("one")
    await watch.aclose()


async def test_nobody_is_judged_soon_after_a_failure_of_the_journal() -> None:
    journal = FakeJournal()
    watch = watch_of(journal)
    journal.failure = StreamError("Redis is away.")
    await asyncio.sleep(3 * LOOK_S)
    journal.failure, journal.reported = None, set()  # it has forgotten all reports
    await asyncio.sleep(SILENCE_S / 2)
    assert journal.woken == []
    await asyncio.sleep(2 * SILENCE_S)
    assert set(journal.woken) == {"a", "b"}
    await watch.aclose()
