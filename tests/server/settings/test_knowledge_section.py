import pytest
from pydantic import SecretStr

from ragflow_lg.server.settings import KnowledgeSection


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("elasticsearch+https://ada:geheim@here:9200", "geheim"),
        ("elasticsearch+https://ada@here:9200", ""),
        ("sqlite:///k.db", ""),
    ],
)
def test_the_password_of_the_url(url: str, password: str) -> None:
    section = KnowledgeSection(url=url)
    assert section.password() == password
    assert "geheim" not in repr(section)


def test_the_key_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "geheim-2")
    assert KnowledgeSection().ragflow_key() == ""
    assert KnowledgeSection(ragflow_api_key_env="OTHER_KEY").ragflow_key() == "geheim-2"
    both = KnowledgeSection(ragflow_api_key=SecretStr("geheim-1"), ragflow_api_key_env="OTHER_KEY")
    assert both.ragflow_key() == "geheim-1"
