"""Sample chunks of two tenants in the format of RAGFlow's index, which exercise every filter."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer
from ragflow_lg.services.knowledge import Dataset
from tests.fakes.knowledge_models import WordEmbedder

GUIDE = Dataset("kb-guide", "guide", "words", "t1")
LETTERS = Dataset("kb-letters", "letters", "words", "t1")
OTHER = Dataset("kb-other", "other", "words", "t2")
_TOKENIZER = Tokenizer()
_EMBEDDER = WordEmbedder()

_CHINESE = "洗衣房 在 地下室 自行车 房 在 北 楼梯 后面"
"""Tokens as a dictionary would split them."""

_TEXTS: Sequence[tuple[str, str, str, str, str]] = (
    ("c1", "t1", "kb-guide", "bikes.md", "The bicycle room is behind the north stairs and opens with the house key"),
    ("c2", "t1", "kb-guide", "bikes.md", "Bicycles without a label are removed every spring"),
    ("c3", "t1", "kb-guide", "laundry.md", "The laundry room has four machines; a wash costs two tokens"),
    ("c4", "t1", "kb-guide", "heating.md", "Heating runs from October to April and is set to twenty degrees"),
    ("c5", "t1", "kb-guide", "zh.md", "洗衣房在地下室，自行车房在北楼梯后面"),
    ("c6", "t1", "kb-letters", "letter.md", "Dear tenants, the bicycle room will be painted in May"),
    ("c7", "t2", "kb-other", "remote.md", "The other house has a bicycle room too, beside the laundry"),
    ("c8", "t1", "kb-letters", "rules.md", "Quiet hours begin at ten in the evening"),
    ("c9", "t1", "kb-letters", "rules.md", "Quiet hours end at seven in the morning"),
    ("rules", "t1", "kb-letters", "rules.md", "All rules of the house: quiet hours, keys, waste and guests"),
    ("off", "t1", "kb-guide", "old.md", "The bicycle room was closed, this chunk is switched off"),
)


def chunk(
    id_: str, dataset: str, document: str, text: str, *, tokenizer: Tokenizer = _TOKENIZER, **fields: Any
) -> dict[str, Any]:
    """Return a chunk with its tokens and its vector."""
    tokens = " ".join(tokenizer.tokenize(text))
    return {
        "id": id_,
        "kb_id": dataset,
        "doc_id": f"doc-{document}",
        "docnm_kwd": document,
        "title_tks": " ".join(tokenizer.tokenize(document.partition(".")[0])),
        "content_with_weight": text,
        "content_ltks": tokens,
        "content_sm_ltks": tokens,
        f"q_{_EMBEDDER.length}_vec": _EMBEDDER.vector(tokens),
        "position_int": [[1, 10, 20, 30, 40]],
        **fields,
    }


def chunks_of_tenant(tenant: str) -> list[dict[str, Any]]:
    """Return the chunks of a tenant's index."""
    extras: Mapping[str, Mapping[str, Any]] = {
        "off": {"available_int": 0},
        "c8": {"mom_id": "rules", "important_kwd": ["evening"]},
        "c9": {"mom_id": "rules"},
        "rules": {"available_int": 0},
        "c4": {"available_int": 1, "important_kwd": ["warm"], "important_tks": "warm"},
        "c5": {"content_ltks": _CHINESE, "content_sm_ltks": _CHINESE},
        "c7": {"pagerank_fea": 0.5},
    }
    return [
        chunk(id_, dataset, document, text, **extras.get(id_, {}))
        for id_, owner, dataset, document, text in _TEXTS
        if owner == tenant
    ]


def metadata_of_tenant() -> list[dict[str, Any]]:
    """Return the metadata of the documents of tenant t1."""
    return [
        {"id": "doc-bikes.md", "kb_id": "kb-guide", "meta_fields": {"floor": 0, "topics": ["bikes", "keys"]}},
        {"id": "doc-laundry.md", "kb_id": "kb-guide", "meta_fields": {"floor": -1, "topics": ["laundry"]}},
        {"id": "doc-letter.md", "kb_id": "kb-letters", "meta_fields": {"floor": 0}},
    ]
