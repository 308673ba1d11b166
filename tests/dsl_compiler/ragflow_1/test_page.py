from tests.harness.ragflow_1_table import PAGE, replace_part, rule_lines


def test_the_page_lists_the_rules_as_they_are() -> None:
    text = PAGE.read_text("utf-8")
    assert replace_part(text, "rules", rule_lines()) == text, "run python -m tests.harness.ragflow_1_table"
