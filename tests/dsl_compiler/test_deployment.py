import pytest

from dsl_compiler.deployment import NoDeployment
from ragflow_lg.errors import SettingsError


def test_nowhere_there_are_no_other_canvases() -> None:
    deployment = NoDeployment()
    assert deployment.permits.permits(["anything"])
    assert deployment.servers is None
    for find in (deployment.named, deployment.beside):
        with pytest.raises(SettingsError, match="'x"):
            find("x.json")
