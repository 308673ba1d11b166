import json
import re
import sys
from pathlib import Path

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, invoke
from tests.server.cli.conftest import _at_home  # noqa: F401  # pyright: ignore[reportPrivateUsage, reportUnusedImport]

HANDBOOK = ROOT / "examples" / "handbook"


def test_the_life_of_a_dataset(tmp_path: Path) -> None:
    assert "There are no datasets" in invoke("kb", "list").stdout
    assert list(tmp_path.iterdir()) == []
    creation = invoke("kb", "create", "notes", "--id", "abc", "--chunk-tokens", "32")
    assert creation.stdout == "notes  abc  wordllama\n"
    for name in ("notes", "abc"):
        with pytest.raises(SettingsError, match="already"):
            raise invoke("kb", "create", name).exception or AssertionError
    (tmp_path / "a.md").write_text("text", "utf-8")
    invoke("kb", "add", tmp_path / "a.md", "--dataset", "notes")
    listed = invoke("kb", "list").stdout
    assert listed == "notes  1 document  1 chunk  wordllama  abc\n"
    assert invoke("kb", "list", "abc").stdout.startswith("a.md  1 chunk  ")
    assert isinstance(invoke("kb", "delete", "notes", "--document", "none").exception, SettingsError)
    assert invoke("kb", "delete", "notes", "--document", "a.md").stdout == "deleted a.md\n"
    assert invoke("kb", "delete", "notes", text="n\n").exit_code == 1
    assert invoke("kb", "delete", "notes", "--yes").stdout == "deleted notes\n"


@pytest.fixture
def handbook() -> None:
    invoke("kb", "add", HANDBOOK)


@each_row("words", ["list none", "delete none -y", "export none", "create x --embedding none", "search none q"])
def test_a_missing_dataset_is_one_message(words: str) -> None:
    error = invoke("kb", *words.split()).exception
    assert isinstance(error, SettingsError)
    assert "'none'" in str(error)


def test_a_folder_becomes_a_dataset_of_its_name() -> None:
    added = invoke("kb", "add", HANDBOOK, "--embedding", "keywords")
    assert added.exit_code == 0
    assert added.stdout == "handbook: 6 added, 0 changed, 0 unchanged; 20 new chunks\n"
    assert re.search(r"Only keywords are searched\. .*pip install '[^']*\[local-embeddings\]'", added.stderr)
    again = invoke("kb", "add", HANDBOOK)
    assert again.stdout == "handbook: 0 added, 0 changed, 6 unchanged; 0 new chunks\n"


def test_bad_files_are_reported_one_by_one_and_the_exit_code_is_1() -> None:
    Path("files").mkdir()
    texts = {"a.md": "x", "b.json": "{", "c.md": "x", "d.csv": "", "e.png": "x", "f.py": "x", "g.jsonl": "{}\n{"}
    for name, text in texts.items():
        Path("files", name).write_text(text, "utf-8")
    added = invoke("kb", "add", "files")
    assert added.exit_code == 1
    assert added.stdout == "files: 1 added, 0 changed, 0 unchanged, 3 failed, 1 duplicate; 1 new chunk\n"
    for problem in (
        "✗ b.json: it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2",
        "✗ g.jsonl: it is not JSON: Expecting property name",
        "(char 1) (line 2).",
        "✗ d.csv: it contains no text.",
        "= c.md: skipped, same content as a.md.",
        "· e.png, f.py: skipped, this file type is not supported.",
    ):
        assert problem in added.stderr


def test_missing_files_are_reported_and_deleted_on_request() -> None:
    Path("files").mkdir()
    for name in ("a.md", "b.md"):
        Path("files", name).write_text(name, "utf-8")
    invoke("kb", "add", "files")
    Path("files/b.md").unlink()
    assert "- b.md: its file no longer exists; delete it with --prune." in invoke("kb", "add", "files").stderr
    assert "b.md: its file no longer exists; deleted." in invoke("kb", "add", "files", "--prune").stderr
    assert "b.md" not in invoke("kb", "list", "files").stdout


def test_a_name_with_braces_next_to_the_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", is_terminal, raising=False)
    folder = tmp_path / "a {b} [c]"
    folder.mkdir()
    (folder / "a.md").write_text("x", "utf-8")
    added = invoke("kb", "add", folder)
    assert added.exit_code == 0, added.exception


def test_another_model_and_missing_files_are_refused(tmp_path: Path) -> None:
    more = {"RAGFLOW_LG_EMBEDDINGS": '{"m": {"base_url": "http://127.0.0.1:9/v1"}}'}
    invoke("kb", "add", HANDBOOK)
    refused = invoke("kb", "add", HANDBOOK, "--embedding", "m", environment=more).exception
    assert isinstance(refused, SettingsError)
    assert "was created with the embedding model 'wordllama'" in str(refused)
    down = invoke("kb", "add", HANDBOOK, "--dataset", "new", environment=more).exception
    assert isinstance(down, ServiceError)
    assert "run the same command again" in str(down)
    none = invoke("kb", "add", HANDBOOK, tmp_path / "none")
    assert str(none.exception) == f"The file or folder '{tmp_path}/none' does not exist."
    assert none.stdout == ""


@each_row(("package", "file"), [("docx", "a.docx"), ("pypdf", "a.pdf"), ("lxml", "a.html")])
def test_a_missing_extra_leaves_no_empty_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, file: str
) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / file).write_bytes(b"<p>text</p>")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        added = invoke("kb", "add", package)
    assert added.exit_code != 0
    assert "pip install '" in added.stderr + str(added.exception)
    assert "There are no datasets" in invoke("kb", "list").stdout


def test_a_folder_without_supported_files_creates_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "contains no supported file" in invoke("kb", "add", tmp_path / "empty").stdout
    assert "There are no datasets" in invoke("kb", "list").stdout
    invoke("kb", "create", "empty")
    invoke("kb", "add", tmp_path / "empty")
    assert "empty" in invoke("kb", "list").stdout


def test_results_have_document_and_lines(handbook: None) -> None:
    output = invoke("kb", "search", "handbook", "How many days of vacation?", "-n", "1").stdout
    first, text = output.splitlines()
    assert first.startswith("1. 0.")
    assert first.endswith("  time_off.md, lines 10-13")
    assert "27 days of paid vacation" in text


def test_everything_is_exported(tmp_path: Path, handbook: None) -> None:
    assert invoke("kb", "export", "handbook", "-o", tmp_path / "out.jsonl").exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 20
    assert lines[-1]["metadata"] == {"department": "People", "year": 2026, "tags": ["上海"]}
    assert len(invoke("kb", "export", "handbook").stdout.splitlines()) == 20
    assert invoke("kb", "export", "handbook", "-o", tmp_path).exit_code == 2


def test_a_full_disk_is_reported(handbook: None) -> None:
    failed = invoke("kb", "export", "handbook", "-o", "/dev/full").exception
    assert str(failed) == "/dev/full cannot be written: No space left on device."
