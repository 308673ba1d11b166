"""Settings: a TOML file, overridden by environment variables ``RAGFLOW_LG_*``. May import ``adapters`` and below.

The file is the first that exists of: ``--settings``, ``RAGFLOW_LG_SETTINGS``, ``./ragflow-lg.toml``, which needs the
user's trust, and ``~/.config/ragflow-lg/settings.toml``. Variables separate levels by two underscores:
``RAGFLOW_LG_HTTP__TIMEOUT_S=30``; lists and tables are JSON. ::

    default_model = "gpt-4.1@OpenAI"

    [providers.OpenAI]
    base_url = "https://api.openai.com/v1"
    api_key = { env = "OPENAI_API_KEY" }

    [models."gpt-4.1@OpenAI"]
    context_tokens = 1000000
    has_vision = true

    [tools.tavily]
    api_key = { env = "TAVILY_API_KEY" }

    [knowledge]
    url = "sqlite:///knowledge.db"

    [knowledge.datasets.wiki]
    retriever = "my_package.search:open_wiki"

    [embeddings."bge-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    model = "BAAI/bge-m3"
    api_key = { env = "SILICONFLOW_API_KEY" }

    [datasets."0f3c"]
    name = "handbook"
    tenant = "9a7e"
    embedding_model = "bge-m3@SILICONFLOW"

    [rerankers."bge-reranker-v2-m3@SILICONFLOW"]
    base_url = "https://api.siliconflow.cn/v1"
    api_key = { env = "SILICONFLOW_API_KEY" }

    [memories.preferences]
    llm_id = "gpt-4.1-mini@OpenAI"

    [sql.connections.shop]
    db_type = "postgres"
    host = "db.example.com"
    database = "shop"
    username = "reader"
    password = { env = "SHOP_PASSWORD" }

    [email.servers.office]
    host = "smtp.example.com"
    sender = "office@example.com"
    password = { env = "MAIL_PASSWORD" }

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
    from ragflow_lg.server.settings.settings import Settings
    from ragflow_lg.server.settings.settings_file import load_settings

__all__ = ["Settings", "load_settings"]


def __getattr__(name: str) -> object:
    """Import the names on first use: every command loads this package, and most of them need no settings."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "settings" if name == "Settings" else "settings_file"
    return getattr(import_module(f"{__name__}.{module}"), name)
