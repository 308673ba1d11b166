"""Hostile pages in a real Chromium: what they reach, what they use, and what is left of them."""

import asyncio
import os
import re
import socket
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.browser.browsers import Browser, BrowserAction, BrowserFile, PageView
from ragflow_lg.integrations.browser.chromium_browser import ChromiumBrowsers
from tests.fakes.browsers import SMALL, SmallBrowser, needs_chromium, open_browsers
from tests.fakes.http_server import HttpServer, Route

pytestmark = needs_chromium


class PatientBrowser(SmallBrowser):
    step_s: ClassVar[float] = 60.0


class SlimBrowser(PatientBrowser):
    memory_bytes: ClassVar[int] = 700 * 1024**2


class HastyBrowser(SmallBrowser):
    step_s: ClassVar[float] = 4.0


"""For what ends by another limit, however busy the machine is."""

HTML = {"content-type": "text/html; charset=utf-8"}
MEBIBYTE = b"x" * 1024**2
INNER = """
<title>busy</title><img src=INNER/img><iframe src=INNER/frame></iframe><link rel=stylesheet href=INNER/style>
<link rel=preconnect href=INNER/pre><object data=INNER/object></object><a href=INNER/a ping=INNER/ping>a</a>
<script>
const url = "INNER", done = [];
done.push(fetch(url + "/fetch", {mode: "no-cors"}).catch(() => 0));
done.push(new Promise(end => { const s = new WebSocket(url.replace("http", "ws")); s.onclose = s.onerror = end; }));
done.push(new Promise(end => { const s = new EventSource(url + "/events"); s.onerror = () => { s.close(); end(); }; }));
navigator.sendBeacon(url + "/beacon", "x");
const code = URL.createObjectURL(new Blob([`fetch("${url}/worker", {mode: "no-cors"}).catch(() => 0)
  .then(() => postMessage(1))`]));
done.push(new Promise(end => { const w = new Worker(code); w.onmessage = end; w.onerror = end; }));
const rtc = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:@UDP"},
  {urls: "turn:127.0.0.1:@UDP?transport=udp", username: "u", credential: "c"},
  {urls: "turn:127.0.0.1:@TCP?transport=tcp", username: "u", credential: "c"}]});
rtc.createDataChannel("x");
done.push(rtc.createOffer().then(offer => rtc.setLocalDescription(offer)).catch(() => 0));
Promise.all(done).then(() => setTimeout(() => { document.title = "tried"; }, 500));
</script>"""


@asynccontextmanager
async def _serve(*routes: Route) -> AsyncGenerator[HttpServer]:
    server = HttpServer(routes)
    async with server.running():
        yield server


async def _open(browser: Browser, server: HttpServer, path: str) -> PageView:
    return await browser.act(BrowserAction("open", address=f"http://127.0.0.1:{server.port}{path}"))


async def _read_until_title(browser: Browser, title: str) -> PageView:
    async with asyncio.timeout(10):
        while (view := await browser.act(BrowserAction("read"))).title != title:
            pass
    return view


async def _read_until_it_fails(browser: Browser, server: HttpServer) -> None:
    await _open(browser, server, "/hog")
    async with asyncio.timeout(120):
        while True:
            await browser.act(BrowserAction("read"))


async def _read_until_a_note(browser: Browser, server: HttpServer, path: str) -> str:
    """Open a page whose download does not end well; return why. A page can be read before its download begins."""
    try:
        view = await _open(browser, server, path)
        async with asyncio.timeout(120):
            while not view.notes:
                assert view.downloads == ()
                view = await browser.act(BrowserAction("read"))
    except ServiceError as error:
        return str(error)
    assert view.downloads == ()
    return view.notes[0]


async def test_no_part_of_a_page_reaches_an_inner_address() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        async with _serve() as inner, _serve() as outer, open_browsers(outer.port).open() as browser:
            page = INNER.replace("INNER", f"http://127.0.0.1:{inner.port}").replace("@TCP", str(inner.port))
            page = page.replace("@UDP", str(udp.getsockname()[1]))
            inner_url = f"http://localhost:{inner.port}/secret"
            outer.routes += [
                Route("/all", headers=HTML, body=page),
                Route("/moved", status=302, headers={"location": inner_url}),
                Route("/script", headers=HTML, body=f"<script>location = {inner_url!r}</script>"),
                Route("/refresh", headers={**HTML, "refresh": f"0; url={inner_url}"}, body="wait"),
                Route("/file", headers=HTML, body="<a href=file:///etc/passwd>f</a><script>open('file:///etc/passwd')"),
            ]
            await _open(browser, outer, "/all")
            view = await _read_until_title(browser, "tried")
            assert any("is refused" in note for note in view.notes) or view.text
            with pytest.raises(ServiceError, match="'localhost' is refused: its address is not on the public internet"):
                await _open(browser, outer, "/moved")
            for path in ("/script", "/refresh", "/file"):
                view = await _open(browser, outer, path)
                assert "root:" not in view.text
            assert inner.received == []
            with pytest.raises(BlockingIOError):
                udp.recv(1)


async def test_a_name_that_changes_its_address_is_checked_again() -> None:
    script = "<title>wait</title><script>fetch('/next').catch(() => { document.title = 'refused'; })</script>"
    async with _serve(Route("/", headers={**HTML, "connection": "close"}, body=script)) as outer:
        answers = ["127.0.0.1"]

        async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
            return [(answers.pop() if answers else "127.0.0.2", port)]

        browsers = ChromiumBrowsers(SMALL, [f"127.0.0.1:{outer.port}"], resolve=resolve)
        async with browsers.open() as browser:
            await browser.act(BrowserAction("open", address=f"http://rebind.example:{outer.port}/"))
            await _read_until_title(browser, "refused")
        assert [request.path for request in outer.received] == ["/"]


async def test_dialogs_and_windows_without_end() -> None:
    async with (
        _serve(
            Route("/ask", headers=HTML, body="<title>q</title><script>confirm('Your key?')</script>ok"),
            Route("/ever", headers=HTML, body="<script>for (;;) alert('again')</script>"),
            Route("/windows", headers=HTML, body="<script>for (let i = 0; i < 40; i++) open('/ask?' + i)</script>w"),
        ) as server,
        open_browsers(server.port).open() as browser,
    ):
        view = await _open(browser, server, "/ask")
        assert view.notes == ("The page showed a dialog (confirm), which was dismissed: Your key?",)
        with pytest.raises(ServiceError):
            await _open(browser, server, "/ever")
        view = await browser.act(BrowserAction("read"))
        assert any("more than 10 dialogs" in note for note in view.notes)
        await _open(browser, server, "/windows")
        assert (await _open(browser, server, "/ask")).title == "q"


async def test_scripts_that_never_end_close_the_browser() -> None:
    settings = HastyBrowser()
    async with (
        _serve(Route("/busy", headers=HTML, body="<script>for (;;);</script>")) as server,
        open_browsers(server.port, settings=settings).open() as browser,
    ):
        # on a busy machine the step ends before the page's own limit is reached
        with pytest.raises(ServiceError, match=r"did not load within 2\.4 s|did not react within 4 s"):
            await _open(browser, server, "/busy")


async def test_memory_without_end_closes_the_browser() -> None:
    settings = SlimBrowser()
    hog = "<script>const a = []; setInterval(() => a.push(new Uint8Array(5e7).fill(1)), 20)</script>hog"
    async with (
        _serve(Route("/hog", headers=HTML, body=hog)) as server,
        open_browsers(server.port, settings=settings).open() as browser,
    ):
        with pytest.raises(ServiceError, match="more than 734,003,200 bytes of memory"):
            await _read_until_it_fails(browser, server)


async def test_large_downloads_are_stopped_while_they_arrive() -> None:
    disposition = {"content-disposition": "attachment; filename=big.bin"}
    script = "const a = document.createElement('a'); a.download = 'made.bin';"
    script += "a.href = URL.createObjectURL(new Blob([new Uint8Array(30e6)])); a.click()"
    async with (
        _serve(
            Route("/big", headers=disposition, pieces=[MEBIBYTE] * 1024),
            Route("/made", headers=HTML, body=f"<script>{script}</script>"),
            Route("/small", headers={"content-disposition": "attachment; filename=../../a.txt"}, body="small"),
        ) as server,
        open_browsers(server.port, settings=PatientBrowser()).open() as browser,
    ):
        (file,) = (await _open(browser, server, "/small")).downloads
        assert (file.name, file.content) == ("_.._a.txt", b"small")
        for path in ("/made", "/big"):
            note = await _read_until_a_note(browser, server, path)
            assert "bytes" in note or "failed" in note, note


async def test_nothing_is_left_of_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-of-the-server")
    async with _serve(Route("/", headers={**HTML, "set-cookie": "who=first"}, body="<title>t</title>")) as server:
        browsers = open_browsers(server.port)
        for _ in range(2):
            async with browsers.open() as browser:
                await _open(browser, server, "/")
                (folder,) = Path(tempfile.gettempdir()).glob(f"ragflow-lg-browser-{os.getpid()}-*")
                pid = int((folder / "pid").read_text())
                assert b"sk-of-the-server" not in Path(f"/proc/{pid}/environ").read_bytes()
            assert not folder.exists()
            assert not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
        assert [request.header("cookie") for request in server.received if request.path == "/"] == [None, None]


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
