import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.server.settings.server_section import ServerSection


def test_a_metrics_key_has_a_minimum_length() -> None:
    assert ServerSection(metrics="key", metrics_key=SecretStr("x" * 16)).metrics == "key"
    with pytest.raises(ValidationError, match="16 characters"):
        ServerSection(metrics="key", metrics_key=SecretStr("geheim"))
