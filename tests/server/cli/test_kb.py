from collections.abc import Mapping
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from tests.server.cli.command import invoke


@pytest.fixture
def settings(tmp_path: Path) -> Mapping[str, str]:
    return {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}


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
