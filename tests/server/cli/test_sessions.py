import pytest

from ragflow_lg.server.cli.sessions import _sessions  # pyright: ignore[reportPrivateUsage]
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.server.cli.command import invoke
from tests.stores import OpenStore


def test_it_explains_itself() -> None:
    result = invoke("sessions", "--help")
    assert result.exit_code == 0
    assert "ragflow-lg sessions" in result.stdout


async def test_what_nobody_runs_is_interrupted(reopen: OpenStore, capsys: pytest.CaptureFixture[str]) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", "anna"))

        async def listed() -> list[str]:
            await _sessions(store, [], None)
            return capsys.readouterr().out.split()[:2]

        assert await listed() == ["anna", "interrupted"]
        async with hold_lease(store.leases, "anna"):
            assert await listed() == ["anna", "running"]
            await _sessions(store, [], 0)
            assert capsys.readouterr().out.startswith("kept anna: it is being run by process ")
        await _sessions(store, [], 0)
        assert capsys.readouterr().out == "deleted anna\n"
