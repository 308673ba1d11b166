from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.studio.folder_lock import lock_folder


def test_a_folder_is_locked_once_and_then_released(tmp_path: Path) -> None:
    for _ in range(2):
        with (
            lock_folder(tmp_path),
            pytest.raises(SettingsError, match="Another `ragflow-lg studio` serves"),
            lock_folder(tmp_path),
        ):
            pytest.fail("it is locked twice")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match="cannot be opened"), lock_folder(tmp_path / "none"):
        pytest.fail("it does not exist")
