import json
from pathlib import Path

from tests.conftest import FIXTURES
from tests.server.cli.command import invoke

ROOT = Path(__file__).parents[3]
ROUTER = ROOT / "examples" / "customer_service_router.json"
OLD = FIXTURES / "canvas" / "legacy" / "two_answers.json"


def test_a_canvas_in_dsl_v2_is_checked_run_and_converted_back(tmp_path: Path) -> None:
    v2 = tmp_path / "router.v2.json"
    assert invoke("canvas", "convert", ROUTER, "--to", "v2", "-o", v2).exit_code == 0
    assert json.loads(v2.read_bytes())["dsl"]["version"] == 2
    assert invoke("check", v2).exit_code == 0
    answers = [
        invoke("run", file, "Where is my parcel?", "--model", "demo", "--events", "pretty").stdout
        for file in (ROUTER, v2)
    ]
    assert answers[0] == answers[1] != ""
    assert json.loads(invoke("canvas", "convert", v2, "--to", "v1").stdout) == json.loads(ROUTER.read_bytes())


def test_the_plain_form_has_two_keys(tmp_path: Path) -> None:
    result = invoke("canvas", "convert", ROUTER, "--to", "v2", "--plain")
    document = json.loads(result.stdout)
    assert document.get("dsl", document).keys() == {"version", "components"}
    assert "--plain goes with --to v2" in invoke("canvas", "convert", ROUTER, "--to", "v1", "--plain").stderr


def test_an_old_canvas_is_converted_as_it_is_and_upgraded_afterwards(tmp_path: Path) -> None:
    v2 = tmp_path / "old.v2.json"
    invoke("canvas", "convert", OLD, "--to", "v2", "-o", v2)
    assert invoke("canvas", "upgrade", v2).stdout == invoke("canvas", "upgrade", OLD).stdout


def test_the_published_schema_is_that_of_this_version() -> None:
    assert invoke("canvas", "schema", "--dsl", "v2", "--check", ROOT / "docs" / "canvas_v2.schema.json").exit_code == 0
