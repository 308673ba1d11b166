import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.server.cli.cancel import _cancel  # pyright: ignore[reportPrivateUsage]
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.server.cli.command import invoke
from tests.stores import OpenStore


def test_it_explains_itself() -> None:
    result = invoke("cancel", "--help")
    assert result.exit_code == 0
    assert "ragflow-lg cancel" in result.stdout


async def test_it_says_what_it_did(reopen: OpenStore) -> None:
    async with reopen() as store:
        with pytest.raises(CheckpointError, match="no session 'anna'"):
            await _cancel(store, "anna", None, Settings())
        await store.runs.put(RunRecord("r", "anna", "anna"))
        assert await _cancel(store, "anna", None, Settings()) == "Nothing runs in 'anna'."
        asked: list[str] = []
        async with hold_lease(store.leases, "anna"), store.cancels.watch("anna", lambda: asked.append("anna")):
            assert (await _cancel(store, "anna", None, Settings())).startswith("Asked process ")
