"""Component names in RAGFlow documents that are not in the catalog."""

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
"""Components and tools of RAGFlow that this version cannot run, unless a plugin adds them to the catalog."""

LEGACY: dict[str, str] = {
    "Generate": "LLM, with the old prompt as sys_prompt and {sys.query} as user prompt",
    "Answer": "Message for the answer and UserFillUp for a question; each turn starts with the user's query anyway",
    "Relevant": "Categorize with the categories yes and no",
    "RewriteQuestion": "LLM with a prompt to rewrite {sys.query}",
    "KeywordExtract": "LLM with a prompt for keywords",
    "Keyword": "LLM with a prompt for keywords",
    "Concentrator": "nothing: the edges of several branches can meet in any node",
    "Template": "StringTransform with method merge",
    "Baidu": "TavilySearch or another search tool",
    "BaiduFanyi": "LLM with a prompt to translate",
    "Bing": "TavilySearch or another search tool",
    "Code": "CodeExec",
    "IterationStart": "IterationItem",
    "LoopStart": "LoopItem",
}
"""Components of RAGFlow before 0.20, each with its replacement."""

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
"""Components of ingestion pipelines, which prepare documents and are not agents."""
