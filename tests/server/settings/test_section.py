import pytest

from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.models_section import ProviderSection
from ragflow_lg.server.settings.section import web_address


def test_a_missing_key_is_empty() -> None:
    settings = Settings(providers={"A": ProviderSection(), "B": ProviderSection(api_key_env="OTHER_KEY")})
    assert [provider.api_key for provider in settings.chat_settings().providers.values()] == ["", ""]


@pytest.mark.parametrize("value", ["ftp://geheim.example", "geheim", ""])
def test_only_web_addresses_are_accepted(value: str) -> None:
    assert web_address(" HTTPS://a.example ") == "HTTPS://a.example"
    with pytest.raises(ValueError, match="http://"):
        web_address(value)
