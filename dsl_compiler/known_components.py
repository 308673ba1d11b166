"""Names of components that occur in RAGFlow documents but are not in the catalog."""

from __future__ import annotations

NOT_YET: frozenset[str] = frozenset(
    [
        "CodeExec",
        "Browser",
        "DocGenerator",
        "PDFGenerator",
        "DocsGenerator",
        "ExcelProcessor",
        "AkShare",
        "BGPT",
        "Crawler",
        "DeepL",
        "Email",
        "ExeSQL",
        "GoogleScholar",
        "Jin10",
        "KeenableSearch",
        "PubMed",
        "QueritSearch",
        "QueritContents",
        "QWeather",
        "SearXNG",
        "TuShare",
        "WenCai",
        "YahooFinance",
        "WebSearch",
    ]
)
"""RAGFlow components and tools that this version cannot run, unless a plugin adds them to the catalog."""

LEGACY: dict[str, str] = {
    "Generate": "LLM, with the old prompt as sys_prompt and {sys.query} as the user prompt",
    "Answer": "Message for the answer and UserFillUp for a question; each turn starts with the user's query anyway",
    "Relevant": "Categorize with the categories yes and no",
    "RewriteQuestion": "LLM with a prompt that rewrites {sys.query}",
    "KeywordExtract": "LLM with a prompt that extracts keywords",
    "Keyword": "LLM with a prompt that extracts keywords",
    "Concentrator": "nothing: branches can meet at any node",
    "Template": "StringTransform with method merge",
    "Baidu": "TavilySearch or another search tool",
    "BaiduFanyi": "LLM with a prompt that translates",
    "Bing": "TavilySearch or another search tool",
    "Cite": "LLM or Agent with cite, which then cite the results of Retrieval themselves",
    "Code": "CodeExec",
    "IterationStart": "IterationItem",
    "LoopStart": "LoopItem",
}
"""Components from before RAGFlow 0.20, each with its replacement."""

PIPELINE: frozenset[str] = frozenset(
    [
        "File",
        "Parser",
        "TokenChunker",
        "Splitter",
        "TitleChunker",
        "HierarchicalMerger",
        "OneChunker",
        "QAChunker",
        "TableChunker",
        "PageChunker",
        "TagChunker",
        "Extractor",
        "Tokenizer",
        "Compiler",
        "Chunker",
        "GroupTitleChunker",
        "HierarchyTitleChunker",
        "ManualChunker",
        "PipelineChunker",
    ]
)
"""Ingestion pipeline components. Such pipelines prepare documents and are not agents."""

REPLACED: dict[str, str] = {
    "QueryDecompositionRetrieval": "an Agent with Retrieval as its tool",
    "Webhook": "Begin with the mode Webhook",
    "YouComSearch": "TavilySearch or another search tool",
}
"""Components that only some versions or forks of RAGFlow have, each with its replacement."""

RENAMED: dict[str, str] = {
    "Splitter": "TokenChunker",
    "HierarchicalMerger": "TitleChunker",
    "PDFGenerator": "DocGenerator",
    "DuckDuckGoSearch": "DuckDuckGo",
    "parallelNode": "Iteration",
}
"""Current names by the names in older documents."""
