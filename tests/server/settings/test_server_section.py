from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.server.settings import ServerSection


def test_a_key_of_metrics_cannot_be_guessed():
    assert ServerSection(metrics="key", metrics_key=SecretStr("x" * 16)).metrics == "key"
    with pytest.raises(ValidationError, match="16 characters"):
        ServerSection(metrics="key", metrics_key=SecretStr("geheim"))
