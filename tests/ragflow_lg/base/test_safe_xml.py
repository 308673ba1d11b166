import pytest

from ragflow_lg.base.foreign_markup import MAX_XML_CHARS, parse_xml
from tests.harness.rows import each_row

BOMB = (
    "<!DOCTYPE a ["
    + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x"}">' for n in range(9))
    + "]><a>&e8;</a>"
)


def test_the_root_is_returned() -> None:
    assert (
        parse_xml('<!DOCTYPE a PUBLIC "-//X//EN" "http://127.0.0.1:9/x.dtd"><a><b>t</b></a>', "a").findtext("b") == "t"
    )


@each_row(
    ("text", "says"),
    [
        ("", "invalid XML"),
        ("<a>", "invalid XML"),
        ("<b/>", "unexpected XML document"),
        (BOMB, "(invalid|unexpected) XML"),
        ('<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>', "unexpected XML document"),
        ("<a>" * 5000 + "</a>" * 5000, "invalid XML"),
        ("x" * (MAX_XML_CHARS + 1), "the limit is"),
    ],
)
def test_other_texts_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_xml(text, "a")
