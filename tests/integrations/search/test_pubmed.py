from tests.fakes.tool_stubs import pubmed
from tests.integrations.search.contracts import run_tool


async def test_ids_are_searched_and_their_articles_read() -> None:
    stub = pubmed.stub()
    result = await run_tool("PubMed", stub, query="tp53", top_n=2, email="a@b.test")
    search, fetch = stub.received
    common = {"db": "pubmed", "tool": "ragflow-lg", "email": "a@b.test", "api_key": pubmed.KEY}
    assert search.query == {**common, "term": "tp53", "retmax": "2", "retmode": "json"}
    assert fetch.query == {**common, "id": "38000000,38000001", "retmode": "xml"}
    assert [row["pmid"] for row in result.outputs["json"]] == ["38000000", "38000001"]


async def test_an_article_has_all_lines() -> None:
    result = await run_tool("PubMed", query="tp53", top_n=1)
    assert result.outputs["formalized_content"].endswith(
        "├── URL: https://pubmed.ncbi.nlm.nih.gov/38000000\n└── Content:\n"
        "Title: The gene TP53 in H2O 38000000\nAuthors: Marie Curie\nJournal: Nature\nVolume: 7\nIssue: 2\n"
        "Pages: 1-9\nDOI: 10.1/38000000\nAbstract: METHODS: We looked.\nRESULTS: We saw."
    )


async def test_without_ids_no_articles_are_requested() -> None:
    stub = pubmed.stub()
    result = await run_tool("PubMed", stub, query="nothing")
    assert (result.error, result.outputs["json"], len(stub.received)) == (None, [], 1)


async def test_a_failed_search_is_an_error() -> None:
    assert (await run_tool("PubMed", query="broken")).error == "PubMed rejected the search: Search Backend failed"
