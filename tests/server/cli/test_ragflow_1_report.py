import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dsl_compiler.ragflow_1.short_canvas import expand
from tests.fakes.recorded_ragflow import RecordedRagflow
from tests.harness.rows import each_row
from tests.integrations.migration.commands import command
from tests.server.cli.command import invoke

PLAIN: dict[str, Any] = {"m": ["Message", {"content": ["hello"]}, []]}
TWICE: dict[str, Any] = {
    "s": ["StringTransform", {"method": "merge", "script": "x", "delimiters": [","]}, ["m"]],
    "m": ["Message", {"content": ["{s@result}"]}, [], {"upstream": ["s", "s"]}],
}
ALTERNATIVES: dict[str, Any] = {"m": ["Message", {"content": ["a", "b"]}, []]}


def canvas(folder: Path, name: str, short: dict[str, Any]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(expand(short), indent=2), "utf-8")
    return path


@each_row(
    ("short", "code", "words"),
    [
        (PLAIN, 0, "nothing that the rules know changes"),
        (ALTERNATIVES, 1, "1 changes its answers"),
        (TWICE, 2, "1 breaks it"),
    ],
)
def test_the_exit_code_says_the_worst(tmp_path: Path, short: dict[str, Any], code: int, words: str) -> None:
    result = invoke("check", canvas(tmp_path, "a", short), "--for", "ragflow-1.0")
    assert result.exit_code == code
    assert words in result.stdout
    assert re.match(r"--all shows \d+ more findings?: ", result.stderr)


def test_a_finding_names_the_node_the_line_and_both_engines(tmp_path: Path) -> None:
    path = canvas(tmp_path, "twice", TWICE)
    lines = invoke("check", path, "--for", "ragflow-1.0").stdout.splitlines()
    start = lines.index("  breaks duplicate-upstream (--fix)")
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if '"upstream": [' in line and n > 30)
    assert lines[start + 1].startswith("    at m, line ")
    assert abs(int(lines[start + 1].rsplit(" ", 1)[1]) - number) <= 1
    assert lines[start + 2].startswith("    0.27: ")
    assert lines[start + 3].startswith("    1.0:  ")
    assert "Seen when the new engine ran" in lines[start + 5]


def test_fixing_changes_the_file_and_shows_the_change(tmp_path: Path) -> None:
    path = canvas(tmp_path, "twice", TWICE)
    result = invoke("check", path, "--for", "ragflow-1.0", "--fix")
    assert result.exit_code == 0
    assert "1 change (duplicate-upstream)" in result.stderr
    document = json.loads(path.read_text("utf-8"))
    assert document["components"]["m"]["upstream"] == ["s"]
    assert list(document) == list(expand(TWICE))
    assert path.read_text("utf-8").splitlines()[1].startswith('  "')


def test_a_folder_is_summed_up_and_an_unreadable_file_is_named(tmp_path: Path) -> None:
    for name, short in {"a": PLAIN, "b": TWICE, "c": ALTERNATIVES}.items():
        canvas(tmp_path, name, short)
    Path("d.json").write_text('{"components": ')
    result = invoke("check", "a.json", "b.json", "c.json", "d.json", "--for", "ragflow-1.0")
    assert result.exit_code == 3
    assert "d.json" in result.stderr
    assert result.stdout.rstrip().endswith(
        "3 canvases: 1 breaks, 1 answers differently, 0 look different to clients, 1 same"
    )


def test_the_other_formats_hold_the_same(tmp_path: Path) -> None:
    path = canvas(tmp_path, "twice", TWICE)
    (document,) = json.loads(invoke("check", path, "--for", "ragflow-1.0", "-o", "json").stdout)
    (finding,) = document["findings"]
    assert (document["verdict"], finding["rule"], finding["fixable"]) == ("breaks", "duplicate-upstream", True)
    run = json.loads(invoke("check", path, "--for", "ragflow-1.0", "-o", "sarif").stdout)["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == ["duplicate-upstream"]
    assert run["results"][0]["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    page = invoke("check", path, "--for", "ragflow-1.0", "-o", "html").stdout
    assert "duplicate-upstream" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    document = expand(TWICE)
    document["graph"]["nodes"][2]["data"]["name"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(document))
    assert "<script>" not in invoke("check", path, "--for", "ragflow-1.0", "-o", "html").stdout


@each_row("options", ["--all", "--from https://example.com", "-o html", "--for ragflow-1.0 --ready"])
def test_options_that_do_not_belong_together_are_refused(tmp_path: Path, options: str) -> None:
    result = invoke("check", canvas(tmp_path, "a", PLAIN), *options.split())
    assert (result.exit_code, "--for" in result.stderr) == (2, True)


async def test_the_agents_of_a_running_server_are_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEIR_KEY", "ragflow-k3y-of-theirs")
    for generation, name in (("0.27", "RAGFlow v0.27.2."), ("1.0", "RAGFlow v1.0.0 (Go).")):
        async with RecordedRagflow(generation).running() as server:
            assert isinstance(server, RecordedRagflow)
            asked = ("--from", server.url, "--key-env", "THEIR_KEY", "--allow-private")
            done = await command("check", "--for", "ragflow-1.0", *asked)
        assert "2 canvases: " in done.stdout, done.stderr
        assert f"The server is {name}" in done.stderr
        assert "line 1" not in done.stdout
        fixing = await command("check", "--for", "ragflow-1.0", *asked, "--fix")
        assert (fixing.returncode, "pull` first" in " ".join(fixing.stderr.split())) == (2, True)
    assert list(tmp_path.iterdir()) == []
