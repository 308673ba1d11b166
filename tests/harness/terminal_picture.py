"""Draw the picture of the README: a run is killed with SIGKILL, continued, and answers.

``python -m tests.harness.terminal_picture`` runs the commands against the mock model server and writes
``docs/killed_and_continued.svg``. The text in the picture is what the commands printed.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "killed_and_continued.svg"
CANVAS = "examples/customer_service_router.json"
COMMAND = [sys.executable, "-m", "ragflow_lg"]

RULES = """
[[rules]]
when.system = "category"
replies = [{ text = "Delivery" }]

[[rules]]
replies = [{ text = "Your parcel left Hamburg this morning. It arrives tomorrow.", delay_s = 1.5 }]
"""
SETTINGS = """
default_model = "mock@Mock"
checkpoints = "sqlite:///{folder}/sessions.db"

[providers.Mock]
base_url = "{url}/v1"
api_key = "none"
"""


@contextmanager
def mock_server(folder: Path) -> Generator[str]:
    """Start the mock model server and yield its URL."""
    rules = folder / "rules.toml"
    rules.write_text(RULES, "utf-8")
    command = [*COMMAND, "mock-llm", str(rules), "--log", str(folder / "mock.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout
        first = server.stdout.readline()
        found = re.search(r"http://[\d.:]+", first)
        assert found, first
        try:
            yield found[0]
        finally:
            server.kill()


def killed_run(arguments: list[str]) -> list[str]:
    """Start a run, kill it at its second model call, and return what it printed."""
    lines: list[str] = []
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as run:
        assert run.stderr
        for line in run.stderr:
            lines.append(line.rstrip())
            if line.startswith("▸ Delivery desk"):
                run.kill()
    return lines


def main() -> None:
    """Run the commands and draw what they print."""
    with tempfile.TemporaryDirectory() as name, mock_server(Path(name)) as url:
        settings = Path(name) / "ragflow-lg.toml"
        settings.write_text(SETTINGS.format(folder=name, url=url), "utf-8")
        options = ["--settings", str(settings), "--events", "pretty"]
        question = "Where is my parcel?"
        before = killed_run(["run", CANVAS, question, "--session", "anna", *options])
        done = subprocess.run(
            [*COMMAND, "continue", "anna", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            cwd=ROOT,
        )
        after = done.stdout.splitlines()
    console = Console(record=True, width=92, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text(f"$ ragflow-lg run {CANVAS} '{question}' --session anna", "bold"))
    for line in before:
        console.print(Text(line, "dim"))
    console.print(Text("Killed", "bold red"))
    console.print(Text("$ ragflow-lg continue anna", "bold"))
    for line in after:
        console.print(Text(line, "dim" if line[:1] in "▸✓" else "green"))
    svg = console.export_svg(title="kill -9, continue", theme=MONOKAI)
    # The page of a repository loads no fonts from elsewhere.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
