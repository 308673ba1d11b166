import json
from pathlib import Path

from tests.server.cli.command import ROOT, invoke


def test_the_printed_schema_is_the_published_one() -> None:
    printed = invoke("schema").stdout
    assert json.loads(printed)["$schema"].endswith("2020-12/schema")
    assert invoke("schema", "--check", ROOT / "docs" / "canvas.schema.json").exit_code == 0


def test_a_schema_is_written_and_compared_with_this_version(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    missing = invoke("schema", "--check", path)
    assert missing.exit_code == 1
    assert "schema -o" in missing.stderr
    assert invoke("schema", "-o", path).exit_code == 0
    assert invoke("schema", "--check", path).exit_code == 0
    path.write_text("{}")
    assert invoke("schema", "--check", path).exit_code == 1
