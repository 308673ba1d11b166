"""Sessions are encrypted again with a new key, also if that was interrupted."""

from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.encryption.key_rotation import Reencrypted, reencrypt_session, sessions_of
from ragflow_lg.checkpoints.steps.saver_operations import key_config
from ragflow_lg.services.sessions import hold_lease
from tests.checkpoints.encryption.conftest import NEW, OLD, OpenWith
from tests.checkpoints.encryption.test_store_encryption import everything, fill, play, runner_on, step_config


async def raw(store: Store) -> str:
    """Return everything that a store without keys returns."""
    thread = thread_of_session("anna")
    stored = [str(await store.saver.inner.aget_tuple(key_config(key))) async for key in store.saver.list_keys(None)]
    blobs = store.saver.values.blobs
    records = [record async for record in store.runs.of_session("anna")]
    traces = [(await store.traces.get(run.run_id), await store.node_logs.get(run.run_id)) for run in records]
    return f"{stored} {await blobs.find(thread, await blobs.names(thread))} {records} {traces}"


@pytest.mark.parametrize("first", [(), (OLD,)], ids=["plain", "encrypted"])
async def test_after_it_the_old_key_is_not_needed(open_with: OpenWith, first: Any) -> None:
    async with open_with(*first)() as store:
        await fill(store)
        before = await everything(store)
    async with open_with(NEW, OLD)() as store:
        (session,) = await sessions_of(store)
        changed = await reencrypt_session(store, session)
        assert changed.checkpoints > 5
        assert changed.parts >= 2
        assert changed.records == 3
        assert await reencrypt_session(store, session) == Reencrypted()
    async with open_with()() as store:
        stored = await raw(store)
        assert "!old!" not in stored
        assert "correct-horse" not in stored
    async with open_with(NEW)() as store:
        assert await everything(store) == before
        assert await store.saver.steps(step_config()).find("0" * 32) == (True, {"done": "correct-horse"})
        runner = runner_on(store)
        assert (await play(await runner.rerun("anna", "anna-2", "in", round=1))).startswith("round")
        assert (await play(runner.resume("anna", {"size": "7"}))).endswith("Size 7")


async def test_an_interrupted_one_leaves_a_session_that_goes_on(
    open_with: OpenWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.encryption.key_rotation.BATCH", 3)
    async with open_with(OLD)() as store:
        await fill(store)
        before = await everything(store)
    for writes in range(1, 20):
        async with open_with(NEW, OLD)() as store:
            values: Any = store.saver.values
            begin, left = values.transaction, writes

            def fail(precondition: Any, begin: Any = begin) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
                return begin(precondition)

            values.transaction = fail
            try:
                await reencrypt_session(store, "anna")
            except KeyboardInterrupt:
                values.transaction = begin
            else:
                break
            assert await everything(store) == before
            assert [pause.node for pause in await runner_on(store).pauses("anna")] == ["ask"]
    else:
        pytest.fail("it never ended")
    assert writes > 2
    async with open_with(NEW)() as store:
        assert await everything(store) == before


async def test_a_session_that_runs_is_refused(open_with: OpenWith) -> None:
    async with open_with(OLD)() as store:
        await fill(store)
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(SessionBusyError):
                await reencrypt_session(store, "anna")
    async with open_with()() as store:
        with pytest.raises(CheckpointError, match="no `encryption_keys`"):
            await reencrypt_session(store, "anna")
