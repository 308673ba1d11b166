from ragflow_lg.dsl.templates.text_uses import find_text_uses
from ragflow_lg.dsl.variable_references import parse_template
from tests.harness.rows import each_row, read_rows


@each_row(("template", "description"), read_rows("text_uses"))
def test_a_use_as_text_is_found(template: str, description: str) -> None:
    found = {(use.reference.text, use.description): use.is_test for use in find_text_uses(parse_template(template))}
    assert found["env.n", description] is (description == "is tested")


@each_row(
    "template",
    [
        "{% for row in {env.n} %}{{ row.name }}{% endfor %}", "{% if {env.n} > 4 %}x{% endif %}",
        '{{ "n=" ~ {env.n} }}', '{% if x == "5" %}{env.n}{% endif %}', '{% if {env.n} == "5" %}x', "{env.n}",
    ],
)  # fmt: skip
def test_other_uses_and_invalid_templates_are_ignored(template: str) -> None:
    assert find_text_uses(parse_template(template)) == []
