import pytest

from ragflow_lg.component import node_names
from ragflow_lg.component.node_names import (
    describe_unknown_node,
    find_node,
    has_title,
    list_names,
    near_names,
    suggest_nodes,
    with_node_id,
)
from tests.fakes.canvas import canvas, plan_of, text
from tests.harness.rows import each_row

TITLES = {"a": "Price list", "b": "Twice", "c": "twice", "d": "a", "e": ""}
PLAN = plan_of(
    canvas(
        {id_: text() for id_ in TITLES},
        list(TITLES),
        graph={"nodes": [{"id": id_, "data": {"name": title}} for id_, title in TITLES.items()]},
    )
)


@each_row(
    ("name", "expected"),
    [("a", "a"), ("Price list", "a"), (" price LIST ", "a"), ("Twice", None), ("Price", None), ("", None), ("e", "e")],
)
def test_a_node_is_found_by_its_id_or_its_own_title(name: str, expected: str | None) -> None:
    assert find_node(PLAN, name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("price lst", "Did you mean 'Price list' (a)?"),
        ("begn", "Did you mean begin?"),
        ("Something else", ""),
        ("x" * 100_000, ""),
    ],
)
def test_similar_ids_and_titles_are_suggested(name: str, expected: str) -> None:
    assert suggest_nodes(PLAN, name) == expected


def test_only_so_many_names_are_compared_with_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def compare(name: str, known: list[str], n: int) -> list[str]:
        compared.append(len(known))
        return []

    monkeypatch.setattr(node_names, "get_close_matches", compare)
    near_names("a" * 60, ["ab" * 30] * 50_000)
    near_names("env.tune", [f"env.{number}" for number in range(300)])
    assert compared[0] < 100
    assert compared[1] == 300


def test_a_long_list_of_names_is_cut() -> None:
    assert list_names([]) == "none"
    assert list_names([f"n{number}" * 1000 for number in range(50_000)]).endswith(", …")
    assert len(list_names([f"n{number}" * 1000 for number in range(50_000)])) < 3000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TWICE", "2 nodes have the title 'TWICE': b, c. Name one by its id."),
        ("price lst", "The canvas has no node 'price lst'. Did you mean 'Price list' (a)?"),
        ("Something else", "The canvas has no node 'Something else'."),
        ("", "The canvas has no node ''."),
    ],
)
def test_nodes_that_share_a_title_are_listed(name: str, expected: str) -> None:
    assert describe_unknown_node(PLAN, name) == expected
    assert has_title(PLAN, name) is (name == "TWICE")


@each_row(
    ("reference", "expected"),
    [
        ("Price list@result", "a@result"),
        ("price list@size=me@example", "a@size=me@example"),
        ("a@result", "a@result"),
        ("mail=me@example", "mail=me@example"),
        ("env.x", "env.x"),
    ],
)
def test_a_title_in_a_reference_is_replaced_by_the_id(reference: str, expected: str) -> None:
    assert with_node_id(PLAN, reference) == expected
