"""Secrets of a canvas, which services repeat, are in none of the files of a run."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fakes.canvas import node
from tests.server.cli.command import invoke, save

SECRETS = {name: f"Wh5-{name}-Value.123" for name in ("header", "password", "token", "dsn", "otp", "webhook")}


class _Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"got " + body + str(self.headers).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_file_of_a_run_has_a_secret_of_its_canvas(
    tmp_path: Path, echo: str, caplog: pytest.LogCaptureFixture
) -> None:
    security = {"auth_type": "token", "token": {"token_header": "X-T", "token_value": SECRETS["webhook"]}}
    variables = [
        {"key": "password", "value": SECRETS["password"]},
        {"key": "token", "value": SECRETS["token"]},
        {"key": "dsn", "ref": "env.dsn"},
        {"key": "otp", "ref": "env.otp"},
    ]
    headers = json.dumps({"X-Api-Key": SECRETS["header"]})
    call = {"url": echo, "method": "post", "headers": headers, "variables": variables}
    nodes = {
        "begin": node("Begin", {"security": security}, ["i"]),
        "i": node("Invoke", call, ["m"]),
        "m": node("Message", {"content": ["{i@result}"]}),
    }
    values = {"sys.query": "", "env.dsn": SECRETS["dsn"], "env.otp": SECRETS["otp"]}
    path, page, tape = save("c.json", nodes, globals=values), tmp_path / "run.html", tmp_path / "run.jsonl"
    store = f"sqlite:///{tmp_path}/s.db"
    settings = tmp_path / "s.toml"
    settings.write_text("[http]\nallow = ['127.0.0.0/8']\n")
    with caplog.at_level(logging.DEBUG):
        done = invoke(
            "run", path, "hi", "--session", "anna", "--checkpoint", store, "--record", tape, "--settings", settings
        )
    assert done.exit_code == 0, done.stderr
    assert "got " in done.stdout  # the request was sent
    written = invoke("sessions", "trace", "anna", "--checkpoint", store, "--html", page)
    assert written.exit_code == 0, written.stderr
    texts = {"page": page.read_text("utf-8"), "tape": tape.read_text("utf-8"), "log": caplog.text}
    assert "got " in texts["tape"]
    assert [(name, where) for name, secret in SECRETS.items() for where, text in texts.items() if secret in text] == []
