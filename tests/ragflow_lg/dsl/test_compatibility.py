from ragflow_lg.base.diagnostics import CODES
from ragflow_lg.dsl.compatibility import ALL, BEHAVIOURS, OPTIONS, Compatibility


def test_a_single_name_takes_precedence_over_all() -> None:
    assert Compatibility().names == ()
    chosen = Compatibility().override({"unchecked_forms": False, ALL: True})
    assert chosen.names == tuple(name for name in BEHAVIOURS if name != "unchecked_forms")
    assert chosen.override({ALL: False}).names == ()
    assert chosen.override({"unchecked_forms": True}).names == BEHAVIOURS


def test_the_version_for_clients_is_no_behaviour() -> None:
    chosen = Compatibility().override({"ragflow": "1.0"})
    assert (chosen.ragflow, chosen.names) == ("1.0", ())
    assert chosen.override({ALL: True}).ragflow == "1.0"


def test_every_behaviour_but_one_has_a_diagnostic() -> None:
    assert sorted(["old_values", *OPTIONS.values()]) == sorted(BEHAVIOURS)
    assert OPTIONS.keys() == {code for code in CODES if code.startswith("differs-")}
