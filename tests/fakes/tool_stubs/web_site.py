"""A web site with pages, redirects, other files and a ``robots.txt``.

Sources: https://www.rfc-editor.org/rfc/rfc9309 (``robots.txt``: 404 allows everything, 5xx forbids everything),
https://www.rfc-editor.org/rfc/rfc9110 (redirects).
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
ARTICLE = """<!DOCTYPE html><html lang="en"><head><title>Mekong</title></head><body>
<nav><ul><li><a href="/">Menu</a></li></ul></nav><article><h1>The Mekong</h1>
<p>The Mekong is a river in East and Southeast Asia. It is the twelfth longest river of the world, and flows through six
countries: China, Myanmar, Laos, Thailand, Cambodia and Vietnam.</p>
<p>Seasonal variations in its flow, and rapids and waterfalls, make navigation difficult, although the river is a major
trade route between Tibet and Southeast Asia. See <a href="/dams">its dams</a> and the towns along its banks.</p>
<ul><li>Length: 4,350 km</li><li>Mouth: Mekong Delta</li></ul></article>
<img src="http://169.254.169.254/x.png"><footer>Imprint of the site</footer></body></html>"""
ROBOTS = "User-agent: *\nDisallow: /private\n"
PAGES = {
    "/laos": Answer(PAGE, kind="text/html; charset=utf-8"),
    "/mekong": Answer(ARTICLE, kind="text/html"),
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
