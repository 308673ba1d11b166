from __future__ import annotations

import pytest

from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.models_section import ProviderSection
from ragflow_lg.server.settings.section import web_address


def test_keys_that_are_missing():
    settings = Settings(providers={"A": ProviderSection(), "B": ProviderSection(api_key_env="OTHER_KEY")})
    assert [provider.api_key for provider in settings.chat_settings().providers.values()] == ["", ""]


@pytest.mark.parametrize("value", ["ftp://geheim.example", "geheim", ""])
def test_what_is_no_web_address(value: str):
    assert web_address(" HTTPS://a.example ") == "HTTPS://a.example"
    with pytest.raises(ValueError, match="http://"):
        web_address(value)
