import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ragflow_lg.base.errors import CompileError
from tests.fakes.canvas import node, switch
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, invoke, save


def message(text: str, *downstream: str, **params: Any) -> dict[str, Any]:
    return node("Message", {"content": [text], **params}, downstream)


def test_nodes_edges_params_and_prompts_are_compared() -> None:
    prompts = [{"role": "user", "content": "x"}]
    kind = node("LLM", {"sys_prompt": "Be kind.\nBe brief.", "prompts": prompts}, ["b"])
    long = node("LLM", {"sys_prompt": "Be kind.\nBe long.", "temperature": 0.5, "prompts": prompts}, ["c"])
    old, new = save("a.json", {"a": kind, "b": message("x")}), save("b.json", {"a": long, "c": message("x")})
    result = invoke("canvas", "diff", old, new)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "~ LLM a",
        "    downstream: +c -b",
        "    sys_prompt:",
        "      @@ -1,2 +1,2 @@",
        "       Be kind.",
        "      -Be brief.",
        "      +Be long.",
        "    temperature: + 0.5",
        "+ Message c",
        "- Message b",
    ]


def test_layout_run_state_and_another_spelling_are_no_difference() -> None:
    graph = {"nodes": [{"id": "a", "position": {"x": 1}}]}
    old = save("a.json", {"a": message("x")}, path=["begin"], graph=graph)
    new = save("b.json", {"a": message("x", _is_raw_conf=True)}, history=[["user", "hi"]])
    assert (invoke("canvas", "diff", old, new).exit_code, invoke("canvas", "diff", old, old).stdout) == (0, "")


def test_routes_titles_and_variables_are_compared() -> None:
    parts = {"b": message("x"), "c": message("y")}
    old = save("a.json", {"s": switch(["b"], ["c"]), **parts}, globals={"env.n": 1})
    titled = {"nodes": [{"id": "b", "data": {"name": "Ask"}}]}
    new = save("b.json", {"s": switch(["c"], ["b"]), **parts}, globals={"env.n": 2}, graph=titled)
    text = invoke("canvas", "diff", old, new).stdout
    assert "Variables\n    env.n: 1 → 2" in text
    assert 'conditions[0].to: ["b"] → ["c"]' in text
    assert 'title: "" → "Ask"' in text


def test_formatting_is_stable_and_changes_nothing_for_a_run() -> None:
    nodes = {"b": message("x"), "a": message("y")}
    path = save("a.json", nodes, ["b", "a"], path=["begin"], globals={"sys.query": "left over"})
    before = path.read_bytes()
    assert invoke("canvas", "fmt", "--check", path).exit_code == 1
    assert path.read_bytes() == before
    assert invoke("canvas", "fmt", path).exit_code == 0
    formatted = json.loads(path.read_bytes())
    assert list(formatted["components"]) == ["begin", "b", "a"]
    assert (formatted["path"], formatted["globals"]) == ([], {"sys.query": ""})
    assert invoke("canvas", "fmt", "--check", path).exit_code == 0
    Path("old.json").write_bytes(before)
    assert invoke("canvas", "diff", "old.json", path).exit_code == 0
    assert json.loads(invoke("canvas", "fmt", "-", text=before.decode()).stdout) == formatted


@each_row("text", ["[]", "{", ""])
def test_what_is_no_canvas_is_not_formatted(text: str) -> None:
    Path("a.json").write_text(text)
    assert isinstance(invoke("canvas", "fmt", "a.json").exception, CompileError)
    assert isinstance(invoke("canvas", "diff", "a.json", "a.json").exception, CompileError)
    assert Path("a.json").read_text() == text


def test_git_shows_the_canonical_form(tmp_path: Path) -> None:
    """The setup in docs/canvases.md, with a real git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    (tmp_path / "canvases").mkdir()
    lines = (ROOT / "docs" / "canvases.md").read_text("utf-8").splitlines()
    setup = [
        line[2:] for line in lines if (line.startswith("$ ") and "diff.canvas" in line) or ".gitattributes" in line
    ]
    command = f"PYTHONPATH={ROOT} {sys.executable} -m ragflow_lg"
    for line in setup:
        subprocess.run(["bash", "-c", line.replace("ragflow-lg", command)], cwd=tmp_path, check=True)
    save(tmp_path / "canvases" / "a.json", {"a": message("x")}, path=["begin"])
    (tmp_path / "canvases" / "b.json").write_text("[1, 2")
    git("add", ".")
    git("commit", "-qm", "x")
    save(tmp_path / "canvases" / "a.json", {"a": message("x")}, path=["begin", "a"])
    assert "path" not in git("diff")
    save(tmp_path / "canvases" / "a.json", {"a": message("y")}, path=["begin", "a"])
    changed = [line for line in git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line[0] + line[1:].strip() for line in changed] == ['-"x"', '+"y"']
    (tmp_path / "canvases" / "b.json").write_text("[1, 3")
    assert "-[1, 2" in git("diff", "canvases/b.json")


def test_a_page_shows_both_drawings_with_marks() -> None:
    old = save("old.json", {"a": message("<b>one</b>", "c"), "c": message("x")})
    new = save("new.json", {"a": message("two", "b"), "b": message("x")})
    result = invoke("canvas", "diff", old, new, "--output", "html")
    titles = ["a (changed)", "c (removed)", "a (changed)", "b (added)"]
    assert [t for t in re.findall(r"<g[^>]*><title>(.*?)</title>", result.stdout) if "(" in t] == titles
    assert (result.exit_code, "&lt;b&gt;one" in result.stdout, "<b>" in result.stdout) == (1, True, False)
