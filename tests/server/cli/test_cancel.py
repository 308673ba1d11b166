import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.server.cli.cancel import _cancel  # pyright: ignore[reportPrivateUsage] - the command without its event loop
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore


async def test_the_message_says_what_was_cancelled(reopen: OpenStore) -> None:
    async with reopen() as store:
        with pytest.raises(CheckpointError, match="no session 'anna'"):
            await _cancel(store, "anna", None, Settings())
        await store.runs.put(RunRecord("r", "anna", "anna"))
        assert await _cancel(store, "anna", None, Settings()) == "No turn is running in 'anna'."
        requests: list[str] = []
        async with hold_lease(store.leases, "anna"), store.cancels.watch("anna", lambda: requests.append("anna")):
            assert (await _cancel(store, "anna", None, Settings())).startswith("Asked process ")
