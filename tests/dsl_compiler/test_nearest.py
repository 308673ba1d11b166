from __future__ import annotations

import random
import time

from ragflow_lg.dsl_compiler.nearest import MAX_CHARS, MAX_LOOKUPS, Nearest


def test_similar_names_are_suggested() -> None:
    near = Nearest(["Switch:A", "Switch:B", "Message:C"])
    assert near.hint("Switch:X", "no") in ("Did you mean Switch:B or Switch:A?", "Did you mean Switch:A or Switch:B?")
    assert near.hint("nothing", "no") == "no"
    assert near.hint("x" * (MAX_CHARS + 1), "no") == "no"


def test_look_ups_of_many_names_are_limited() -> None:
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefgh", k=50)) for _ in range(2000)]
    near = Nearest(names[:1000])
    start_s = time.process_time()
    for name in names[1000:]:
        near.hint(name, "")
    assert time.process_time() - start_s < 5
    assert near.hint(names[0][:-1], "otherwise") == "otherwise", f"only {MAX_LOOKUPS} names are looked up"
