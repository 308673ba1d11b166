"""Datasets: in a SQLite file, on a RAGFlow server, or behind any retriever of LangChain; `kb` fills the file."""

from ragflow_lg.component.integration import Command, Integration, NeedKind, Service

_RERANKER = """\
[rerankers.{key}]
base_url = "https://…"
model = {key}
api_key = {{ env = "{variable}_API_KEY" }}
"""

INTEGRATION = Integration(
    __name__,
    sections={"knowledge": ".knowledge_settings:KnowledgeSection", "datasets": ".knowledge_settings:DatasetSections"},
    services=(Service("ragflow_lg.services.knowledge:Knowledge", ".knowledge_sources:open_knowledge", "knowledge"),),
    stores={"sqlite": ".knowledge_sources", "ragflow": ".ragflow_knowledge"},
    needs={
        "dataset": NeedKind("dataset", "dataset-unknown", ".knowledge_needs:check_dataset"),
        "reranker": NeedKind("rerank model", "reranker-unavailable", ".knowledge_needs:check_reranker", _RERANKER),
        "search_option": NeedKind("search option", "params-unsupported", ".knowledge_needs:check_search_option"),
    },
    routes=(".upload_routes:router",),
    probe=".knowledge_sources:probe_plain_datasets",
    commands={"kb": Command("Models and data", ".kb:kb", "Manage datasets of the embedded knowledge base.")},
)
