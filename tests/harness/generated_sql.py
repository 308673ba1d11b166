"""Random SQL: reads whose answer the driver knows as well, and changes in every disguise.

The strategies are built from lists of texts, so that drawing one statement costs little.
"""

import random
import tomllib
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.conftest import FIXTURES

STATEMENTS: dict[str, Any] = tomllib.loads((FIXTURES / "sql_statements.toml").read_text("utf-8"))
HOSTILE: dict[str, list[str]] = STATEMENTS["hostile"]
CALLS: dict[str, list[str]] = STATEMENTS["calls"]
WRITES: dict[str, list[str]] = {kind: [*STATEMENTS["all_writes"], *own] for kind, own in STATEMENTS["writes"].items()}
SESSION_WRITES: dict[str, list[str]] = STATEMENTS["session_writes"]

_BETWEEN = ("COMMIT", "ROLLBACK", "BEGIN", "END")
_PLAIN_READS = (
    "SELECT id FROM goods",
    "SELECT count(*) FROM goods",
    "SELECT name FROM goods WHERE price > 1",
    "SELECT 1",
)
_GAPS = (" ", "\n", "\t", "  ", " /* a */ ", "/**/", " /* ; */ ", " -- x\n", "\r\n", "\f")


def _mixed_case(text: str, chance: random.Random) -> str:
    return "".join(chance.choice([c.upper(), c.lower()]) if c.isalpha() else c for c in text)


def _spaced(text: str, chance: random.Random) -> str:
    """Replace spaces outside strings."""
    pieces = text.split("'")
    for index in range(0, len(pieces), 2):
        pieces[index] = "".join(
            chance.choice(_GAPS) if c == " " and chance.random() < 0.4 else c for c in pieces[index]
        )
    return "'".join(pieces)


def _disguise(disguise: str, write: str, read: str, between: str, change: int, chance: random.Random) -> str:
    text = disguise.replace("END;", f"{between};", 1).replace("READ", read, 1).replace("WRITE", write)
    if change & 1:
        text = _spaced(text, chance)
    return _mixed_case(text, chance) if change & 2 else text


def changes(kind: str, *, calls: bool = True) -> SearchStrategy[str]:
    """Return statements that would change something; ``calls`` adds those that only the database can see through."""
    texts = [*WRITES[kind], *SESSION_WRITES[kind]]
    disguised = st.builds(
        _disguise,
        st.sampled_from(STATEMENTS["disguises"]),
        st.sampled_from(texts),
        st.sampled_from(_PLAIN_READS),
        st.sampled_from(_BETWEEN),
        st.integers(0, 3),
        st.randoms(use_true_random=False),
    )
    own = (*texts, *CALLS[kind]) if calls else texts
    return disguised | disguised | st.sampled_from(own)


_NAMES = {
    "sqlite": ('"delete"', "[drop]", "`update`", "c", '"a;b"', '"--"'),
    "postgres": ('"delete"', '"UPDATE"', "c", '"a;b"', '"/*"'),
    "mariadb": ("`delete`", "`update`", "c", "`a;b`", "`--`"),
}


def _read(shape: str, value: str, name: str, source: str, condition: str, change: int, chance: random.Random) -> str:
    text = shape.replace("SOURCE", source).replace("NAME", name).replace("VALUE", value)
    text = text.replace("CONDITION", condition)
    return _spaced(text, chance) if change and not set("-/;") & set(name) else text


def reads(kind: str) -> SearchStrategy[str]:
    """Return single queries of the table of goods, which the driver can run as they are."""
    return st.builds(
        _read,
        st.sampled_from(STATEMENTS["shapes"]),
        st.sampled_from(STATEMENTS["values"]),
        st.sampled_from(_NAMES[kind]),
        st.sampled_from(STATEMENTS["sources"]),
        st.sampled_from(STATEMENTS["conditions"]),
        st.integers(0, 1),
        st.randoms(use_true_random=False),
    )
