"""A minimal MCP server over stdio, without the SDK: it starts quickly and misbehaves on request.

``python mcp_stdio.py HOW``: ``well``, ``hang`` (never answers), ``garbage`` (other lines between the messages),
``stay`` (exits neither at the end of input nor on SIGTERM, and starts a child), ``crash`` (exits at once).
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

how = ""
child: subprocess.Popen[bytes] | None = None


def send(message: Any) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def answer(id_: Any, result: Any) -> None:
    if how == "garbage":
        for line in ("starting …", "{]", "", '{"jsonrpc": "1.0"}', "[" * 5000, '{"jsonrpc":"2.0","id":99,"result":{}}'):
            send(line)
        sys.stdout.buffer.write(b"\xff\xfe\n")
    send({"jsonrpc": "2.0", "id": id_, "result": result})


def call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = {
        "process": lambda: f"{os.getpid()} {child.pid if child else 0}",
        "environment": lambda: json.dumps(dict(os.environ)),
        "echo": lambda: json.dumps(arguments),
        "huge": lambda: "x" * arguments["size"],
        "die": lambda: os._exit(3),
        "odd": lambda: None,
    }[name]()
    return {"content": 5} if text is None else {"content": [{"type": "text", "text": text}]}


def start() -> None:
    global how, child
    how = sys.argv[1]
    if how == "crash":
        sys.stderr.write("no such configuration\n")
        sys.exit(7)
    if how == "stay":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if how == "hang" or "id" not in message:
            continue
        if message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "tiny", "version": "1"}
            answer(message["id"], {"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        elif message["method"] == "tools/call" and message["params"]["name"] != "wait":
            answer(message["id"], call_tool(message["params"]["name"], message["params"]["arguments"]))
    if how == "stay":
        time.sleep(60)


if __name__ == "__main__":
    start()
    serve()
