from __future__ import annotations

import time

from ragflow_lg.adapters.chat.demo_quotes import quoted_answer
from ragflow_lg.services.references import knowledge_text

CHUNKS = [
    {
        "chunk_id": "1",
        "docnm_kwd": "leave.md",
        "content_with_weight": "Time > Leave\nTell us. There are 27 days.",
    },
    {"chunk_id": "2", "docnm_kwd": "", "content_with_weight": "年假有十五天。工资月底发。"},
]


def test_the_sentence_that_fits_is_quoted_with_its_number() -> None:
    prompt = f"Answer from this:\n{knowledge_text(CHUNKS)}\n\nGuidelines: how many days are told here."
    assert quoted_answer("How many days?", prompt).endswith("“There are 27 days” (leave.md) [ID:383].")
    assert quoted_answer("年假有多少天？", "", prompt).endswith("“年假有十五天” [ID:216].")


def test_a_question_may_hold_the_knowledge() -> None:
    asked = f"How many days?\n{knowledge_text(CHUNKS)}"
    assert "27 days" in quoted_answer(asked, "", asked)


def test_without_knowledge_there_is_nothing_to_quote() -> None:
    assert quoted_answer("How many days?", "ID: 5", "└── Content:\nx") == ""


def test_odd_prompts_are_read_soon() -> None:
    began = time.process_time()
    quoted_answer("q", "ID: 1\n" + "├── a\n" * 100_000, "ID: 1\n└── Content:\n" * 20_000)
    assert time.process_time() - began < 5
