import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.server.cli.command import ROOT, invoke

HANDBOOK = ROOT / "examples" / "handbook"


@pytest.fixture
def settings(tmp_path: Path) -> Mapping[str, str]:
    return {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}


@pytest.fixture
def handbook(settings: Mapping[str, str]) -> Mapping[str, str]:
    invoke("kb", "add", HANDBOOK, environment=settings)
    return settings


def test_each_subcommand_has_an_example() -> None:
    for name in ("create", "add", "search", "list", "delete", "export"):
        assert f"ragflow-lg kb {name}" in invoke("kb", name, "--help").stdout
    assert "Manage datasets of the embedded knowledge base" in invoke("--help").stdout


def test_the_life_of_a_dataset(tmp_path: Path, settings: Mapping[str, str]) -> None:
    assert "There are no datasets" in invoke("kb", "list", environment=settings).stdout
    assert not (tmp_path / "k.db").exists()
    creation = invoke("kb", "create", "notes", "--id", "abc", "--chunk-tokens", "32", environment=settings)
    assert creation.stdout == "notes  abc  hashing-stand-in\n"
    for name in ("notes", "abc"):
        with pytest.raises(SettingsError, match="already"):
            raise invoke("kb", "create", name, environment=settings).exception or AssertionError
    (tmp_path / "a.md").write_text("text", "utf-8")
    invoke("kb", "add", tmp_path / "a.md", "--dataset", "notes", environment=settings)
    listed = invoke("kb", "list", environment=settings).stdout
    assert listed == "notes  1 document  1 chunk  hashing-stand-in  abc\n"
    assert invoke("kb", "list", "abc", environment=settings).stdout.startswith("a.md  1 chunk  ")
    assert isinstance(
        invoke("kb", "delete", "notes", "--document", "none", environment=settings).exception, SettingsError
    )
    assert invoke("kb", "delete", "notes", "--document", "a.md", environment=settings).stdout == "deleted a.md\n"
    assert invoke("kb", "delete", "notes", text="n\n", environment=settings).exit_code == 1
    assert invoke("kb", "delete", "notes", "--yes", environment=settings).stdout == "deleted notes\n"


@pytest.mark.parametrize(
    "arguments",
    [("list", "none"), ("delete", "none", "-y"), ("export", "none"), ("create", "x", "--embedding", "none")],
)
def test_a_missing_dataset_is_one_message(arguments: tuple[str, ...], settings: Mapping[str, str]) -> None:
    error = invoke("kb", *arguments, environment=settings).exception
    assert isinstance(error, SettingsError)
    assert "'none'" in str(error)


def test_a_folder_becomes_a_dataset_of_its_name(settings: Mapping[str, str]) -> None:
    added = invoke("kb", "add", HANDBOOK, environment=settings)
    assert added.exit_code == 0
    assert added.stdout == "handbook: 6 added, 0 changed, 0 unchanged; 20 new chunks\n"
    assert "hashing-stand-in (no model" in added.stderr
    again = invoke("kb", "add", HANDBOOK, environment=settings)
    assert again.stdout == "handbook: 0 added, 0 changed, 6 unchanged; 0 new chunks\n"


def test_bad_files_are_reported_one_by_one_and_the_exit_code_is_1(tmp_path: Path, settings: Mapping[str, str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in (
        ("a.md", "x"),
        ("b.json", "{"),
        ("c.md", "x"),
        ("d.csv", ""),
        ("e.png", "x"),
        ("f.py", "x"),
        ("g.jsonl", "{}\n{"),
    ):
        (folder / name).write_text(text, "utf-8")
    added = invoke("kb", "add", folder, environment=settings)
    assert added.exit_code == 1
    assert added.stdout == "files: 1 added, 0 changed, 0 unchanged, 3 failed, 1 duplicate; 1 new chunk\n"
    assert (
        "✗ b.json: it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2" in added.stderr
    )
    assert "✗ g.jsonl: it is not JSON: Expecting property name" in added.stderr
    assert "(char 1) (line 2)." in added.stderr
    assert "✗ d.csv: it contains no text." in added.stderr
    assert "= c.md: skipped, same content as a.md." in added.stderr
    assert "· e.png, f.py: skipped, this file type is not supported." in added.stderr


def test_missing_files_are_reported_and_deleted_on_request(tmp_path: Path, settings: Mapping[str, str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(name, "utf-8")
    invoke("kb", "add", folder, environment=settings)
    (folder / "b.md").unlink()
    missing = invoke("kb", "add", folder, environment=settings)
    assert "- b.md: its file no longer exists; delete it with --prune." in missing.stderr
    assert (
        "b.md: its file no longer exists; deleted."
        in invoke("kb", "add", folder, "--prune", environment=settings).stderr
    )
    assert "b.md" not in invoke("kb", "list", "files", environment=settings).stdout


def test_a_name_with_braces_next_to_the_bar(
    tmp_path: Path, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", is_terminal, raising=False)
    folder = tmp_path / "a {b} [c]"
    folder.mkdir()
    (folder / "a.md").write_text("x", "utf-8")
    added = invoke("kb", "add", folder, environment=settings)
    assert added.exit_code == 0, added.exception


def test_a_file_goes_to_the_dataset_of_its_folder(tmp_path: Path, settings: Mapping[str, str]) -> None:
    added = invoke("kb", "add", HANDBOOK / "travel.md", environment=settings)
    assert added.stdout.startswith("handbook: 1 added")


def test_another_model_and_missing_files_are_refused(tmp_path: Path, settings: Mapping[str, str]) -> None:
    more = {**settings, "RAGFLOW_LG_EMBEDDINGS": '{"m": {"base_url": "http://127.0.0.1:9/v1", "max_retries": 0}}'}
    invoke("kb", "add", HANDBOOK, environment=settings)
    refused = invoke("kb", "add", HANDBOOK, "--embedding", "m", environment=more).exception
    assert isinstance(refused, SettingsError)
    assert "was created with the embedding model 'hashing-stand-in'" in str(refused)
    down = invoke("kb", "add", HANDBOOK, "--dataset", "new", environment=more).exception
    assert isinstance(down, ServiceError)
    assert "run the same command again" in str(down)
    none = invoke("kb", "add", HANDBOOK, tmp_path / "none", environment=settings)
    assert str(none.exception) == f"The file or folder '{tmp_path}/none' does not exist."
    assert none.stdout == ""


@pytest.mark.parametrize(("package", "file"), [("docx", "a.docx"), ("pypdf", "a.pdf"), ("lxml", "a.html")])
def test_a_missing_extra_leaves_no_empty_dataset(
    tmp_path: Path, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, package: str, file: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / file).write_bytes(b"<p>text</p>")
    monkeypatch.setitem(sys.modules, package, None)
    added = invoke("kb", "add", folder, environment=settings)
    assert added.exit_code != 0
    assert "pip install '" in added.stderr + str(added.exception)
    assert "There are no datasets" in invoke("kb", "list", environment=settings).stdout


def test_a_folder_without_supported_files_creates_no_dataset(tmp_path: Path, settings: Mapping[str, str]) -> None:
    (tmp_path / "empty").mkdir()
    assert "contains no supported file" in invoke("kb", "add", tmp_path / "empty", environment=settings).stdout
    assert "There are no datasets" in invoke("kb", "list", environment=settings).stdout
    invoke("kb", "create", "empty", environment=settings)
    invoke("kb", "add", tmp_path / "empty", environment=settings)
    assert "empty" in invoke("kb", "list", environment=settings).stdout


def test_results_have_document_and_lines(handbook: Mapping[str, str]) -> None:
    output = invoke("kb", "search", "handbook", "How many days of vacation?", "-n", "1", environment=handbook).stdout
    first, text = output.splitlines()
    assert first.startswith("1. 0.")
    assert first.endswith("  time_off.md, lines 10-13")
    assert "27 days of paid vacation" in text


def test_results_as_json(handbook: Mapping[str, str]) -> None:
    lines = invoke("kb", "search", "handbook", "年假有多少天", "--json", environment=handbook).stdout.splitlines()
    assert json.loads(lines[0])["docnm_kwd"] == "zh_handbook.md"


def test_no_match_and_a_missing_dataset(handbook: Mapping[str, str]) -> None:
    assert invoke("kb", "search", "handbook", "zebra", environment=handbook).stdout == "No chunks match the question.\n"
    assert isinstance(invoke("kb", "search", "none", "q", environment=handbook).exception, SettingsError)


def test_everything_is_exported(tmp_path: Path, handbook: Mapping[str, str]) -> None:
    assert invoke("kb", "export", "handbook", "-o", tmp_path / "out.jsonl", environment=handbook).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 20
    assert lines[-1]["metadata"] == {"department": "People", "year": 2026, "tags": ["上海"]}
    assert len(invoke("kb", "export", "handbook", environment=handbook).stdout.splitlines()) == 20
    assert invoke("kb", "export", "handbook", "-o", tmp_path, environment=handbook).exit_code == 2


def test_a_full_disk_is_reported(handbook: Mapping[str, str]) -> None:
    failed = invoke("kb", "export", "handbook", "-o", "/dev/full", environment=handbook).exception
    assert str(failed) == "/dev/full cannot be written: No space left on device."
