import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import CODES, Diagnostic
from ragflow_lg.server.cli.diagnostics_output import to_sarif
from tests.fakes.canvas import node
from tests.harness.rows import each_row
from tests.server.cli.command import SUPPORT, call, invoke, save

UNKNOWN = """{
  "components": {
    "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Swtch:A"]},
    "Swtch:A": {"obj": {"component_name": "Swtch", "params": {}}, "downstream": []}
  }
}
"""


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    path = tmp_path / "unknown.json"
    path.write_text(UNKNOWN)
    return path


@each_row(
    "text",
    [
        UNKNOWN,
        json.dumps({"padding": "x" * 5000, **json.loads(UNKNOWN)}),  # the line is cut around the column
        json.dumps({"note": "a\u2028b\x85c", **json.loads(UNKNOWN)}, ensure_ascii=False, indent=1),
    ],
)
def test_a_problem_is_shown_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "unknown.json"
    path.write_text(text, "utf-8")
    result = invoke("check", path)
    assert (result.exit_code, "Switch" in result.stdout) == (1, True)
    lines = result.stdout.splitlines()
    assert re.match(rf"{re.escape(str(path))}:\d+:.*component-unknown", lines[0])
    caret = next(i for i, line in enumerate(lines) if line.endswith("^"))
    assert len(lines[caret - 1]) < 120
    assert lines[caret - 1][lines[caret].index("^") :].startswith('"Swtch"')


def test_what_several_nodes_lack_is_one_finding(tmp_path: Path) -> None:
    model = {"llm_id": "deep@DeepSeek", "prompts": [{"role": "user", "content": "x"}]}
    nodes = {"a": node("LLM", model, ["b"]), "b": node("LLM", model, ["c"]), "c": node("LLM", model)}
    file = save(tmp_path / "same.json", nodes)
    text = invoke("check", file).stdout
    assert text.count("model-unavailable") == 1
    assert re.search(r"^  also in b \(\d+:\d+\), c \(\d+:\d+\)$", text, re.MULTILINE)
    assert "3 warnings" in text
    (report,) = json.loads(invoke("check", file, "--output", "json").stdout)
    assert [d["node"] for d in report["diagnostics"] if d["code"] == "model-unavailable"] == ["a", "b", "c"]


def test_json_lists_the_diagnostics_of_each_file(unknown: Path) -> None:
    reports = json.loads(invoke("check", SUPPORT, unknown, "--output", "json").stdout)
    assert [entry["runs"] for entry in reports] == [True, False]
    assert reports[1]["diagnostics"][0]["pointer"] == "/components/Swtch:A/obj/component_name"


def test_an_unreadable_file_does_not_hide_the_others(tmp_path: Path, unknown: Path) -> None:
    result = invoke("check", tmp_path / "none.json", "nowhere", unknown)
    assert result.exit_code == 2
    assert result.stderr.count("cannot be read") == 2
    assert "component-unknown" in result.stdout


def test_the_configuration_next_to_canvases_is_skipped(tmp_path: Path) -> None:
    config = tmp_path / "langgraph.json"
    config.write_text('{"graphs": {}}')
    result = invoke("check", SUPPORT, config)
    assert result.exit_code == 0, result.stdout
    assert "the configuration of LangGraph, not a canvas" in result.stderr
    assert invoke("check", config).exit_code == 1, "it is the only file"


@each_row("content", [b"", b"\xff\xfe\x00", b"{", b"[" * 100_000, b"null", b'{"components": 5}', b"\x00"])
def test_every_file_has_a_verdict(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(content)
    for output in ("text", "json", "sarif"):
        assert invoke("check", path, "--output", output).exit_code == 1


def test_titles_do_not_control_the_terminal(tmp_path: Path) -> None:
    document = json.loads(UNKNOWN)
    document["graph"] = {"nodes": [{"id": "Swtch:A", "data": {"name": "\x1b]0;x\x07\nline"}}], "edges": []}
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(document))
    assert invoke("check", path).stdout.replace("\n", "").isprintable()


def test_the_canvases_in_a_folder_are_checked(tmp_path: Path) -> None:
    files = {"b.json": UNKNOWN, "in/a.json": UNKNOWN, "package.json": "{}", ".git/c.json": UNKNOWN}
    for name, text in {**files, "langgraph.json": '{"graphs": {}}', "notes.txt": UNKNOWN}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    result = invoke("check", tmp_path, tmp_path / "empty", "--output", "json")
    assert [Path(entry["file"]) for entry in json.loads(result.stdout)] == [tmp_path / "b.json", tmp_path / "in/a.json"]
    assert (result.exit_code, result.stderr) == (1, f"There is no canvas in {tmp_path / 'empty'}.\n")


def test_what_the_settings_lack_is_a_warning(tmp_path: Path) -> None:
    params = {"llm_id": "qwen-max@Tongyi-Qianwen", "prompts": [{"role": "user", "content": "x"}]}
    canvas = save("c.json", {"LLM:A": node("LLM", params)})
    assert "warning model-unavailable" in invoke("check", canvas).stdout
    assert call("check", canvas).stdout == invoke("check", canvas).stdout
    ready = invoke("check", canvas, "--ready")
    assert ready.exit_code == 1
    assert "error model-unavailable" in ready.stdout
    (tmp_path / "s.toml").write_text('[providers.Tongyi-Qianwen]\napi_key = "k"\n')
    assert "(0 errors, 0 warnings)" in invoke("check", canvas, "--ready", "--settings", "s.toml").stdout


def test_a_canvas_is_checked_with_what_a_tenant_may_use() -> None:
    Path("s.toml").write_text(
        """
        [providers.Own]
        base_url = "http://127.0.0.1:1/v1"
        api_key = "sk-0123456789"
        [limits]
        canvas_bytes = 3000
        [tenants.shop]
        models = ["Own"]
        keys = ["datasets.prices"]
        """
    )
    for name in ("prices", "salaries"):
        assert call("kb", "create", name).returncode == 0
    knows = node("Retrieval", {"dataset_ids": ["prices", "salaries"], "query": "x"}, ["LLM:0"])
    path = save("canvas.json", {"r": knows, "LLM:0": node("LLM", {"llm_id": "m@Own"})})

    def codes(*options: str) -> list[str]:
        report = call("check", path, "--output", "json", "--settings", "s.toml", *options)
        (file,) = json.loads(report.stdout)
        return sorted(diagnostic["code"] for diagnostic in file["diagnostics"])

    assert codes() == codes("--tenant", "default") == []
    assert codes("--tenant", "shop") == ["dataset-unknown"]
    assert codes("--tenant", "stranger") == ["dataset-unknown", "dataset-unknown", "model-unavailable"]
    message = node("Message", {"content": ["{LLM:0@content}" + "x" * 3000]})
    save(path, {"r": knows, "LLM:0": node("LLM", {"llm_id": "m@Own"}, ["m"]), "m": message})
    assert codes() == []
    assert "document-too-large" in codes("--tenant", "shop")


FIXABLE = """{
\t"globals": {"tone": 1, "sys.query": ""},
\t"components": {
\t\t"begin": {"obj": {"component_name": "Begin", "params": {"prolgue": 1, "prologue": "Ho"}},
\t\t\t"downstream": ["m", "gone"]},
\t\t"m": {"obj": {"component_name": "Message", "params": {"content": ["Hello"]}}, "downstream": []}
\t}
}
"""


def test_fixes_leave_the_rest_of_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "canvas.json"
    path.write_bytes(b"\xef\xbb\xbf" + FIXABLE.replace("\n", "\r\n").encode())
    result = invoke("check", path, "--fix")
    assert result.exit_code == 0
    expected = FIXABLE.replace('"tone": 1, ', "").replace('"prolgue": 1, ', "").replace(', "gone"', "")
    assert path.read_bytes() == b"\xef\xbb\xbf" + expected.replace("\n", "\r\n").encode()
    assert "Remove 'prolgue' (params-unknown)." in result.stderr
    assert "Remove the edge to 'gone' (target-unknown)." in result.stderr
    assert "can run (0 errors, 0 warnings)" in result.stdout
    before = path.read_bytes()
    assert "Remove" not in invoke("check", path, "--fix").stderr
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_fixed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "canvas.json"
    path.write_bytes(FIXABLE.encode("utf-16"))
    before = path.read_bytes()
    assert "is not UTF-8; nothing is fixed" in invoke("check", path, "--fix").stderr
    assert path.read_bytes() == before


def test_several_canvases_have_a_summary(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(FIXABLE.replace(', "gone"', ""))
    (tmp_path / "two.json").write_text(FIXABLE.replace("Message", "Mesage"))
    result = invoke("check", tmp_path)
    assert result.exit_code == 1
    last = result.stdout.splitlines()[-1]
    assert last.startswith("2 canvases: 1 can run, 1 cannot run (")
    assert "canvases:" not in invoke("check", tmp_path / "one.json").stdout
    both = invoke("check", tmp_path / "one.json", tmp_path / "missing.json")
    assert both.stdout.splitlines()[-1].startswith("2 canvases: 1 can run, 1 cannot be read (0 errors")
    assert len(json.loads(invoke("check", tmp_path, "-o", "json").stdout)) == 2


def result_of(path: Path, diagnostic: Diagnostic) -> dict[str, Any]:
    (run,) = json.loads(to_sarif([(path, (diagnostic,))]))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CODES)
    (result,) = run["results"]
    return result


def test_a_diagnostic_is_a_result() -> None:
    diagnostic = Diagnostic("route-empty", "error", "/components/a", "Nothing left.", "Add a target.", line=7, column=3)
    assert result_of(Path("canvas.json"), diagnostic) == {
        "ruleId": "route-empty",
        "level": "error",
        "message": {"text": "Nothing left. Add a target."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "canvas.json"},
                    "region": {"startLine": 7, "startColumn": 3},
                },
                "logicalLocations": [{"fullyQualifiedName": "/components/a"}],
            }
        ],
    }


@each_row(("path", "uri"), [("my canvas#1.json", "my%20canvas%231.json"), ("/a b/c.json", "file:///a%20b/c.json")])
def test_a_path_is_a_uri(path: str, uri: str) -> None:
    result = result_of(Path(path), Diagnostic("route-empty", "warning", "", "x"))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
