import time

from ragflow_lg.dsl.variable_references import (
    Reference,
    ReferenceScope,
    parse_argument,
    parse_reference,
    parse_template,
)
from tests.harness.rows import each_row


def pieces(text: str, scope: ReferenceScope | None = None) -> list[str]:
    """References in angle brackets."""
    segments = parse_template(text, scope).segments
    return [f"<{s.text}>" if isinstance(s, Reference) else s for s in segments]


@each_row(
    ("text", "expected"),
    [
        ("a {sys.query} b", ["a ", "<sys.query>", " b"]),
        ("{{sys.query}}", ["<sys.query>"]),
        ("{{{ sys.query }}}", ["<sys.query>"]),
        ("{ {sys.query} }", ["<sys.query>"]),
        ('{"a": {sys.query}}', ['{"a": ', "<sys.query>", "}"]),
        ("{{sys.query}", ["{", "<sys.query>"]),
        ("{A:B@x.y.0}{env.z}", ["<A:B@x.y.0>", "<env.z>"]),
        ("{item} {other} {a@}", ["<item>", " {other} {a@}"]),
        ("", []),
    ],
)
def test_references_are_found_in_text(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_parts_of_a_reference() -> None:
    reference = parse_reference(" {{A:B@root.a.0}} ")
    assert reference is not None
    assert (reference.node, reference.key, reference.path) == ("A:B", "root", ("a", "0"))
    keys = [reference.key for text in ("SYS.Query", "env.Query") if (reference := parse_reference(text))]
    assert keys == ["sys.query", "env.Query"]
    for text in ("", "plain", "item", "{a@b} {c@d}", "a b@c"):
        assert parse_reference(text) is None


def test_a_scope_decides_what_only_looks_like_a_reference() -> None:
    scope = ReferenceScope(frozenset({"my-node"}))
    assert pieces("{my-node@x} {no-node@x} {item} {me@mail}", scope) == [
        "<my-node@x>",
        " {no-node@x} {item} ",
        "<me@mail>",
    ]
    assert pieces("{item}", ReferenceScope(frozenset(), has_aliases=True)) == ["<item>"]


def test_a_sole_reference_ignores_blanks() -> None:
    assert parse_template(" {a@b} ").sole_reference == parse_reference("a@b")
    for text in ("{a@b}{a@b}", "x{a@b}", "x"):
        assert parse_template(text).sole_reference is None


@each_row("part", ["{", "{ ", "{a", "{a@b", "}"])
def test_hostile_texts_take_linear_time(part: str) -> None:
    began = time.process_time()
    parse_template(part * 50_000)
    assert time.process_time() - began < 4


@each_row(
    ("text", "expected"),
    [
        ("sys.query", "sys.query"), (" a:0@x.y ", "a:0@x.y"), ("{a:0@x}", "a:0@x"), ("b@x", None), ("item", None),
        ("sys.query!", None), ("sys.query}", None),
    ],
)  # fmt: skip
def test_a_bare_reference_as_an_argument(text: str, expected: str | None) -> None:
    template = parse_argument(text, ReferenceScope(frozenset({"a:0"})))
    assert (template.sole_reference and template.sole_reference.text) == expected
    assert str(template) == text
