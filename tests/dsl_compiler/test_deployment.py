import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl_compiler.deployment import NoDeployment


def test_without_a_deployment_all_tools_are_permitted_and_no_canvas_exists() -> None:
    deployment = NoDeployment()
    assert deployment.permits.permits(["anything"])
    assert deployment.servers is None
    for find in (deployment.canvas_by_name, deployment.canvas_at_path):
        with pytest.raises(SettingsError, match="'x"):
            find("x.json")
