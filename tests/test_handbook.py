"""The examples that need nothing: the demo model answers."""

from pathlib import Path
from typing import Any

from tests.server.cli.command import ROOT, frames, invoke

PASSAGES = {
    "How many days of vacation do I have?": ("27 days of paid vacation", "time_off.md"),
    "What do I do when I lose my laptop?": ("lost laptop within one hour", "it/accounts.md"),
    "年假有多少天？": ("十五天带薪年假", "zh_handbook.md"),
}


def test_the_right_passage_is_cited(tmp_path: Path) -> None:
    settings = {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}
    assert invoke("kb", "add", ROOT / "examples" / "handbook", environment=settings).exit_code == 0

    def play(question: str) -> tuple[str, Any]:
        """Return the answer and the end of its message."""
        canvas = ROOT / "examples" / "handbook_agent.json"
        played = invoke("run", canvas, question, "--model", "demo", "--events", "json", environment=settings)
        assert played.exit_code == 0
        data = {frame["event"]: frame["data"] for frame in frames(played)}
        return data["workflow_finished"]["outputs"]["content"], data["message_end"]

    for question, (passage, document) in PASSAGES.items():
        answer, end = play(question)
        assert passage in answer
        cited = end["reference"]["chunks"][answer.rpartition("[ID:")[2].partition("]")[0]]
        assert passage in cited["content"]
        assert cited["document_name"] == document
    assert "[ID:" not in play("Which planets have rings?")[0], "the handbook does not say it"
