import pytest

from ragflow_lg.server.cli.sessions import _list_or_delete  # pyright: ignore[reportPrivateUsage] - the command without its event loop
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore


async def test_a_session_without_a_process_is_interrupted(
    reopen: OpenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", "anna"))

        async def first_row() -> list[str]:
            await _list_or_delete(store, [], None)
            return capsys.readouterr().out.split()[:2]

        assert await first_row() == ["anna", "interrupted"]
        async with hold_lease(store.leases, "anna"):
            assert await first_row() == ["anna", "running"]
            await _list_or_delete(store, [], 0)
            assert capsys.readouterr().out.startswith("anna was not deleted: it is running in process ")
        await _list_or_delete(store, [], 0)
        assert capsys.readouterr().out == "deleted anna\n"
