"""LaTeX as the tree of a formula, and the tree in all targets."""

from typing import Any
from xml.etree.ElementTree import tostring

from ragflow_lg.adapters.reports.docx_elements import add_formula
from ragflow_lg.adapters.reports.html_file import mathml_element
from ragflow_lg.adapters.reports.latex_formulas import MAX_CHARS, read_latex
from ragflow_lg.adapters.reports.report_tree import (
    Accent,
    Atom,
    Fence,
    Formula,
    Fraction,
    Grid,
    Root,
    Row,
    Scripts,
    Space,
)
from ragflow_lg.adapters.reports.typst_source import typst_equation
from tests.harness.rows import each_row

A, B, ONE, TWO = Atom("symbol", "a"), Atom("symbol", "b"), Atom("number", "1"), Atom("number", "2")

FORMULAS: list[tuple[str, Formula]] = [
    ("a+1", Row((A, Atom("symbol", "+"), ONE))),
    (r"\sin a", Row((Atom("name", "sin"), A))),
    (r"\text{if a}", Atom("text", "if a")),
    (r"\frac{a}{b}", Fraction(A, B)),
    (r"\binom{a}{b}", Fence("(", Fraction(A, B, False), ")")),
    (r"\sqrt{a}", Root(A)),
    (r"\sqrt[1]{a}", Root(A, ONE)),
    ("a_1^2", Scripts(A, ONE, TWO)),
    ("a_1", Scripts(A, ONE)),
    ("a^2", Scripts(A, None, TWO)),
    (r"\hat{a}", Accent(A, "^")),
    (r"\vec a", Accent(A, "→")),
    (r"\overline{a}", Accent(A, "―")),
    (r"\left(a\right)", Fence("(", A, ")")),
    (r"\left.a\right|", Fence("", A, "|")),
    (r"\begin{pmatrix}a&b\end{pmatrix}", Fence("(", Grid(((A, B),), ("center", "center")), ")")),
    (
        r"\begin{cases}a&1\\b&2\end{cases}",
        Fence("{", Grid(((A, ONE), (B, TWO)), ("left", "left")), ""),
    ),
    (r"a\quad b", Row((A, Space(1.0), B))),
]


@each_row(("latex", "formula"), FORMULAS)
def test_formulas(latex: str, formula: Formula) -> None:
    assert read_latex(latex) == formula


@each_row(
    "latex",
    [
        r"\foo{a}",
        r"\left.1a\right)",
        r"\left(a\right.2",
        "a_",
        "{",
        "",
        r"\begin{matrix}",
        "a" * (MAX_CHARS + 1),
        r"\sqrt{" * 200 + "}" * 200,
    ],
)
def test_what_cannot_be_translated_has_no_tree(latex: str) -> None:
    formula = read_latex(latex)
    assert formula is None or formula == Row(())


ALL = Row(tuple(formula for _, formula in FORMULAS))


def test_every_part_is_written_as_mathml() -> None:
    source = tostring(mathml_element(ALL, is_block=True), encoding="unicode")
    tags = ("mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "mover", "mtable", "mspace", "mtext", "mo", "mn")
    assert [tag for tag in tags if f"<{tag}" not in source] == []


def test_every_part_is_written_as_office_math() -> None:
    import docx

    paragraph: Any = docx.Document().add_paragraph()
    add_formula(paragraph._p, ALL, is_block=False)
    tags = ("f", "rad", "sSub", "sSup", "sSubSup", "acc", "bar", "d", "m", "r")
    assert [tag for tag in tags if not paragraph._p.xpath(f".//m:{tag}")] == []


def test_typst_accepts_every_part() -> None:
    import typst

    limits = Scripts(Atom("symbol", "∑"), A, B, True)
    marks = tuple(Accent(A, mark, is_below) for mark in "^~ˇ˘´`˙¨→‾_⏞⏟" for is_below in (False, True))
    aligned = Grid(((A, B),), ("right", "left"))
    for is_block in (True, False):
        source = "#{" + typst_equation(Row((ALL, limits, aligned, *marks)), is_block=is_block) + "}"
        assert typst.compile(source.encode(), ignore_system_fonts=True).startswith(b"%PDF")


@each_row("text", ['"', "\\", '#panic("x")', "$", "]", '") panic("', "\n"])
def test_text_in_a_formula_is_no_source(text: str) -> None:
    import typst

    for kind in ("symbol", "text", "name", "number"):
        source = "#{" + typst_equation(Fence("(", Row((Atom(kind, text), Accent(A, text[0]))), text[0]), is_block=False)
        assert typst.compile((source + "}").encode(), ignore_system_fonts=True)
