"""The examples that need nothing: the demo model answers."""

from pathlib import Path

import pytest

from tests.server.cli.command import ROOT, frames, invoke

CANVAS = ROOT / "examples" / "handbook_agent.json"


@pytest.mark.parametrize(
    ("question", "passage", "document"),
    [
        ("How many days of vacation do I have?", "27 days of paid vacation", "time_off.md"),
        ("What do I do when I lose my laptop?", "lost laptop within one hour", "it/accounts.md"),
        ("年假有多少天？", "十五天带薪年假", "zh_handbook.md"),
    ],
    ids=["vacation", "laptop", "chinese"],
)
def test_the_right_passage_is_cited(tmp_path: Path, question: str, passage: str, document: str) -> None:
    settings = {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}
    assert invoke("kb", "add", ROOT / "examples" / "handbook", environment=settings).exit_code == 0
    played = invoke("run", CANVAS, question, "--model", "demo", "--events", "json", environment=settings)
    (end,) = [frame["data"] for frame in frames(played) if frame["event"] == "message_end"]
    answer = next(f["data"]["outputs"]["content"] for f in frames(played) if f["event"] == "workflow_finished")
    assert passage in answer
    number = answer.rpartition("[ID:")[2].partition("]")[0]
    cited = end["reference"]["chunks"][number]
    assert passage in cited["content"]
    assert cited["document_name"] == document


def test_a_question_that_the_handbook_does_not_answer(tmp_path: Path) -> None:
    settings = {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}
    invoke("kb", "add", ROOT / "examples" / "handbook", environment=settings)
    played = invoke("run", CANVAS, "Which planets have rings?", "-m", "demo", "--events", "json", environment=settings)
    assert played.exit_code == 0
    assert "[ID:" not in next(
        f["data"]["outputs"]["content"] for f in frames(played) if f["event"] == "workflow_finished"
    )
