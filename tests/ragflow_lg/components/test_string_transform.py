from typing import Any

from ragflow_lg.base.values import MAX_ITEMS
from ragflow_lg.components.string_transform import string_transform
from tests.fakes.run import bind, run_component
from tests.harness.rows import each_row


async def split(value: Any, **params: Any) -> Any:
    params = {"method": "split", "split_ref": "env.v", **params}
    result = await run_component(string_transform, params, globals={"env.v": value})
    return result.error or result.outputs["result"]


async def merge(script: str, value: Any, **params: Any) -> Any:
    params = {"method": "merge", "script": script, **params}
    result = await run_component(string_transform, params, outputs={"n": {"v": value}})
    return result.error or result.outputs["result"]


@each_row(
    ("value", "delimiters", "expected"),
    [
        ("a,b;c,,d", [",", ";"], ["a", "b", "c", "", "d"]), ("", [","], [""]), (None, [","], [""]), ([], [","], [""]),
        (0, [","], [""]), (False, [","], [""]), ({}, [","], [""]), ("a.*b|c", [".*", "|"], ["a", "b", "c"]),
        ("a b", " ", ["a", "b"]), ("abc", [""], ["abc"]),
    ],
)  # fmt: skip
async def test_split_cuts_at_every_delimiter(value: Any, delimiters: Any, expected: list[str]) -> None:
    assert await split(value, delimiters=delimiters) == expected


async def test_only_text_of_limited_pieces_is_split() -> None:
    for value in (5, ["a"], {"a": 1}, True):
        assert "must be a string" in await split(value)
    assert await split("x", split_ref="") == [""]
    assert "entries" in await split("," * (MAX_ITEMS + 9))


@each_row(
    ("script", "value", "expected"),
    [
        ("<{n@v}>", "x", "<x>"),
        ("a {n@v} b", None, "a  b"),
        ("{n@v}", ["a", 1, None, {"b": True}], 'a,1,,{"b": true}'),
        ("{n@v}", [], ""),
        ("{n@v}", {"a": [1.0, "ü"]}, '{"a": [1.0, "ü"]}'),
        ("{n@v}{n@v}", "{n@v}", "{n@v}{n@v}"),
        ("{% for p in {n@v}.split(',') %}[{{ p }}]{% endfor %}", ["a", "b"], "[a][b]"),
        ("{n@v} {% if %}", "x", "x {% if %}"),
        ("", "x", ""),
    ],
)
async def test_merge_renders_the_script(script: str, value: Any, expected: str) -> None:
    assert await merge(script, value) == expected


async def test_lists_are_joined_by_the_first_delimiter() -> None:
    assert await merge("{n@v}", ["a", "b"], delimiters=[" & ", ","]) == "a & b"
    assert await merge("{n@v}", ["a", "b"], delimiters=[""]) == '["a", "b"]'


def test_lint_reports_invalid_templates_and_missing_references() -> None:
    broken = bind(string_transform, {"method": "merge", "script": "{% if %}"})
    assert [(f.code, f.path) for f in string_transform.lint(broken)] == [("template-invalid", ("script",))]
    blank = bind(string_transform, {})
    assert [(f.code, f.path) for f in string_transform.lint(blank)] == [("params-invalid", ("split_ref",))]
    assert not list(string_transform.lint(bind(string_transform, {"method": "merge", "script": "{{ 1 }}"})))
