from __future__ import annotations

from tests.server.cli.command import Cli


def test_a_store_that_works_is_ok(cli: Cli) -> None:
    cli("run", "words.json", "go", "--session", "anna")
    healthy = cli("doctor")
    assert healthy.returncode == 0
    assert "is a session store" in healthy.stdout
    assert "FAIL" not in healthy.stdout


def test_an_unreachable_store_fails_with_advice(cli: Cli) -> None:
    failed = cli("doctor", "--checkpoint", "redis://127.0.0.1:1")
    assert failed.returncode == 1
    assert "FAIL" in failed.stdout
    assert "→ Start the server" in failed.stdout
