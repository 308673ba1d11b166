"""Settings files for tests."""

from pathlib import Path

FULL = """
default_model = "big@Acme"
checkpoints = "memory://"

[providers.Acme]
base_url = "https://acme.example/v1"
api_key = "geheim-1"
models = ["big", "small"]
timeout_s = 9

[providers.Other]
base_url = "https://other.example/v1"
api_key = { env = "OTHER_KEY" }

[models."big@Acme"]
context_tokens = 1000
has_vision = true

[http]
allow = ["wiki.example", "10.0.0.0/8:80"]
timeout_s = 30
max_response_bytes = 1000

[mcp.tickets]
url = "https://tickets.example/mcp?key=$key"
headers = { Authorization = "Bearer $token" }
variables = { token = "geheim-3", key = { env = "OTHER_KEY" } }
allow = ["find"]
timeout_s = 20

[mcp."a b"]
command = "files-server"
args = ["--root", "/srv"]
env = { TOKEN = "geheim-4" }
"""


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
