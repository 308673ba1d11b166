from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.email.mail import Mailer, MailMessage
from ragflow_lg.integrations.knowledge.tenant_knowledge import TenantKnowledge
from ragflow_lg.server.assembly.app_state import open_app_state
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.assembly.unknown_names import find_unknown_names
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.databases import DatabaseAccount, Databases, SqlQuery
from ragflow_lg.services.http import HttpRequest
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import ToolServers
from tests.fakes.knowledge import FakeKnowledge
from tests.harness.rows import each_row

SECTIONS: dict[str, Any] = {
    "default_model": "big@Cloud",
    "providers": {
        "Cloud": {"base_url": "http://cloud.internal/v1", "models": ["big"]},
        "Local": {"base_url": "http://127.0.0.1:1/v1", "models": ["tiny"]},
    },
    "tools": {"tavily": {"api_key": "tvly-1"}, "google": {"api_key": "g-1"}},
    "mcp": {"tickets": {"url": "http://10.0.0.7:8080/mcp"}, "wiki": {"url": "https://wiki.example/mcp"}},
    "http": {"allow": ["127.0.0.1:9"]},
    "tenants": {
        "shop": {"models": ["local"], "default_model": "tiny@Local", "keys": ["tools.Tavily", "mcp.tickets"]},
        "intern": {"keys": ["http.allow"]},
        "*": {"keys": ["tools.google"]},
    },
}


@asynccontextmanager
async def resources(only_tenant: str = "", model: str = "", **sections: Any) -> AsyncGenerator[TenantResources]:
    settings = Settings(**{**SECTIONS, **sections})
    async with open_services(settings, model=model) as services:
        result = TenantResources(settings, services, only_tenant=only_tenant, model=model)
        try:
            yield result
        finally:
            await result.aclose()


def servers(services: Services) -> list[str]:
    opened: Any = services.of(ToolServers)
    return sorted(opened._parts[0]._servers)


async def test_a_tenant_has_the_models_keys_and_servers_of_its_section() -> None:
    async with resources() as tenants:
        shop = tenants.services("shop")
        assert (servers(shop), shop.tools.keys) == (["tickets"], {"tavily": "tvly-1"})
        shop.models.model("")
        shop.models.model("demo")
        with pytest.raises(SettingsError, match=r"'big@Cloud'.*the tenant 'shop' has no provider 'Cloud'"):
            shop.models.model("big@Cloud")
        stranger = tenants.services("stranger")
        with pytest.raises(SettingsError, match="the tenant 'stranger' has no provider of it"):
            stranger.models.model("big")
        assert (servers(stranger), stranger.tools.keys) == ([], {"google": "g-1"})
        assert stranger.all_secrets[: len(shop.secrets)] == shop.secrets  # all of them are redacted for everybody


@pytest.mark.parametrize("own", [True, False])
async def test_a_tenant_may_use_the_models_whose_ids_its_section_has(
    monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    provider = "Cloud" if own else "OpenAI"
    others = {"Cloud": SECTIONS["providers"]["Cloud"]} if own else {}
    sections: dict[str, Any] = {"default_model": "", "providers": others}
    async with resources(**sections, tenants={"shop": {"models": [f"BIG@{provider}", "rerank@*"]}}) as tenants:
        models = tenants.services("shop").models
        for name in ("big", f"big@{provider}"):
            models.model(name)
        for name in ("", "small", f"small@{provider}"):
            with pytest.raises(SettingsError, match=r"of it\. Models are shared .* in models of \[tenants"):
                models.model(name)


async def test_tenants_have_connections_sessions_and_addresses_of_their_own() -> None:
    async with resources() as tenants:
        shop, base = tenants.services("shop"), tenants.services("default")
        assert shop is tenants.services("shop")
        assert shop.of(ToolServers) is not base.of(ToolServers)
        assert shop.policies is not base.policies
        intern = tenants.services("intern")
        mcp = "10.0.0.7:8080/mcp"  # those of MCP servers are not open to canvases
        for services, address in ((base, "127.0.0.1:7"), (shop, "127.0.0.1:9"), (base, mcp), (shop, mcp)):
            with pytest.raises(ServiceError, match="is refused"):
                await services.http.send(HttpRequest("GET", f"http://{address}"))
        for services, port in ((base, 9), (intern, 9)):
            with pytest.raises(ServiceError, match=r"(?i)connect"):
                await services.http.send(HttpRequest("GET", f"http://127.0.0.1:{port}/"))


async def test_a_server_with_one_tenant_shares_everything_with_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'server.db'}"
    sections: dict[str, Any] = {**SECTIONS, "tenants": {}, "checkpoints": "memory://"}
    settings = Settings(**sections, server=ServerSection(database=SecretStr(url)))
    for names, counts in ((["acme"], {"acme": 2}), (["shop"], {"acme": 0, "shop": 0, "default": 2})):
        async with open_database(url) as database:
            for name in names:
                await KeyRepository(database).create(name, 1)
        async with open_app_state(settings) as app_state:
            assert {name: len(servers(app_state.services_of(name))) for name in counts} == counts
            assert {name: len(app_state.settings_of(name).tool_servers) for name in counts} == counts


async def test_a_tenant_has_the_databases_and_mail_servers_of_its_section(tmp_path: Path) -> None:
    file = {"db_type": "sqlite", "database": str(tmp_path / "a.db")}
    (tmp_path / "a.db").touch()
    sections: dict[str, Any] = {
        "sql": {"connections": {"shop": {**file, "allow_writes": True}, "hidden": file}},
        "email": {"servers": {"office": {"host": "smtp.example"}}},
        "tenants": {"shop": {"keys": ["sql.shop"]}},
    }
    message = MailMessage("a@example.com", "", ("b@example.com",), (), "s", "t")
    async with resources(**sections) as tenants:
        shop, stranger = tenants.services("shop"), tenants.services("stranger")
        (result,) = await shop.of(Databases).run("shop", SqlQuery("SELECT 1 AS a"))
        assert list(result.rows) == [{"a": 1}]
        assert [services.of(Databases).allows_writes("shop") for services in (shop, stranger)] == [True, False]
        for services, name in ((shop, "hidden"), (stranger, "shop")):
            with pytest.raises(SettingsError, match=rf"no database connection '{name}'"):
                await services.of(Databases).run(name, SqlQuery("SELECT 1"))
        with pytest.raises(SettingsError, match="no mail server 'office'"):
            await shop.of(Mailer).send("office", message)
        account = DatabaseAccount("mysql", "127.0.0.1", 9, "d", "u", "p")
        with pytest.raises(ServiceError, match="is not allowed"):
            await shop.of(Databases).run(account, SqlQuery("SELECT 1"))


MANUALS, NEWS = Dataset("ds1", "Manuals", "embed@Test"), Dataset("ds2", "News", "embed@Test")


def of_shop(*, datasets: tuple[str, ...], rerankers: tuple[str, ...] = ()) -> TenantKnowledge:
    settings = Settings()
    settings.restrict("shop", rerankers, tuple(f"datasets.{name}" for name in datasets))
    return TenantKnowledge(FakeKnowledge(), settings)


@each_row("pattern", ["ds1", "Manuals", "Man*", "ds[1]", "*"])
async def test_shared_datasets_are_found_by_name_and_id(pattern: str) -> None:
    knowledge = of_shop(datasets=(pattern,))
    assert await knowledge.datasets(["Manuals", "ds1"]) == {"Manuals": MANUALS, "ds1": MANUALS}
    assert (await knowledge.search(DatasetSearch("rice", (MANUALS,)))).chunks


async def test_other_datasets_look_like_missing_ones() -> None:
    knowledge = of_shop(datasets=("Manuals",))
    texts = set[str]()
    for name in ("News", "ds2", "nothing"):
        with pytest.raises(SettingsError, match="The tenant 'shop' has no dataset") as refused:
            await knowledge.datasets(["Manuals", name])
        texts.add(str(refused.value).replace(name, "NAME"))
    assert len(texts) == 1


async def test_a_search_never_reaches_other_datasets() -> None:
    knowledge = of_shop(datasets=("Manuals",))
    for search in (knowledge.search(DatasetSearch("rice", (MANUALS, NEWS))), knowledge.metadata([NEWS])):
        with pytest.raises(SettingsError, match="The tenant 'shop' has no dataset 'News'"):
            await search


async def test_rerank_models_are_shared_by_name() -> None:
    search = DatasetSearch("rice", (MANUALS,), rerank_id="bge@Local")
    assert (await of_shop(datasets=("*",), rerankers=("bge@*",)).search(search)).chunks
    with pytest.raises(SettingsError, match="may not use the rerank model 'bge@Local'"):
        await of_shop(datasets=("*",)).search(search)


def settings_of(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def test_a_section_that_no_tool_uses_is_reported() -> None:
    near, far = find_unknown_names(settings_of(tools={"SearXNG": {}, "serxng": {}, "nothing_like_it": {}}))
    assert (near.is_well, near.what) == (False, "no tool uses the section [tools.serxng]")
    assert near.advice == "Did you mean [tools.searxng]?"
    assert "components NAME" in far.advice


def test_names_of_a_tenant_that_the_settings_do_not_describe_are_reported() -> None:
    mcp = {"files": {"command": "x"}, "search": {"command": "x"}}
    tenants = {"shop": {"keys": ["mcp.files", "mcp.srch", "*", "email.own"], "models": ["openai", "Opnai"]}}
    found = {result.what: result.advice for result in find_unknown_names(settings_of(mcp=mcp, tenants=tenants))}
    assert found == {
        "models of [tenants.\"shop\"] names 'Opnai', which is nowhere": "Did you mean 'OpenAI'?",
        "keys of [tenants.\"shop\"] names 'mcp.srch', which is nowhere": "Did you mean 'mcp.search'?",
        "keys of [tenants.\"shop\"] names 'email.own', which is nowhere": "Correct or remove it.",
    }


def test_names_that_canvases_write_in_another_way_are_known() -> None:
    models = ["rerank@Jina", "bge", "gpt-4.1@OpenAI", "big@cloud"]
    sections: dict[str, Any] = {
        "rerankers": {"bge": {"base_url": "http://127.0.0.1", "model": "bge"}},
        "tools": {"Tavily": {}},
        "providers": {"Cloud": {"base_url": "http://127.0.0.1"}},
        "tenants": {"*": {"models": models, "keys": ["tools.tavily", "datasets.any"]}},
    }
    assert find_unknown_names(settings_of(**sections)) == []
