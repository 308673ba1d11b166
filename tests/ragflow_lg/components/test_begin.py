from typing import Any

from ragflow_lg.components.begin import begin
from tests.fakes.run import bind, run_component
from tests.harness.rows import each_row

FORM = {"inputs": {"n": {"type": "integer"}, "f": {"type": "file"}, "o": {"type": "object"}}}


@each_row(
    ("submitted", "expected"),
    [
        ({"n": {"value": 3}}, {"n": 3}),
        ({"n": 3, "extra": "x"}, {"n": 3, "extra": "x"}),
        ({"o": {"value": '{"a": 1}'}}, {"o": {"a": 1}}),
        ({"o": {"value": "{broken", "type": "object"}}, {"o": "{broken"}),
        ({"f": {"value": [{"name": "a.pdf"}]}}, {"f": ["[parsed a.pdf]"]}),
        ({"f": {"type": "file", "optional": True}}, {"f": None}),
        ({"f": {"value": None}}, {"f": None}),
        ({"x": {"some": "map"}}, {"x": {"some": "map"}}),
    ],
)
async def test_submitted_fields_become_outputs(submitted: dict[str, Any], expected: dict[str, Any]) -> None:
    result = await run_component(begin, FORM, request={"inputs": submitted})
    assert result.outputs == expected
    assert result.inputs == {**dict.fromkeys(FORM["inputs"]), **expected}


def test_a_webhook_without_a_secret_is_reported() -> None:
    security = {"auth_type": "hmac", "hmac": {"secret": ""}}
    (finding,) = begin.lint(bind(begin, {"mode": "webhook", "security": security}))
    assert (finding.path, finding.message) == (("security", "hmac", "secret"), "`security.hmac.secret` is not set.")
    assert not list(begin.lint(bind(begin, {"mode": "conversational", "security": security})))
    assert not list(begin.lint(bind(begin, {"mode": "webhook", "security": {**security, "hmac": {"secret": "s"}}})))
