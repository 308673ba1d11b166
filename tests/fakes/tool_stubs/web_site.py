"""A web site with pages, redirects, other files and a ``robots.txt``.

Sources: RFC 9309 (``robots.txt``: 404 allows everything, 5xx forbids everything), RFC 9110 (redirects).
"""

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

PAGE = """<!DOCTYPE html><html lang="en"><head><title>Laos</title><style>p{}</style></head><body>
<header><a href="/">Home</a></header><nav><ul><li>Menu</li></ul></nav>
<main><h1>Laos &amp; the Mekong</h1><p>The capital is <a href="/vientiane">Vientiane</a>.</p>
<ol><li>First</li><li>Second<ul><li>Inner</li></ul></li></ol>
<table><tr><th>City</th><th>People</th></tr><tr><td>Vientiane</td><td>948,477</td></tr></table>
<pre>a = 1
  b = 2</pre><blockquote><p>Quoted.</p></blockquote><img src="map.png" alt="A map"></main>
<script>alert("hidden")</script><footer>Imprint</footer></body></html>"""
APP = "<!DOCTYPE html><html><body><div id='root'></div><script src='/app.js'></script></body></html>"
ROBOTS = "User-agent: *\nDisallow: /private\n"
PAGES = {
    "/laos": Answer(PAGE, kind="text/html; charset=utf-8"),
    "/private": Answer(PAGE, kind="text/html"),
    "/app": Answer(APP, kind="text/html"),
    "/data.json": Answer({"a": 1}),
    "/paper.pdf": Answer("%PDF-1.7", kind="application/pdf"),
    "/old": Answer("", 301, {"location": "/laos"}),
    "/into-private": Answer("", 302, {"location": "/private"}),
    "/inside": Answer("", 302, {"location": "http://169.254.169.254/latest/meta-data"}),
    "/round": Answer("", 302, {"location": "/round"}),
    "/robots.txt": Answer(ROBOTS, kind="text/plain"),
    "/large": Answer("x" * 5000, kind="text/html"),
}


def handle(call: Call) -> Answer:
    return PAGES.get(call.path, Answer("<h1>Not Found</h1>", 404, kind="text/html"))


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer("Slow down", 429, {"retry-after": "1"}, "text/plain"))
