import json
import time
from typing import Any

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.deployment import CanvasLimits, NoDeployment
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.harness.rows import each_row


class Limited(NoDeployment):
    """A deployment with the default limits."""

    limits = CanvasLimits()


def with_param(value: Any) -> dict[str, Any]:
    return node("StringTransform", {"method": "merge", "script": "x", "extra": value})


def problems(components: dict[str, Any], **more: Any) -> list[str]:
    document = json.dumps({**canvas(components), **more})
    return [f"{d.code}: {d.message}" for d in check_canvas(document, CATALOG, Limited())[1] if d.severity == "error"]


@each_row(
    ("components", "message"),
    [
        ({f"n{i}": text() for i in range(2_001)}, "2,002 components; the limit is 2,000."),
        ({"n": text(script="x" * 2_200_000)}, "2,200,005 characters in the texts of its parameters; the limit"),
        ({"n": text(script="{sys.query}" * 60_000)}, "60,000 references and braces in its parameters; the limit"),
        ({"n": with_param([0] * 10_001)}, "10,001 entries in one list of its parameters; the limit is"),
        ({"n": with_param([[0] * 9_000] * 20)}, "entries in its parameters; the limit is 100,000."),
    ],
)
def test_a_canvas_that_exceeds_a_limit_is_refused_quickly(components: dict[str, Any], message: str) -> None:
    begin = time.process_time()
    (problem,) = problems(components)

    assert problem.startswith("document-too-large: The canvas has ")
    assert message in problem
    assert time.process_time() - begin < 5


def test_the_length_of_the_document_is_limited() -> None:
    (problem,) = problems({"n": text()}, notes="x" * 4 * 1024 * 1024)

    assert "the limit canvas_bytes is 4,194,304." in problem


def test_a_canvas_within_the_limits_is_accepted() -> None:
    assert problems({f"n{i}": text() for i in range(1_000)}) == []
