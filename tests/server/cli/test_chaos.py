import json
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError
from tests.fakes.canvas import canvas
from tests.fakes.regions import out
from tests.server.cli.command import invoke

pytestmark = pytest.mark.slow


def test_it_prints_kills_differences_and_progress(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(canvas(out("x"))))
    bad.write_text("{}")
    done = invoke("chaos", good)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].endswith(" kills, 0 differences")
    kills = int(done.stdout.splitlines()[-1].split()[0])
    progress = done.stderr.splitlines()
    assert (progress[0], progress[-1]) == (f"{good}: 0 of {kills} kills", f"{good}: {kills} of {kills} kills")
    assert "s left" in progress[1]
    assert isinstance(invoke("chaos", bad).exception, CompileError)
