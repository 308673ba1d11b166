"""An HTTP server that executes our Elasticsearch requests over given documents.

It is exact, small and slow. Unknown clauses, parameters and values result in status 400, so that a wrong request fails.
Text is not scored; a query that requires scores is rejected.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tests.fakes import query_strings
from tests.fakes.http_server import HttpServer, Received, Route

Document = Mapping[str, Any]

HEADERS = {"X-Elastic-Product": "Elasticsearch", "Content-Type": "application/vnd.elasticsearch+json;compatible-with=8"}
_BODY = {"query", "knn", "size", "from", "_source", "track_total_hits"}
_QUERY_STRING = {"fields", "type", "query", "minimum_should_match", "boost"}
_KNN = {"field", "query_vector", "k", "num_candidates", "similarity", "filter"}


class RefusedError(Exception):
    """A rejected request: status, type and reason."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        self.status, self.kind, self.reason = status, kind, reason
        super().__init__(reason)


class FakeElasticsearch(HttpServer):
    """The server. ``spoil`` may change an answer or replace it by a route, to simulate a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.indices: dict[str, dict[str, Document]] = {}
        self.mappings: dict[str, Any] = {}
        self.searches: list[tuple[str, dict[str, Any]]] = []
        self.spoil: Callable[[dict[str, Any]], dict[str, Any] | Route] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _route(self, request: Received) -> Route:
        try:
            answer = self._carry_out(request)
            if self.spoil is not None and "/_search" in request.path:
                answer = self.spoil(answer)  # pyright: ignore[reportArgumentType] - a test spoils it into another type
        except RefusedError as error:
            cause = {"type": error.kind, "reason": error.reason}
            body = {"error": {"root_cause": [cause], **cause}, "status": error.status}
            return Route("", status=error.status, headers=HEADERS, body=json.dumps(body))
        return answer if isinstance(answer, Route) else Route("", headers=HEADERS, body=json.dumps(answer))

    def _carry_out(self, request: Received) -> dict[str, Any] | Route:
        path, _, parameters = request.path.partition("?")
        first, _, rest = path.strip("/").partition("/")
        if request.method == "HEAD" and not rest:
            return Route("", status=200 if first in self.indices else 404, headers=HEADERS)
        if first == "_bulk":
            return self._load(request.body)
        if request.method == "PUT" and not rest:
            self.indices[first], self.mappings[first] = {}, json.loads(request.body)
            return {"acknowledged": True}
        if request.method == "DELETE" and not rest:
            self.indices.pop(first, None)
            return {"acknowledged": True}
        if request.method == "POST" and rest == "_search":
            body = json.loads(request.body)
            self.searches.append((path, body))
            return self._search(first.split(","), body, may_lack="ignore_unavailable=true" in parameters)
        raise RefusedError(400, "illegal_argument_exception", f"{request.method} {path} is not known here")

    def _load(self, body: bytes) -> dict[str, Any]:
        lines = [json.loads(line) for line in body.splitlines() if line]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            self.indices[action["index"]["_index"]][action["index"]["_id"]] = document
        created = [{"index": {"_id": action["index"]["_id"], "status": 201}} for action in lines[::2]]
        return {"errors": False, "items": created}

    def _search(self, names: Sequence[str], body: dict[str, Any], *, may_lack: bool) -> dict[str, Any]:
        _known(body, _BODY, "the body")
        documents: dict[str, Document] = {}
        for name in names:
            if name not in self.indices and not may_lack:
                raise RefusedError(404, "index_not_found_exception", f"no such index [{name}]")
            documents |= self.indices.get(name, {})
        scores: dict[str, float] = {}
        if "query" in body:
            scores = {id_: 0.0 for id_, document in documents.items() if _matches(body["query"], id_, document)}
        if "knn" in body:
            for id_, score in self._nearest(names, documents, body["knn"]).items():
                scores[id_] = scores.get(id_, 0.0) + score
        ids = sorted(scores, key=lambda id_: -scores[id_])
        start = body.get("from", 0)
        page = ids[start : start + body.get("size", 10)]
        return {
            "took": 1,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "total": {"value": len(ids), "relation": "eq"},
                "max_score": max(scores.values(), default=None),
                "hits": [_hit(id_, scores[id_], documents[id_], body.get("_source", True)) for id_ in page],
            },
        }

    def _nearest(
        self, names: Sequence[str], documents: Mapping[str, Document], knn: dict[str, Any]
    ) -> dict[str, float]:
        _known(knn, _KNN, "[knn]")
        field, vector, count = knn["field"], knn["query_vector"], knn["k"]
        if not 0 < count <= knn["num_candidates"] <= 10_000:
            raise RefusedError(400, "illegal_argument_exception", "[num_candidates] cannot be less than [k]")
        properties = [self.mappings[name]["mappings"]["properties"] for name in names]
        mapped = next((fields[field] for fields in properties if field in fields), None)
        if mapped is None:
            raise RefusedError(400, "query_shard_exception", f"failed to create query: field [{field}] does not exist")
        if mapped["dims"] != len(vector):
            reason = (
                f"the query vector has a different dimension [{len(vector)}] than the index vectors [{mapped['dims']}]"
            )
            raise RefusedError(400, "illegal_argument_exception", reason)
        scores: dict[str, float] = {}
        given: Any = knn["filter"]
        filters = cast("list[Any]", given) if isinstance(given, list) else [given]
        for id_, document in documents.items():
            if field in document and all(_matches(each, id_, document) for each in filters):
                cosine = _cosine(vector, document[field])
                if cosine >= knn.get("similarity", -1.0):
                    scores[id_] = (1 + cosine) / 2
        return dict(sorted(scores.items(), key=lambda item: -item[1])[:count])


def _known(names_: Mapping[str, Any], names: set[str], what: str) -> None:
    unknown = sorted(set(names_) - names)
    if unknown:
        raise RefusedError(400, "parsing_exception", f"unknown key {unknown} in {what}")


def _matches(query: Mapping[str, Any], id_: str, document: Document) -> bool:
    if len(query) != 1:
        raise RefusedError(400, "parsing_exception", "a query has one clause")
    ((kind, clause),) = query.items()
    match kind:
        case "bool":
            return _bool(clause, id_, document)
        case "terms" | "term" | "match":
            return _terms(kind, clause, id_, document)
        case "range":
            return _range(clause, document)
        case "query_string":
            _known(clause, _QUERY_STRING, "[query_string]")
            fields = [name.partition("^")[0] for name in clause["fields"]]
            try:
                parsed = query_strings.parse(clause["query"])
            except query_strings.QueryStringError as error:
                raise RefusedError(400, "query_shard_exception", f"Failed to parse query: {error}") from None
            return query_strings.matches(parsed, document, fields, int(clause["minimum_should_match"].rstrip("%")))
        case _:
            raise RefusedError(400, "parsing_exception", f"unknown query [{kind}]")


def _bool(clause: Mapping[str, Any], id_: str, document: Document) -> bool:
    _known(clause, {"must", "filter", "must_not", "should", "boost"}, "[bool]")
    if clause.get("must") and clause.get("boost", 1) != 0:
        raise RefusedError(400, "parsing_exception", "text is not scored here")
    needed = [*clause.get("must", []), *clause.get("filter", [])]
    results = [_matches(part, id_, document) for part in needed]  # evaluate all, so that every clause is validated
    refused = [_matches(part, id_, document) for part in clause.get("must_not", [])]
    alternatives = [_matches(part, id_, document) for part in clause.get("should", [])]
    return all(results) and not any(refused) and (any(alternatives) or bool(needed) or not alternatives)


def _terms(kind: str, clause: Mapping[str, Any], id_: str, document: Document) -> bool:
    ((name, condition),) = clause.items()
    if kind != "terms":
        condition = [cast("dict[str, Any]", condition)["value"] if isinstance(condition, dict) else condition]
    expected = cast("list[Any]", condition)
    stored: Any = id_ if name == "_id" else document.get(name)
    values = cast("list[Any]", stored) if isinstance(stored, list) else [stored]
    if kind == "match":
        values = [word for value in values for word in str(value).split()]
        expected = [word for value in expected for word in str(value).split()]
    return any(value in expected for value in values if value is not None)


def _range(clause: Mapping[str, Any], document: Document) -> bool:
    ((name, limits),) = clause.items()
    _known(limits, {"lt", "lte", "gt", "gte"}, "[range]")
    value = document.get(name)
    tests = (
        {"lt": value.__lt__, "lte": value.__le__, "gt": value.__gt__, "gte": value.__ge__} if value is not None else {}
    )
    return value is not None and all(tests[limit](bound) for limit, bound in limits.items())


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in left)) * math.sqrt(sum(x * x for x in right))
    return sum(x * y for x, y in zip(left, right, strict=True)) / lengths


def _hit(id_: str, score: float, document: Document, source: bool | Sequence[str]) -> dict[str, Any]:
    hit: dict[str, Any] = {"_index": "any", "_id": id_, "_score": score}
    if source is True:
        return {**hit, "_source": dict(document)}
    return hit if source is False else {**hit, "_source": {name: document[name] for name in source if name in document}}
