import re

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.browser.browsers import BrowserAction, BrowserFile, PageView
from tests.fakes.browsers import needs_chromium, open_browsers
from tests.fakes.http_server import HttpServer, Route

pytestmark = needs_chromium

HTML = {"content-type": "text/html; charset=utf-8"}
FORM = """<title>Shop</title><h1>Tea &amp; more</h1>
<form action=/found><input name=q aria-label=Search>
<select name=kind aria-label=Kind><option>Green<option>Black</select>
<input type=file name=f aria-label=Picture onchange="document.title=this.files[0].name"><button>Go</button></form>
<a href=/price.csv download>Prices</a> <a href=/more target=_blank>More</a><div style="height:3000px"></div>End"""


def ref_of(view: PageView, what: str) -> str:
    """Return the reference of an element by its role and name."""
    match = re.search(re.escape(what) + r".*?\[ref=(\w+)\]", view.text)
    assert match is not None, view.text
    return match[1]


async def test_a_page_is_operated() -> None:
    server = HttpServer(
        [
            Route("/", headers=HTML, body=FORM),
            Route("/found", headers=HTML, body="<title>Found</title>2 teas"),
            Route("/more", headers=HTML, body="<title>More</title>Other teas"),
            Route("/price.csv", headers={"content-type": "text/csv"}, body="tea,1\n"),
        ]
    )
    async with server.running(), open_browsers(server.port).open() as browser:
        view = await browser.act(BrowserAction("open", address=f"http://127.0.0.1:{server.port}/"))
        assert (view.title, view.downloads) == ("Shop", ())
        assert 'heading "Tea & more"' in view.text
        assert view.screenshot.startswith(b"\xff\xd8")
        view = await browser.act(BrowserAction("click", ref=ref_of(view, 'link "Prices"')))
        assert view.downloads == (BrowserFile("price.csv", "text/csv", b"tea,1\n"),)
        picture = BrowserFile("leaf.png", "image/png", b"png")
        view = await browser.act(BrowserAction("upload", ref=ref_of(view, 'button "Picture"'), file=picture))
        assert view.title == "leaf.png"
        view = await browser.act(BrowserAction("scroll"))
        view = await browser.act(BrowserAction("click", ref=ref_of(view, 'link "More"')))
        assert (view.title, "Other teas" in view.text) == ("More", True)
        assert "new window" in view.notes[0]
        view = await browser.act(BrowserAction("open", address=f"http://127.0.0.1:{server.port}/"))
        view = await browser.act(BrowserAction("select", ref=ref_of(view, 'combobox "Kind"'), text="Black"))
        search = BrowserAction("fill", ref=ref_of(view, 'textbox "Search"'), text="茶", is_submitted=True)
        view = await browser.act(search)
        assert (view.title, "2 teas" in view.text) == ("Found", True)
        assert view.address.endswith("/found?q=%E8%8C%B6&kind=Black&f=")
        view = await browser.act(BrowserAction("back"))
        assert view.title == "Shop"
        part = await browser.act(BrowserAction("read", offset=10))
        assert (part.offset, part.text) == (10, view.text[10:])


async def test_impossible_actions_are_explained() -> None:
    server = HttpServer([Route("/", headers=HTML, body="<button>Go</button>")])
    async with server.running(), open_browsers(server.port).open() as browser:
        view = await browser.act(BrowserAction("open", address=f"http://127.0.0.1:{server.port}/missing"))
        assert view.notes == ("The server answered with the status 404.",)
        for action, reason in [
            (BrowserAction("open", address="file:///etc/passwd"), "must be complete and begin with"),
            (BrowserAction("open", address="chrome://settings"), "must be complete and begin with"),
            (BrowserAction("open", address="http://[::1"), "must be complete and begin with"),
            (BrowserAction("click", ref="e99"), "no element e99"),
            (BrowserAction("click", ref="e1 >> css=body"), "reference must be"),
            (BrowserAction("press", text="Control+O"), "key must be one of"),
            (BrowserAction("open", address="http://127.0.0.1:9/"), "is refused|unsafe|cannot"),
        ]:
            with pytest.raises(ServiceError, match=reason):
                await browser.act(action)
        view = await browser.act(BrowserAction("open", address=f"http://127.0.0.1:{server.port}/"))
        assert 'button "Go"' in view.text, "the browser can still be used"
