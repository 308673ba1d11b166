from hypothesis import strategies as st

PIECES = [
    *"#$<>@_*`~^[](){}|\\\"'/=-+.:;&!\n\t ",
    *("a", "1", "漢", "م", "$$", "```", "#eval(", "\\(", "\\frac", "\ud800", "\x00", "\x0b", "&lt;", "&#0;", "]]>"),
    *(
        "<script>",
        "</w:t>",
        "<!--",
        "![x](data:,)",
        "[a](https://b)",
        "**a**",
        "- ",
        "1. ",
        "> ",
        "| a | b |\n|--|--|\n",
        "=1+1",
    ),
]
HOSTILE_TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=40)
