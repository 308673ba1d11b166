import pytest
from pydantic import ValidationError

from ragflow_lg.server.settings import EmbeddingSection, RerankerSection


@pytest.mark.parametrize("section", [EmbeddingSection, RerankerSection])
def test_base_url_must_be_a_web_address(section: type[EmbeddingSection | RerankerSection]) -> None:
    assert section(base_url=" https://a.example/v1").base_url == "https://a.example/v1"
    with pytest.raises(ValidationError, match="http://"):
        section(base_url="a.example/v1")
