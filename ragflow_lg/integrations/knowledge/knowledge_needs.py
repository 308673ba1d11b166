"""What the searches of a canvas need from the settings: datasets, rerank models, and options of the server."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ragflow_lg.adapters.knowledge.rerankers import find_reranker
from ragflow_lg.base.errors import RagflowLgError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.integrations.knowledge.knowledge_addresses import embedded_path
from ragflow_lg.integrations.knowledge.knowledge_file import KnowledgeFile
from ragflow_lg.integrations.knowledge.knowledge_settings import KnowledgeSection
from ragflow_lg.server.assembly.tenant_settings import describe_unshared_dataset, rights_in

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


def check_dataset(settings: Settings, name: str) -> str:
    """Return what is wrong with a dataset of the embedded knowledge base, or ``""``. Servers are not asked."""
    section = settings.section(KnowledgeSection)
    rights = rights_in(settings) if settings.tenant else None

    def may_use(names: tuple[str, str]) -> bool:
        return rights is None or any(rights.has_key("datasets", each) for each in names)

    own = ((each.id or key, key) for key, each in section.datasets.items())
    if found := next((names for names in own if name in names), None):
        return "" if may_use(found) else describe_unshared_dataset(settings.tenant, name)
    try:
        if section.url.startswith(("ragflow+", "elasticsearch+")):
            return "" if rights is None or rights.keys else describe_unshared_dataset(settings.tenant, name)
        dataset = KnowledgeFile(embedded_path(section.url)).find_dataset(name)
        require("knowledge", "A local dataset")  # first, so that a dataset can be created
    except RagflowLgError as error:
        return str(error)
    if dataset is not None and may_use((dataset.id, dataset.name)):
        return ""
    if rights is not None:
        return describe_unshared_dataset(settings.tenant, name)
    label = name[:200] if name.isprintable() else repr(name[:200])
    create = f"ragflow-lg kb create NAME --id {shlex.quote(label)}"
    return (
        f"The dataset {label!r} does not exist. Create it with `{create}` and `ragflow-lg kb add FOLDER --dataset "
        "NAME`, or set [knowledge] url to the RAGFlow server that has it."
    )


def check_reranker(settings: Settings, rerank_id: str) -> str:
    """Return what is wrong with a rerank model, or ``""``."""
    if settings.section(KnowledgeSection).url.startswith("ragflow+"):
        return ""  # RAGFlow itself reranks
    is_shared = not settings.tenant or rights_in(settings).has_model(rerank_id)
    if is_shared and settings.known_reranker(rerank_id):
        return ""
    try:
        section = settings.rerankers[find_reranker(rerank_id, settings.rerankers)]
    except SettingsError as error:
        return str(error)
    problem = section.api_key.problem()
    return f"The key of {rerank_id!r} is missing: {problem}. Put it there." if problem else ""


def check_search_option(settings: Settings, name: str) -> str:
    """Return that the store of the datasets does not support an option, or ``""``."""
    url = settings.section(KnowledgeSection).url
    if url.startswith("ragflow+"):
        return ""
    place = "Elasticsearch" if url.startswith("elasticsearch+") else "the embedded knowledge base"
    return (
        f"The search fails, because {place} does not support {name}. Set it to false, or set [knowledge] url to "
        "the address of a RAGFlow server."
    )
