from ragflow_lg.services.tool_policies import ToolPermits
from tests.harness.rows import each_row


@each_row(
    ("allow", "deny", "names", "is_permitted"),
    [
        (None, (), (), True), (None, (), ("Wikipedia",), True), ((), (), ("Wikipedia",), False),
        (("Wikipedia",), (), ("wikipedia",), True), (("wiki*",), (), ("Wikipedia",), True),
        (("Wikipedia",), (), ("Shout", "Yell"), False), (("yell",), (), ("Shout", "Yell"), True),
        (None, ("yell",), ("Shout", "Yell"), False), (("*",), ("mcp:shell/*",), ("mcp:shell/run",), False),
        (("mcp:files/read",), (), ("mcp:files/write",), False), (("*",), (), (), False), (None, ("x",), (), False),
    ],
)  # fmt: skip
def test_deny_takes_precedence_over_allow_and_case_does_not_matter(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], names: tuple[str, ...], is_permitted: bool
) -> None:
    assert ToolPermits(allow, deny).permits(names) is is_permitted


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not ToolPermits(("*a" * 200 + "b",)).permits(["a" * 2000])
