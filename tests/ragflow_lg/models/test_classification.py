from ragflow_lg.models.classification import (
    NamedCategory,
    describe_categories,
    format_conversation,
    match_category,
    parse_categories,
)
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import PROMPTS
from tests.harness.rows import each_row


@each_row(
    ("answer", "names", "expected"),
    [
        ("tech", ["billing", "tech"], "tech"),
        ('"Tech".', ["billing", "tech"], "tech"),
        ("I think TECH.", ["billing", "tech", "other"], "tech"),
        ("billing? no: tech, tech!", ["billing", "tech"], "tech"),
        ("tech or billing", ["billing", "tech"], "billing"),
        ("no idea", ["billing", "tech", "other"], None),
        ("", ["billing", "tech"], None),
        ("order", ["order status", "order"], "order"),
        ("order status", ["order", "order status"], "order status"),
        ("It is order status.", ["order", "order status"], "order status"),
        ("Negative review", ["Negative review ", "Positive review"], "Negative review "),
        ("STRASSE", ["x", "straße", "y"], "straße"),
        ("打招呼", ["Other", "打招呼", "Retrieval"], "打招呼"),
        ("Rebilling is not in the list; Delivery", ["Billing", "Delivery"], "Delivery"),
        ("Rebilling", ["Billing", "Delivery"], None),
        ("billings, billing_2 and prebilling", ["Billing", "Delivery"], None),
        ("This is **BILLING**.", ["Billing", "Delivery"], "Billing"),
        ("category_name: 'Billing'", ["Billing", "Delivery"], "Billing"),
        ("这是退款请求", ["退款", "其他"], "退款"),
        ("属于AI类问题", ["AI", "其他"], "AI"),
        ("配送은 아니고 환불입니다", ["배송", "환불"], "환불"),
        ("Я выбираю: Возврат.", ["Возврат", "Невозврат"], "Возврат"),
        ("Невозвратный", ["возврат", "другое"], None),
        ("It is C++ (not C), so C++.", ["C", "C++"], "C++"),
        ("Take a.b*", ["a.b*", "other"], "a.b*"),
        ("Take aXbb", ["a.b*", "other"], None),
        ("(VIP) order", ["order", "(VIP) order"], "(VIP) order"),
        ("Billing? Rather Delivery. Yes, delivery!", ["Billing", "Delivery"], "Delivery"),
        ("e-mail", ["mail", "post"], "mail"),
        ("2nd", ["2", "other"], None),
        ("Class 2.", ["2", "other"], "2"),
        ("_Billing_", ["Billing", "Other"], "Billing"),
        ("It is __Billing__.", ["Billing", "Other"], "Billing"),
        ("**_Order status_**!", ["order", "order status"], "order status"),
        ("~~Other~~ <b>Billing</b>.", ["Billing", "x"], "Billing"),
        ("It is _re_billing", ["billing", "other"], None),
        ("order_status", ["order", "other"], None),
        ("order__status", ["status", "other"], None),
        ("Take my_order_", ["my_order", "order"], "my_order"),
        ("Returns", ["Return", "other"], None),
    ],
)
def test_an_answer_is_matched_to_a_category(answer: str, names: list[str], expected: str | None) -> None:
    assert match_category(answer, names) == expected


def test_categories_can_be_parsed_from_the_prompt() -> None:
    categories = [NamedCategory("Bücher ", "zum Lesen\nund mehr", ("a", "b\u2028c")), NamedCategory("rest")]
    system = fill_prompt(PROMPTS["categorize"].text, {"categories": describe_categories(categories)})
    assert all(text in system for text in ("Bücher ", "rest", "a"))
    assert parse_categories(system) == categories
    assert parse_categories("Something else\n" + system) == []


def test_a_conversation_is_one_line() -> None:
    messages = [{"role": "user", "content": "a\nb\r\nc"}, {"role": "assistant", "content": ""}]
    assert format_conversation(messages) == 'USER: "a b c" | ASSISTANT: ""'
