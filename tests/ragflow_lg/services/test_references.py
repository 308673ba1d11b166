from ragflow_lg.services.references import (
    MAX_CITED_CHARS,
    MAX_DOCUMENTS,
    Chunk,
    add_chunks,
    build_chunks,
    citation_number,
    hash_text,
    knowledge_text,
    merge_references,
)

ROWS = [
    ("Laos", "http://example.org/laos", "Vientiane is the capital.", 0.9),
    ("Empty", "http://example.org/e", "", 0.5),
    ("River\n\ntown", "http://example.org/r", "On the Mekong ![image](data:image/png;base64,AAAA) river.", 0.4),
]


def test_empty_results_and_inline_images_are_dropped() -> None:
    chunks = build_chunks(ROWS)
    assert [(c["chunk_id"], c["content"]) for c in chunks] == [
        ("1779359", "Vientiane is the capital."),
        ("72518472", "On the Mekong  river."),
    ]
    assert build_chunks([("", "", "x" * 20_000, 1)])[0]["content"] == "x" * 10_000


def test_of_two_chunks_with_one_number_the_first_stays() -> None:
    one, other = {"id": "1", "content": "first", "document_name": "D"}, {"id": "1", "content": "second"}
    references = add_chunks({}, [one])
    references = add_chunks(references, [other])
    assert [chunk["content"] for chunk in references["chunks"].values()] == ["first"]
    assert references["doc_aggs"]["D"] == {"doc_name": "D", "doc_id": None, "count": 1, "url": None}
    assert merge_references(references, {}) == references


def test_a_document_keeps_its_larger_count() -> None:
    few = add_chunks({}, [{"chunk_id": "a"}], [{"doc_name": "D", "doc_id": "d", "count": 2}])
    many = add_chunks(few, [{"chunk_id": "b"}], [{"doc_name": "D", "doc_id": "other", "count": 5}])
    assert many["doc_aggs"] == {"D": {"doc_name": "D", "doc_id": "d", "count": 5}}
    assert merge_references(many, few) == merge_references(few, many) == merge_references(many, many) == many


def test_references_are_bounded() -> None:
    rows = [{"chunk_id": str(n), "content": "x" * 100_000} for n in range(600)]
    documents = [{"doc_name": str(n), "doc_id": str(n), "count": 1} for n in range(5000)]
    references = add_chunks({}, rows, documents)
    assert len(references["chunks"]) <= 500
    assert max(len(chunk["content"]) for chunk in references["chunks"].values()) == MAX_CITED_CHARS + 2
    assert list(references["doc_aggs"]) == [str(n) for n in range(MAX_DOCUMENTS)]


def test_ids_and_numbers_are_those_of_ragflow() -> None:
    assert [hash_text("hello"), hash_text("你好")] == ["45743181", "13397538"]
    assert [citation_number("45743181"), citation_number("13397538")] == [386, 332]


def test_chunks_are_rendered_as_in_ragflow() -> None:
    chunk: Chunk = {"chunk_id": "45743181", "content": "hello", "docnm_kwd": "T", "url": "U"}
    assert knowledge_text([chunk]) == "\nID: 386\n├── Title: T\n├── URL: U\n└── Content:\nhello"
    odd: Chunk = {**chunk, "docnm_kwd": "a\n\nb", "url": None, "document_metadata": {"y": 0, "z": ""}}
    assert knowledge_text([odd]) == "\nID: 386\n├── Title: a b\n├── y: 0\n└── Content:\nhello"
    assert knowledge_text([{**chunk, "content": "abcd" * 100}] * 3, 200).count("ID:") == 2
