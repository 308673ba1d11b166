import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError
from tests.fakes.canvas import canvas, node, switch
from tests.server.cli.command import ROOT, invoke


def message(text: str, *downstream: str, **params: Any) -> dict[str, Any]:
    return node("Message", {"content": [text], **params}, downstream)


def write(folder: Path, name: str, components: dict[str, Any], first: Any = None, **more: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(canvas(components, first, **more)), "utf-8")
    return path


def test_nodes_edges_params_and_prompts_are_compared(tmp_path: Path) -> None:
    prompt = {"role": "user", "content": "x"}
    old = write(
        tmp_path,
        "a.json",
        {"a": node("LLM", {"sys_prompt": "Be kind.\nBe brief.", "prompts": [prompt]}, ["b"]), "b": message("x")},
    )
    new = write(
        tmp_path,
        "b.json",
        {
            "a": node("LLM", {"sys_prompt": "Be kind.\nBe long.", "temperature": 0.5, "prompts": [prompt]}, ["c"]),
            "c": message("x"),
        },
    )
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


def test_layout_run_state_and_another_spelling_are_no_difference(tmp_path: Path) -> None:
    old = write(
        tmp_path, "a.json", {"a": message("x")}, path=["begin"], graph={"nodes": [{"id": "a", "position": {"x": 1}}]}
    )
    new = write(
        tmp_path, "b.json", {"a": node("Message", {"content": ["x"], "_is_raw_conf": True})}, history=[["user", "hi"]]
    )
    assert (invoke("canvas", "diff", old, new).exit_code, invoke("canvas", "diff", old, old).stdout) == (0, "")


def test_routes_titles_and_variables_are_compared(tmp_path: Path) -> None:
    parts = {"b": message("x"), "c": message("y")}
    old = write(tmp_path, "a.json", {"s": switch(["b"], ["c"]), **parts}, globals={"env.n": 1})
    titled = {"nodes": [{"id": "b", "data": {"name": "Ask"}}]}
    new = write(tmp_path, "b.json", {"s": switch(["c"], ["b"]), **parts}, globals={"env.n": 2}, graph=titled)
    text = invoke("canvas", "diff", old, new).stdout
    assert "Variables\n    env.n: 1 → 2" in text
    assert 'conditions[0].to: ["b"] → ["c"]' in text
    assert 'title: "" → "Ask"' in text


def test_json_holds_the_same_differences(tmp_path: Path) -> None:
    old, new = write(tmp_path, "a.json", {"a": message("x")}), write(tmp_path, "b.json", {"a": message("y")})
    (found,) = json.loads(invoke("canvas", "diff", old, new, "--output", "json").stdout)
    assert found == {
        "kind": "changed",
        "node": "a",
        "title": "",
        "component": "Message",
        "path": ["content"],
        "old": ["x"],
        "new": ["y"],
    }


def test_a_broken_canvas_is_an_error(tmp_path: Path) -> None:
    old = write(tmp_path, "a.json", {"a": message("x")})
    (tmp_path / "b.json").write_text("{")
    assert isinstance(invoke("canvas", "diff", old, tmp_path / "b.json").exception, CompileError)


def test_formatting_is_stable_and_changes_nothing_for_a_run(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.json",
        {"b": message("x"), "a": message("y")},
        ["b", "a"],
        path=["begin"],
        globals={"sys.query": "left over"},
    )
    before = path.read_bytes()
    assert invoke("canvas", "fmt", "--check", path).exit_code == 1
    assert path.read_bytes() == before
    assert invoke("canvas", "fmt", path).exit_code == 0
    formatted = json.loads(path.read_bytes())
    assert list(formatted["components"]) == ["begin", "b", "a"]
    assert (formatted["path"], formatted["globals"]) == ([], {"sys.query": ""})
    assert invoke("canvas", "fmt", "--check", path).exit_code == 0
    old = tmp_path / "old.json"
    old.write_bytes(before)
    assert invoke("canvas", "diff", old, path).exit_code == 0


@pytest.mark.parametrize("text", ["[]", "{", ""])
def test_what_is_no_canvas_is_not_formatted(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert isinstance(invoke("canvas", "fmt", tmp_path / "a.json").exception, CompileError)
    assert (tmp_path / "a.json").read_text() == text


def test_standard_input_is_formatted() -> None:
    assert json.loads(invoke("canvas", "fmt", "-", text=json.dumps(canvas({"a": message("é")}))).stdout)["components"]


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
    write(tmp_path / "canvases", "a.json", {"a": message("x")}, path=["begin"])
    (tmp_path / "canvases" / "b.json").write_text("[1, 2")
    git("add", ".")
    git("commit", "-qm", "x")
    write(tmp_path / "canvases", "a.json", {"a": message("x")}, path=["begin", "a"])
    assert "path" not in git("diff")
    write(tmp_path / "canvases", "a.json", {"a": message("y")}, path=["begin", "a"])
    changed = [line for line in git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line[0] + line[1:].strip() for line in changed] == ['-"x"', '+"y"']
    (tmp_path / "canvases" / "b.json").write_text("[1, 3")
    assert "-[1, 2" in git("diff", "canvases/b.json")


def test_a_page_shows_both_drawings_with_marks(tmp_path: Path) -> None:
    document = canvas(
        {"a": node("Message", {"content": ["<b>one</b>"]}, ["c"]), "c": node("Message", {"content": ["x"]})}
    )
    (tmp_path / "old.json").write_text(json.dumps(document))
    document["components"]["a"]["obj"]["params"]["content"] = ["two"]
    document["components"]["b"] = document["components"].pop("c")
    document["components"]["a"]["downstream"] = ["b"]
    (tmp_path / "new.json").write_text(json.dumps(document))
    result = invoke("canvas", "diff", tmp_path / "old.json", tmp_path / "new.json", "--output", "html")
    assert result.exit_code == 1
    page = result.stdout
    titles = ["a (changed)", "c (removed)", "a (changed)", "b (added)"]
    assert [t for t in re.findall(r"<g[^>]*><title>(.*?)</title>", page) if "(" in t] == titles
    assert "&lt;b&gt;one" in page
    assert "<b>" not in page
