"""NCBI's E-utilities: ``GET /esearch.fcgi`` and ``GET /efetch.fcgi``.

Sources: https://www.ncbi.nlm.nih.gov/books/NBK25499/ (parameters),
https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd (articles),
https://support.nlm.nih.gov/knowledgebase/article/KA-05317 and KA-05510 (3 requests per second, 10 with a key; 429
with ``{"error": "API rate limit exceeded", …}``; 400 for a wrong key).
"""

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

KEY = "ncbi-s3cret"
HEAD = (
    '<?xml version="1.0" ?>\n<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">\n'
)


def _article(pmid: str) -> str:
    return f"""<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article>
<Journal><JournalIssue><Volume>7</Volume><Issue>2</Issue></JournalIssue><Title>Nature</Title></Journal>
<ArticleTitle>The gene <i>TP53</i> in H<sub>2</sub>O {pmid}</ArticleTitle>
<Pagination><MedlinePgn>1-9</MedlinePgn></Pagination>
<Abstract><AbstractText Label="METHODS">We <b>looked</b>.</AbstractText>
<AbstractText Label="RESULTS">We saw.</AbstractText></Abstract>
<AuthorList><Author><LastName>Curie</LastName><ForeName>Marie</ForeName></Author>
<Author><CollectiveName>WHO</CollectiveName></Author></AuthorList></Article></MedlineCitation>
<PubmedData><ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId>
<ArticleId IdType="doi">10.1/{pmid}</ArticleId></ArticleIdList>
<ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.9/other</ArticleId></ArticleIdList></Reference>
</ReferenceList></PubmedData></PubmedArticle>"""


def handle(call: Call) -> Answer:
    key = call.query.get("api_key")
    if key not in (None, KEY):
        return Answer({"error": "API key invalid", "api-key": key, "type": "api", "status": "unknown"}, 400)
    if call.path == "/esearch.fcgi":
        if call.query["term"] == "broken":
            return Answer({"header": {"type": "esearch"}, "esearchresult": {"ERROR": "Search Backend failed"}})
        count = 0 if call.query["term"] == "nothing" else int(call.query["retmax"])
        ids = [str(38_000_000 + number) for number in range(count)]
        result = {"count": str(count), "retmax": str(count), "retstart": "0", "idlist": ids}
        return Answer({"header": {"type": "esearch", "version": "0.3"}, "esearchresult": result})
    if call.path != "/efetch.fcgi":
        return Answer("Not Found", 404, kind="text/plain")
    articles = "".join(map(_article, call.query["id"].split(",")))
    return Answer(f"{HEAD}<PubmedArticleSet>{articles}</PubmedArticleSet>", kind="text/xml; charset=UTF-8")


def stub() -> ServiceStub:
    busy = {"error": "API rate limit exceeded", "api-key": "127.0.0.1", "count": "4", "limit": "3"}
    return ServiceStub(handle, Answer(busy, 429, {"retry-after": "1"}))
