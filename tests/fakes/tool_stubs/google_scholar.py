"""Google Scholar's pages of results: ``GET /scholar``.

Sources: https://github.com/scholarly-python-package/scholarly ``_scholarly.py`` (the parameters) and
``publication_parser.py`` (classes), RAGFlow ``internal/agent/tool/google_scholar_test.go`` (the markup). Ten
results a page; a client that looks like a program gets a page with a CAPTCHA, often with status 429.
"""

from tests.fakes.tool_stubs.stub import Answer, Call, ServiceStub

TOTAL = 23
EMPTY = "<div class='gs_r'>Your search - <b>nothing</b> - did not match any articles.</div>"
CAPTCHA = "<html><body><form id='gs_captcha_f'>Please show you're not a robot</form></body></html>"


def _result(number: int) -> str:
    link = f'<a href="https://example.org/{number}">Attention <b>{number}</b></a>' if number else "A citation"
    mark = '<span class="gs_ctc"><span class="gs_ct1">[PDF]</span></span> ' if number == 1 else ""
    return (
        f'<div class="gs_r gs_or gs_scl"><div class="gs_ri"><h3 class="gs_rt">{mark}{link}</h3>'
        f'<div class="gs_a">A Vaswani, N Shazeer - NeurIPS, 2017</div><div class="gs_rs">Abstract {number}.</div>'
        '<div class="gs_fl"><a href="/scholar?cites=1">Cited by 9</a></div></div></div>'
    )


def handle(call: Call) -> Answer:
    if call.path != "/scholar" or call.query["q"] == "robot":
        return Answer(CAPTCHA, kind="text/html")
    start = int(call.query.get("start", "0"))
    numbers = range(0) if call.query["q"] == "nothing" else range(start, min(start + 10, TOTAL))
    inner = "".join(map(_result, numbers)) or EMPTY
    return Answer(f'<html><body><div id="gs_res_ccl_mid">{inner}</div></body></html>', kind="text/html; charset=UTF-8")


def stub() -> ServiceStub:
    return ServiceStub(handle, Answer(CAPTCHA, 429, {"retry-after": "1"}, "text/html"))
