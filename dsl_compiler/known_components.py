"""Names that appear in RAGFlow documents beyond the components of the catalog."""

from __future__ import annotations

__all__ = ["LEGACY", "NOT_YET", "PIPELINE"]

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
"""Components and tools of RAGFlow that this version cannot run. The catalog wins where it knows one of them."""

LEGACY: dict[str, str] = {
    "Generate": "LLM: its prompt becomes sys_prompt, with {sys.query} as user prompt",
    "Answer": "Message to speak and UserFillUp to listen; a turn of the session does both by itself",
    "Relevant": "Categorize with the categories yes and no",
    "RewriteQuestion": "LLM that is asked to rewrite {sys.query}",
    "KeywordExtract": "LLM that is asked for keywords",
    "Keyword": "LLM that is asked for keywords",
    "Concentrator": "nothing: edges may meet in any node",
    "Template": "StringTransform with method merge",
    "Baidu": "TavilySearch or another search tool",
    "BaiduFanyi": "LLM that is asked to translate",
    "Bing": "TavilySearch or another search tool",
    "Code": "CodeExec",
    "IterationStart": "IterationItem",
    "LoopStart": "LoopItem",
}
"""Components of RAGFlow before 0.20, and what replaces each."""

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
    ]
)
"""Components of ingestion pipelines, which prepare documents and answer nobody."""
