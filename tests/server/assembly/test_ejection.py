import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.base.errors import RunError
from ragflow_lg.server.assembly.ejection import RecordedPlay, eject_file
from ragflow_lg.server.settings import load_settings
from tests.server.cli.command import invoke

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))


async def test_all_examples_are_clean_for_ruff(tmp_path: Path) -> None:
    for number, path in enumerate(EXAMPLES):
        package = await eject_file(path, load_settings(None), name=f"package_{number}")
        for name, text in package.files.items():
            target = tmp_path / f"{number}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    for arguments in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_a_recording_without_the_turn_is_refused(tmp_path: Path) -> None:
    file, tape = ROOT / "examples" / "customer_service_router.json", tmp_path / "run.jsonl"
    invoke("run", file, "Where is my parcel?", "--model", "demo", "--record", tape)
    run = RecordedPlay(tape, {"query": "I want a refund."})
    with pytest.raises(RunError, match=r"run\.jsonl"):
        asyncio.run(eject_file(file, load_settings(None), recordings=(run,)))
