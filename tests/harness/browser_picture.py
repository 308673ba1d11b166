"""Draw the picture of docs/browser.md: the steps of a Browser with their screenshots.

``python -m tests.harness.browser_picture`` lets a scripted model operate a shop in Chromium and writes
``docs/browser_trace.png``. The texts and screenshots in the picture are those of the run's records.
"""

import asyncio
import base64
import html
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.browser.chromium_process import NAMES
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.component.events import AgentRecord
from tests.fakes.agents import tool_calls
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import Reply, ScriptedModel
from tests.ragflow_lg.components.test_browser import browser_runner

PICTURE = Path(__file__).parents[2] / "docs" / "browser_trace.png"
SIZE = "900,920"
"""Pixels of the picture."""

QUESTION = "What does green tea cost, and can I order two bags?"
HTML = {"content-type": "text/html; charset=utf-8"}
STYLE = """<!doctype html><style>body{font:28px sans-serif;margin:60px;background:#f4f1e8}h1{color:#2c6e49}
input,button,select{font:28px sans-serif;padding:10px;margin:8px}td{padding:12px 40px 12px 0}</style>"""
START = f"""{STYLE}<title>Tea shop</title><h1>Tea shop</h1>
<form action=/found><input name=q aria-label=Search placeholder="Search tea"><button>Go</button></form>"""
FOUND = f"""{STYLE}<title>Green tea</title><h1>Green tea</h1><table><tr><td>Sencha, 100 g<td>3.20 €
<tr><td>In stock<td>14</table><form action=/basket><select name=n aria-label=Bags><option>1<option>2</select>
<button>Into the basket</button></form>"""
BASKET = f"""{STYLE}<title>Basket</title><h1>Your basket</h1><table><tr><td>2 × Sencha<td>6.40 €</table>"""
ANSWER = "Green tea (Sencha, 100 g) costs 3.20 €. Two bags are in stock; together they cost 6.40 €."

LAYOUT = """<meta charset=utf-8><style>body{font:15px/1.4 sans-serif;margin:24px;width:852px;color:#222}
.step{display:flex;gap:18px;border-top:1px solid #ccc;padding:12px 0}.text{width:390px}
img{width:440px;height:165px;object-fit:cover;object-position:top left;border:1px solid #aaa}
code{background:#f0f0f0;padding:1px 4px}.note{color:#777;font-size:13px}</style>"""


def shop() -> HttpServer:
    """Return the shop."""
    pages = {"/": START, "/found": FOUND, "/basket": BASKET}
    return HttpServer([Route(path, headers=HTML, body=body) for path, body in pages.items()])


async def play() -> tuple[str, list[AgentRecord], list[bytes]]:
    """Return the answer, the finished calls and their screenshots."""
    server, files, records = shop(), NamedArtifacts(), list[AgentRecord]()
    async with server.running():
        model = ScriptedModel(context_tokens=100_000)
        model.replies = [
            tool_calls(("open_0", {"address": f"http://127.0.0.1:{server.port}/"})),
            tool_calls(("fill_2", {"ref": "e4", "text": "green", "submit": True})),
            tool_calls(("select_3", {"ref": "f1e12", "option": "2"})),
            tool_calls(("click_1", {"ref": "f1e13"})),
            Reply(ANSWER),
        ]
        run = browser_runner(server, model, artifacts=files, clock=SystemClock()).start("s", {"query": QUESTION})
        async for event in run.with_records():
            if isinstance(event, AgentRecord) and event.kind == "tool_finished":
                records.append(event)
        results = [str(m["content"]) for _, request in model.requests for m in request.messages if m["role"] == "tool"]
    if run.answer != ANSWER or len(records) != len(files.stored) or not results[-1].count("6.40"):
        raise SystemExit(f"The pages were not as expected: {run.error}\n" + "\n".join(results))
    return run.answer, records, [artifact.content for artifact in files.stored]


def page(answer: str, records: list[AgentRecord], pictures: list[bytes]) -> str:
    """Return the records as HTML."""
    rows = [f"<div class=step><b>Task</b><span>{html.escape(QUESTION)}</span></div>"]
    for number, (record, picture) in enumerate(zip(records, pictures, strict=True), 1):
        details: dict[str, Any] = dict(record.details)
        arguments = html.escape(json.dumps(details["arguments"], ensure_ascii=False))
        (file,) = details["files"]
        note = f"{details['seconds']:.1f} s · {html.escape(file['name'])}"
        source = base64.b64encode(picture).decode()
        rows.append(
            f"<div class=step><div class=text><b>{number}. {html.escape(str(details['tool']))}</b><br>"
            f"<code>{arguments}</code><br><span class=note>{note}</span></div>"
            f'<img src="data:image/jpeg;base64,{source}"></div>'
        )
    rows.append(f"<div class=step><b>Answer</b><span>{html.escape(answer)}</span></div>")
    return LAYOUT + "".join(rows)


def draw(text: str) -> None:
    """Write the picture of a page."""
    program = next(found for name in NAMES if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(text, "utf-8")
        command = [program, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}"]
        subprocess.run([*command, f"--screenshot={PICTURE}", source.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    draw(page(*asyncio.run(play())))
