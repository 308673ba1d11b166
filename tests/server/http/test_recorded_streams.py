"""What clients receive, byte by byte. `tests.harness.recorded_streams` writes the recordings."""

from pathlib import Path

import pytest

from tests.harness.recorded_streams import CASES, FOLDER, Case, record


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_clients_receive_the_recorded_bytes(case: Case, tmp_path: Path) -> None:
    received = await record(case, tmp_path)
    recorded = (FOLDER / f"{case.name}.txt").read_bytes()
    assert received.split(b"\n") == recorded.split(b"\n")


def test_each_recording_belongs_to_a_case() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {case.name for case in CASES}
