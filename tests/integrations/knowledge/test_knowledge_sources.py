import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.knowledge_addresses import embedded_path, read_server_url
from ragflow_lg.integrations.knowledge.knowledge_settings import KnowledgeSection
from ragflow_lg.integrations.knowledge.knowledge_sources import (
    SettingsKnowledge,
    open_knowledge_server,
    probe_plain_datasets,
)
from ragflow_lg.server.assembly.canvas_needs import check_needs
from ragflow_lg.server.settings import Settings, load_settings
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.elasticsearch import HEADERS
from tests.fakes.embedded import fill, stored_knowledge
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.knowledge_models import WordEmbedders, WordRerankers
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row


@each_row(
    ("url", "problem"),
    [
        ("sqlite://k.db", "three slashes, sqlite:///k.db"),
        ("sqlite:///", "sqlite:///PATH"),
        ("k.db", "use sqlite:///PATH"),
        ("ftp://me:secret@host", "is 'host', which is not a knowledge base"),
        ("", "use sqlite:///PATH"),
    ],
)
def test_the_error_of_an_invalid_url_says_how_to_write_one(url: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        embedded_path(url)
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_the_settings_choose_file_and_model(tmp_path: Path) -> None:
    answer = json.dumps({"data": [{"index": 0, "embedding": [1.0] + [0.0] * 383}]})
    async with HttpServer([Route("/v1/embeddings", body=answer)]).running() as server:
        section = f'[embeddings."m@P"]\nbase_url = "http://127.0.0.1:{server.port}/v1"\napi_key = "s3cret"\n'
        settings = settings_of(
            tmp_path, 'embedding_model = "m@P"\n' + section + '[embeddings."gone"]\nbase_url = "http://127.0.0.1:9/v1"'
        )
        assert "s3cret" in settings.secrets
        fill(stored_knowledge(tmp_path / "k.db"), "e", {"a.md": ["cats sleep"]}, "gone")
        fill(stored_knowledge(tmp_path / "k.db"), "d", {"a.md": ["cats sleep"]}, "m@P")
        knowledge = SettingsKnowledge(settings)
        try:
            assert knowledge.models.embedders.default == "m@P"
            (dataset,) = (await knowledge.datasets(["d"])).values()
            result = await knowledge.search(DatasetSearch("cats", (dataset,)))
            assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["a.md"]
            assert "kind" in await knowledge.metadata([dataset])
            (unreachable,) = (await knowledge.datasets(["e"])).values()
            with pytest.raises(ServiceError, match=r"\[embeddings\.\"gone\"\] cannot be reached at http"):
                await knowledge.search(DatasetSearch("cats", (unreachable,)))
        finally:
            await knowledge.aclose()
        (request,) = server.received
        assert json.loads(request.body) == {"model": "m", "input": ["cats"], "encoding_format": "float"}
        assert request.header("authorization") == "Bearer s3cret"


async def test_the_settings_choose_a_server(tmp_path: Path) -> None:
    datasets = json.dumps({"code": 0, "data": [{"id": "2", "name": "theirs", "tenant_id": "t"}]})
    vectors = json.dumps({"data": [{"index": 0, "embedding": [1.0, 0.0]}]})
    hits: dict[str, Any] = {"timed_out": False, "_shards": {"failed": 0}, "hits": {"total": {"value": 1}, "hits": []}}
    routes = [
        Route("/api/v1/datasets", body=datasets),
        Route("/v1/embeddings", body=vectors),
        Route("/ragflow_t1/_search", headers=HEADERS, body=json.dumps(hits)),
    ]
    async with HttpServer(routes).running() as server:
        address = f"127.0.0.1:{server.port}"
        file = tmp_path / "ragflow-lg.toml"
        file.write_text(
            f'[knowledge]\nurl = "elasticsearch+http://me:s3cret@{address}"\n'
            f'ragflow_url = "ragflow+http://{address}"\nragflow_api_key = "k3y"\n'
            '[datasets."1"]\nname = "ours"\ntenant = "t1"\nembedding_model = "m@P"\n'
            f'[embeddings."m@P"]\nbase_url = "http://{address}/v1"\n'
            f'[rerankers."r@P"]\nbase_url = "http://{address}/v1"\napi_key = "r3r"\n',
            "utf-8",
        )
        settings = load_settings(file)
        assert {"s3cret", "k3y", "r3r"} <= set(settings.secrets)
        assert not any(secret in repr(settings) for secret in ("s3cret", "k3y", "r3r"))
        knowledge = SettingsKnowledge(settings)
        try:
            datasets_by_name = await knowledge.datasets(["ours", "theirs"])
            assert {name: dataset.id for name, dataset in datasets_by_name.items()} == {"ours": "1", "theirs": "2"}
            assert (await knowledge.search(DatasetSearch("cats", (datasets_by_name["ours"],)))).total == 0
            with pytest.raises(SettingsError, match="stored on a server"):
                knowledge.embedded()
        finally:
            await knowledge.aclose()


WIKI, NEWS = Dataset("w", "Wiki"), Dataset("ds2", "News")


def stores(monkeypatch: pytest.MonkeyPatch, error: str = "") -> SettingsKnowledge:
    def store(dataset: Dataset, letter: str, number: str, error: str) -> FakeKnowledge:
        chunks = [chunk(f"{letter}{n}", "a", dataset=dataset.id) for n in (1, 2)]
        return FakeKnowledge([dataset], chunks, {"k": {"v": [number]}}, error)

    knowledge = SettingsKnowledge(Settings())
    monkeypatch.setattr(knowledge, "_opened", ({"w": store(WIKI, "w", "1", error)}, store(NEWS, "n", "2", "")))
    return knowledge


async def test_the_results_of_several_stores_alternate_and_one_that_fails_fails_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = stores(monkeypatch)
    result = await joined.search(DatasetSearch("q", (NEWS, WIKI), top_n=3))
    assert [each["chunk_id"] for each in result.chunks] == ["n1", "w1", "n2"]
    assert result.total == 4
    assert await joined.metadata([WIKI, NEWS]) == {"k": {"v": ["1", "2"]}}
    with pytest.raises(ServiceError, match="down"):
        await stores(monkeypatch, "down").search(DatasetSearch("q", (NEWS, WIKI)))


def settings_of(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "s.toml"
    file.write_text(f'[knowledge]\nurl = "sqlite:///{tmp_path}/k.db"\n{text}', "utf-8")
    return load_settings(file)


async def test_a_dataset_of_the_settings_is_searched_beside_a_stored_one(tmp_path: Path) -> None:
    fill(stored_knowledge(tmp_path / "k.db"), "stored", {"a.md": ["rice grows"]})
    settings = settings_of(
        tmp_path,
        '[knowledge.datasets.wiki]\nid = "w"\nretriever = "tests.fakes.retrievers:open_list"\n'
        'options = { titles = ["Rice", "Tea"] }\n',
    )
    knowledge = SettingsKnowledge(settings)
    try:
        datasets = await knowledge.datasets(["w", "stored"])
        result = await knowledge.search(DatasetSearch("rice", tuple(datasets.values()), similarity_threshold=0.0))
        assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["a.md", "Rice", "Tea"]
        assert [entry.dataset.name for entry in await knowledge.list_datasets()] == ["wiki", "stored"]
    finally:
        await knowledge.aclose()


@each_row(
    ("name", "problem"),
    [
        ("tests.fakes.retrievers:missing", "cannot be imported: AttributeError"),
        ("no_such_package.x:y", "cannot be imported: ModuleNotFoundError"),
        ("tests.fakes.retrievers:fail", "cannot be opened: OSError: no licence"),
        ("tests.fakes.retrievers:RICE", "names a Document, not a function"),
    ],
)
async def test_a_retriever_that_cannot_be_opened_is_an_error_that_names_the_setting(
    tmp_path: Path, name: str, problem: str
) -> None:
    knowledge = SettingsKnowledge(settings_of(tmp_path, f'[knowledge.datasets.wiki]\nretriever = "{name}"\n'))
    datasets = await knowledge.datasets(["wiki"])
    with pytest.raises(SettingsError, match=rf"\[knowledge\.datasets\.wiki\] retriever.*{problem}"):
        await knowledge.search(DatasetSearch("rice", tuple(datasets.values())))
    await knowledge.aclose()


@each_row(
    "section",
    [
        "",
        'retriever = "a:b"\nurl = "elasticsearch+http://h:9200"\nindex = "i"',
        'url = "elasticsearch+http://h:9200"',
        'retriever = "os.system"',
        'retriever = "../evil:x"',
    ],
)
def test_a_section_without_one_source_is_refused(tmp_path: Path, section: str) -> None:
    with pytest.raises(SettingsError, match=r"knowledge\.datasets\.wiki"):
        settings_of(tmp_path, f"[knowledge.datasets.wiki]\n{section}\n")


@each_row("names", [["wiki"], ["w"], ["other"]])
def test_a_canvas_that_names_it_needs_nothing_else(tmp_path: Path, names: list[Any]) -> None:
    settings = settings_of(tmp_path, '[knowledge.datasets.wiki]\nid = "w"\nretriever = "a:b"\n')
    plan = plan_of(canvas({"search": node("Retrieval", {"dataset_ids": names})}))
    missing = [finding.code for finding in check_needs(plan, lambda: settings, "error")]
    assert missing == (["dataset-unknown"] if names == ["other"] else [])


KEYS = [{"id": "k", "key": base64.b64encode(b"k" * 32).decode()}]


def encrypted_settings(url: str, keys: Any = KEYS) -> Settings:
    return Settings.model_validate({"encryption_keys": keys, "knowledge": {"url": url}})


async def test_a_server_that_encrypts_says_at_its_start_that_datasets_are_plain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/k.db"
    assert await probe_plain_datasets(encrypted_settings(url)) == []
    (tmp_path / "k.db").touch()
    assert await probe_plain_datasets(encrypted_settings(url, [])) == []
    assert await probe_plain_datasets(encrypted_settings("elasticsearch+http://127.0.0.1:9200")) == []
    with caplog.at_level(logging.WARNING):
        await SettingsKnowledge(encrypted_settings(url)).warm_up()
    assert caplog.messages == [
        f"The datasets in '{tmp_path}/k.db' are not encrypted. Their texts, words and vectors can be read by everybody"
        " who can read the file: encrypt the disk."
    ]


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
        ({"url": "elasticsearch+https://es", "ragflow_url": "https://rag"}, "ragflow_url is not the URL of such"),
        ({"url": "elasticsearch+https://es", "dictionaries": Path("/nowhere")}, "neither ner.json nor"),
        ({"url": "elasticsearch+https://es", "tokenizer": "ragflow-ranking"}, r"tokenizer: .* is not installed"),
    ],
    ids=["url", "ragflow_url", "dictionaries", "tokenizer"],
)
def test_an_unusable_setting_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        open_knowledge(**settings)
