from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.knowledge.knowledge_servers import open_knowledge_server, read_server_url
from ragflow_lg.integrations.knowledge.knowledge_settings import KnowledgeSection
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.knowledge import Dataset
from tests.fakes.knowledge_models import WordEmbedders, WordRerankers
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row

DATASET = Dataset("1", "guide", "bge", "t1")


@each_row("url", ["ragflow+ftp://x", "ragflow+https://", "elasticsearch+es.local", "ragflow+http://x:y"])
def test_a_url_without_an_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"\[knowledge\] url begins with"):
        read_server_url(url)


def open_knowledge(**settings: Any) -> Any:
    section = KnowledgeSection(**settings)
    assert "s3cret" not in repr(section)
    return open_knowledge_server(section, [DATASET], ScriptedHttp(), WordEmbedders(), WordRerankers())


async def test_unknown_datasets_are_looked_up_in_ragflow() -> None:
    listed = HttpResponse(200, {}, '{"code": 0, "data": [{"id": "2", "name": "other"}]}', "")
    http = ScriptedHttp({"https://rag/api/v1/datasets": listed})
    fields: Any = {"url": "elasticsearch+https://es", "ragflow_url": "ragflow+https://rag", "ragflow_api_key": "s3cret"}
    knowledge = open_knowledge_server(KnowledgeSection(**fields), [DATASET], http, WordEmbedders(), WordRerankers())
    assert await knowledge.datasets(["guide"]) == {"guide": DATASET}
    assert http.requests == []
    assert await knowledge.datasets(["guide", "other"]) == {"guide": DATASET, "other": Dataset("2", "other")}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"url": "sqlite:///x"}, "is not a server URL"),
        ({"url": "elasticsearch+https://es", "ragflow_url": "https://rag"}, "ragflow_url is not a RAGFlow URL"),
        ({"url": "elasticsearch+https://es", "dictionaries": Path("/nowhere")}, "neither ner.json nor"),
        ({"url": "elasticsearch+https://es", "tokenizer": "ragflow-ranking"}, r"tokenizer: .* is not installed"),
    ],
    ids=["url", "ragflow_url", "dictionaries", "tokenizer"],
)
def test_an_unusable_setting_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        open_knowledge(**settings)
