import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl_compiler.deployment import NoDeployment


def test_nowhere_there_are_no_other_canvases() -> None:
    deployment = NoDeployment()
    assert deployment.permits.permits(["anything"])
    assert deployment.servers is None
    for find in (deployment.canvas_by_name, deployment.canvas_at_path):
        with pytest.raises(SettingsError, match="'x"):
            find("x.json")
