"""Markdown as a tree."""

from ragflow_lg.adapters.reports.markdown_reader import MAX_DEPTH, clean_text, read_markdown
from ragflow_lg.adapters.reports.report_tree import (
    Block,
    Code,
    CodeBlock,
    Heading,
    Image,
    ItemList,
    LineBreak,
    Link,
    Math,
    Paragraph,
    Quote,
    Rule,
    Styled,
    Table,
    Text,
    inline_parts,
    plain_text,
)
from tests.harness.rows import each_row


def read_one(text: str) -> Block:
    (block,) = read_markdown(text)
    return block


def test_blocks() -> None:
    text = "# A\n\nb\n\n```py x\nc\n```\n\n> d\n\n---\n\n- e\n\n3. f\n"
    kinds = [type(block) for block in read_markdown(text)]
    assert kinds == [Heading, Paragraph, CodeBlock, Quote, Rule, ItemList, ItemList]
    assert read_markdown(text)[2] == CodeBlock("c", "py")


def test_inline_parts() -> None:
    assert read_one("a *b* **c** ~~d~~ `e` [f](https://g.h) ![i](j.png)") == Paragraph(
        (
            Text("a "),
            Styled("emphasis", (Text("b"),)),
            Text(" "),
            Styled("strong", (Text("c"),)),
            Text(" "),
            Styled("strike", (Text("d"),)),
            Text(" "),
            Code("e"),
            Text(" "),
            Link("https://g.h", (Text("f"),)),
            Text(" "),
            Image("j.png", "i"),
        )
    )


def test_html_is_text_except_for_line_breaks() -> None:
    assert read_one("<b>a</b><br>c<BR />d") == Paragraph(
        (Text("<b>a</b>"), LineBreak(), Text("c"), LineBreak(), Text("d"))
    )
    assert read_one("<script>alert(1)</script>") == Paragraph((Text("<script>alert(1)</script>"),))


@each_row("address", ["javascript:x", "file:///etc/passwd", "/api/v1/x", "data:text/html,x", "ftp://a"])
def test_only_web_addresses_are_links(address: str) -> None:
    assert not [part for part in inline_parts(read_markdown(f"[a]({address})")) if isinstance(part, Link)]


def test_a_table_has_alignments_and_as_many_cells_in_each_row() -> None:
    table = read_one("| a | b | c |\n|:--|:-:|--:|\n| 1 | `2\\|3` |\n| 4 | 5 | 6 | 7 |")
    assert isinstance(table, Table)
    assert table.alignments == ("left", "center", "right")
    assert [[plain_text(cell) for cell in row] for row in (table.head, *table.rows)] == [
        ["a", "b", "c"],
        ["1", "2|3", ""],
        ["4", "5", "6"],
    ]


def test_nested_lists_keep_their_numbers_and_boxes() -> None:
    block = read_one("3. a\n   - [ ] b\n   - [x] c\n4. d\n")
    assert isinstance(block, ItemList)
    assert (block.start, block.is_tight, len(block.items)) == (3, True, 2)
    inner = block.items[0].blocks[1]
    assert isinstance(inner, ItemList)
    assert [item.blocks[0] for item in inner.items] == [Paragraph((Text("☐ b"),)), Paragraph((Text("☑ c"),))]


def test_lines_of_a_paragraph_are_joined() -> None:
    assert read_one("a\nb") == Paragraph((Text("a b"),))
    assert read_one("东\n京\na") == Paragraph((Text("东京 a"),))
    assert read_one("a  \nb") == Paragraph((Text("a"), LineBreak(), Text("b")))


@each_row(
    ("text", "latex"),
    [
        ("$x^2$", ["x^2"]),
        ("\\(x\\)", ["x"]),
        ("$$\nx\n$$", ["x"]),
        ("\\[\nx\n\\]", ["x"]),
        ("\\begin{align}a&=b\\end{align}", ["\\begin{align}a&=b\\end{align}"]),
        ("costs $5 and $6", []),
        ("`$x$`", []),
    ],
)
def test_formulas(text: str, latex: list[str]) -> None:
    assert [part.latex for part in inline_parts(read_markdown(text)) if isinstance(part, Math)] == latex


def test_characters_that_no_target_can_contain_are_removed() -> None:
    assert clean_text("a\x00\x1b\ud800\ufffe\r\nb\tc") == "a\nb\tc"


def test_deep_nesting_becomes_flat_and_keeps_its_text() -> None:
    levels = MAX_DEPTH + 20
    text = "".join("  " * level + f"- level{level}\n" for level in range(levels))
    blocks = read_markdown(text)
    shown = "".join(part.text for part in inline_parts(blocks) if isinstance(part, Text))
    assert all(f"level{level}" in shown for level in range(levels))
    depth, current = 0, blocks
    while lists := [block for block in current if isinstance(block, ItemList)]:
        depth, current = depth + 1, lists[0].items[0].blocks
    assert depth == MAX_DEPTH
