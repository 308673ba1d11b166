import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.cli.diagnostics_output import check_files
from tests.server.cli.command import SUPPORT, call, invoke, write_canvas

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


def test_a_valid_canvas_can_run() -> None:
    result = invoke("check", SUPPORT)
    assert result.exit_code == 0
    assert "can run (0 errors" in result.stdout


def test_a_problem_is_shown_with_its_line(unknown: Path) -> None:
    result = invoke("check", unknown)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{unknown}:4:")
    assert "component-unknown" in lines[0]
    caret = next(i for i, line in enumerate(lines) if line.endswith("^"))
    assert lines[caret - 1][lines[caret].index("^") :].startswith('"Swtch"')
    assert "Switch" in result.stdout


def test_a_terminal_gets_the_same_report_in_colour(
    unknown: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = invoke("check", unknown).stdout
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in {"NO_COLOR": "", "TERM": "xterm", "WT_SESSION": "1"}.items():
        monkeypatch.setenv(name, value)
    assert check_files([unknown], "text", None) == 1
    coloured = capsys.readouterr().out
    assert "\x1b[1;31merror\x1b[0m component-unknown" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_a_long_line_is_cut_around_the_column(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"padding": "x" * 5000, **json.loads(UNKNOWN)}))
    lines = invoke("check", path).stdout.splitlines()
    caret = next(i for i, line in enumerate(lines) if line.endswith("^"))
    assert len(lines[caret - 1]) < 120
    assert lines[caret - 1][lines[caret].index("^") :].startswith('"Swtch"')


def test_json_lists_the_diagnostics_of_each_file(unknown: Path) -> None:
    reports = json.loads(invoke("check", SUPPORT, unknown, "--output", "json").stdout)
    assert [entry["runs"] for entry in reports] == [True, False]
    assert reports[1]["diagnostics"][0]["pointer"] == "/components/Swtch:A/obj/component_name"


def test_sarif_has_a_location_for_each_result(unknown: Path) -> None:
    log = json.loads(invoke("check", unknown, "--output", "sarif").stdout)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["results"]
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"]["startLine"] >= 1


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


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"{", b"[" * 100_000, b"null", b'{"components": 5}', b"\x00"]
)
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


def test_the_excerpt_is_the_line_of_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    document = json.loads(UNKNOWN)
    path.write_bytes(json.dumps({"note": "a\u2028b\x85c", **document}, ensure_ascii=False, indent=1).encode())
    lines = invoke("check", path).stdout.splitlines()
    caret = next(i for i, line in enumerate(lines) if line.endswith("^"))
    assert lines[caret - 1][lines[caret].index("^") :].startswith('"Swtch"')


def test_the_canvases_in_a_folder_are_checked(tmp_path: Path) -> None:
    files = {"b.json": UNKNOWN, "in/a.json": UNKNOWN, "package.json": "{}", ".git/c.json": UNKNOWN}
    for name, text in {**files, "langgraph.json": '{"graphs": {}}', "notes.txt": UNKNOWN}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    result = invoke("check", tmp_path, tmp_path / "empty", "--output", "json")
    assert [Path(entry["file"]) for entry in json.loads(result.stdout)] == [tmp_path / "b.json", tmp_path / "in/a.json"]
    assert (result.exit_code, result.stderr) == (1, f"There is no canvas in {tmp_path / 'empty'}.\n")


def test_what_the_settings_lack_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    canvas = write_canvas(
        tmp_path / "c.json",
        ("begin", "Begin", {}, ["LLM:A"]),
        ("LLM:A", "LLM", {"llm_id": "qwen-max@Tongyi-Qianwen", "prompts": [{"role": "user", "content": "x"}]}, []),
    )
    assert "warning model-unavailable" in invoke("check", canvas).stdout
    assert call("check", canvas).stdout == invoke("check", canvas).stdout
    ready = invoke("check", canvas, "--ready")
    assert ready.exit_code == 1
    assert "error model-unavailable" in ready.stdout
    (tmp_path / "s.toml").write_text('[providers.Tongyi-Qianwen]\napi_key = "k"\n')
    assert "(0 errors, 0 warnings)" in invoke("check", canvas, "--ready", "--settings", "s.toml").stdout


def test_a_canvas_is_checked_with_what_a_tenant_may_use(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f"""
        [knowledge]
        url = "sqlite:///{tmp_path}/kb.db"
        [providers.Own]
        base_url = "http://127.0.0.1:1/v1"
        api_key = "sk-0123456789"
        [limits]
        canvas_components = 3
        [tenants.shop]
        models = ["Own"]
        keys = ["datasets.prices"]
        """
    )
    for name in ("prices", "salaries"):
        assert call("kb", "create", name, "--settings", settings).returncode == 0
    knows: dict[str, Any] = {"dataset_ids": ["prices", "salaries"], "query": "x"}
    nodes: dict[str, Any] = {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["r"]},
        "r": {"obj": {"component_name": "Retrieval", "params": knows}, "downstream": ["LLM:0"]},
        "LLM:0": {"obj": {"component_name": "LLM", "params": {"llm_id": "m@Own"}}, "downstream": []},
    }
    path = tmp_path / "canvas.json"
    path.write_text(json.dumps({"components": nodes}))

    def codes(*options: str) -> list[str]:
        report = call("check", path, "--output", "json", "--settings", settings, *options)
        (file,) = json.loads(report.stdout)
        return sorted(diagnostic["code"] for diagnostic in file["diagnostics"])

    assert codes() == codes("--tenant", "default") == []
    assert codes("--tenant", "shop") == ["dataset-unknown"]
    assert codes("--tenant", "stranger") == ["dataset-unknown", "dataset-unknown", "model-unavailable"]
    nodes["LLM:0"]["downstream"] = ["Message:0"]
    message = {"component_name": "Message", "params": {"content": ["{LLM:0@content}"]}}
    path.write_text(json.dumps({"components": {**nodes, "Message:0": {"obj": message, "downstream": []}}}))
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


def test_the_json_report_names_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "canvas.json"
    path.write_text(FIXABLE)
    (report,) = json.loads(invoke("check", path, "-o", "json").stdout)
    assert {d["fix"] for d in report["diagnostics"]} == {
        "Remove 'prolgue'",
        "Remove 'tone'",
        "Remove the edge to 'gone'",
    }


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
