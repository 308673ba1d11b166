import pytest

from ragflow_lg.base import extras
from tests.server.cli.command import call


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "lsp", ("no_such_module",))
    done = call("lsp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ragflow-lg lsp needs no_such_module. Install it with: pip install '" in done.stderr
    assert "[lsp]'" in done.stderr


def test_the_help_names_the_page() -> None:
    assert "docs/checking.md" in call("lsp", "--help").stdout
