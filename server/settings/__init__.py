"""Settings: a TOML file, overridden by environment variables ``RAGFLOW_LG_*``. May import ``adapters`` and below.

The file is the first that exists of: ``--settings``, ``RAGFLOW_LG_SETTINGS``, ``./ragflow-lg.toml``, which needs the
user's trust, and ``~/.config/ragflow-lg/settings.toml``. Variables separate levels by two underscores:
``RAGFLOW_LG_HTTP__TIMEOUT_S=30``; lists and tables are JSON. ::

    default_model = "gpt-4.1@OpenAI"

    [providers.OpenAI]
    base_url = "https://api.openai.com/v1"
    api_key_env = "OPENAI_API_KEY"

    [models."gpt-4.1@OpenAI"]
    context_tokens = 1000000
    has_vision = true

    [tools.tavily]
    api_key_env = "TAVILY_API_KEY"

    [knowledge]
    url = "sqlite:///knowledge.db"

    [knowledge.datasets.wiki]
    retriever = "my_package.search:open_wiki"

    [embeddings."bge-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    model = "BAAI/bge-m3"
    api_key_env = "SILICONFLOW_API_KEY"

    [datasets."0f3c"]
    name = "handbook"
    tenant = "9a7e"
    embedding_model = "bge-m3@SILICONFLOW"

    [rerankers."bge-reranker-v2-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    api_key_env = "SILICONFLOW_API_KEY"

    [memories.preferences]
    llm_id = "gpt-4.1-mini@OpenAI"

    [sql.connections.shop]
    db_type = "postgres"
    host = "db.example.com"
    database = "shop"
    username = "reader"
    password_env = "SHOP_PASSWORD"

    [email.servers.office]
    host = "smtp.example.com"
    sender = "office@example.com"
    password_env = "MAIL_PASSWORD"

    [mcp.tickets]
    url = "https://tickets.example.com/mcp"

    [http]
    allow = ["wiki.example.com", "10.20.0.0/16:8080"]

    [agents]
    allow_tools = ["Wikipedia", "canvas:*"]

    [canvases]
    report = "canvases/report.json"

    [compat]
    jinja_text = true

    [prompts]
    standalone_question = { file = "prompts/question.txt" }

    [code]
    timeout_s = 30

    [limits]
    workers = 4

    [server]
    port = 9380

    [tenants.shop]
    providers = ["OpenAI"]
    datasets = ["handbook"]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.server.settings.account_sections import (
        ConnectionSection,
        EmailSection,
        MailServerSection,
        SqlSection,
    )
    from ragflow_lg.server.settings.code_section import CodeSection
    from ragflow_lg.server.settings.compat_section import CompatSection
    from ragflow_lg.server.settings.knowledge_sections import DatasetSection, KnowledgeSection, RetrieverSection
    from ragflow_lg.server.settings.limits_section import LimitsSection
    from ragflow_lg.server.settings.quotas_section import PageQuotasSection, QuotasSection, TenantQuotasSection
    from ragflow_lg.server.settings.sections import (
        AgentsSection,
        CrawlerSection,
        EmbeddingSection,
        HttpSection,
        McpSection,
        ModelSection,
        ProviderSection,
        RerankerSection,
        ToolSection,
    )
    from ragflow_lg.server.settings.server_section import OtelSection, RunSection, ServerSection, UserSection
    from ragflow_lg.server.settings.settings import Settings
    from ragflow_lg.server.settings.settings_file import load_settings
    from ragflow_lg.server.settings.tenant_section import TenantSection

__all__ = [
    "AgentsSection",
    "CodeSection",
    "CompatSection",
    "ConnectionSection",
    "CrawlerSection",
    "DatasetSection",
    "EmailSection",
    "EmbeddingSection",
    "HttpSection",
    "KnowledgeSection",
    "LimitsSection",
    "MailServerSection",
    "McpSection",
    "ModelSection",
    "OtelSection",
    "PageQuotasSection",
    "ProviderSection",
    "QuotasSection",
    "RerankerSection",
    "RetrieverSection",
    "RunSection",
    "ServerSection",
    "Settings",
    "SqlSection",
    "TenantQuotasSection",
    "TenantSection",
    "ToolSection",
    "UserSection",
    "load_settings",
]

_MODULES = {
    "AgentsSection": "sections",
    "CodeSection": "code_section",
    "CompatSection": "compat_section",
    "ConnectionSection": "account_sections",
    "CrawlerSection": "sections",
    "DatasetSection": "knowledge_sections",
    "EmailSection": "account_sections",
    "EmbeddingSection": "sections",
    "HttpSection": "sections",
    "KnowledgeSection": "knowledge_sections",
    "LimitsSection": "limits_section",
    "MailServerSection": "account_sections",
    "McpSection": "sections",
    "ModelSection": "sections",
    "OtelSection": "server_section",
    "PageQuotasSection": "quotas_section",
    "ProviderSection": "sections",
    "QuotasSection": "quotas_section",
    "RerankerSection": "sections",
    "RetrieverSection": "knowledge_sections",
    "RunSection": "server_section",
    "ServerSection": "server_section",
    "Settings": "settings",
    "SqlSection": "account_sections",
    "TenantQuotasSection": "quotas_section",
    "TenantSection": "tenant_section",
    "ToolSection": "sections",
    "UserSection": "server_section",
    "load_settings": "settings_file",
}


def __getattr__(name: str) -> object:
    """Import the names on first use: every command loads this package, and most of them need no settings."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
