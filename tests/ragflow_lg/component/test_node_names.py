from ragflow_lg.component.node_names import describe_unknown_node, find_node, has_title, list_names, with_node_id
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


def test_a_long_list_of_names_is_cut() -> None:
    assert list_names([]) == "none"
    assert list_names([f"n{number}" * 1000 for number in range(50_000)]).endswith(", …")
    assert len(list_names([f"n{number}" * 1000 for number in range(50_000)])) < 3000


@each_row(
    ("name", "expected"),
    [
        ("TWICE", "2 nodes have the title 'TWICE': b, c. Name one by its id."),
        ("price lst", "The canvas has no node 'price lst'. Did you mean 'Price list' (a)?"),
        ("Something else", "The canvas has no node 'Something else'."),
        ("begn", "The canvas has no node 'begn'. Did you mean begin?"),
        ("", "The canvas has no node ''."),
    ],
)
def test_an_unknown_or_ambiguous_name_is_described(name: str, expected: str) -> None:
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
