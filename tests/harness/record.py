"""The result of a turn as a record of the fields that are compared.

A record is a map with some of these fields:

- ``answer``, ``thinking``: the text outside and inside thinking sections.
- ``end``: type of the last event. ``pause``: ``{"inputs": [names], "tips": text}`` if the turn waits.
- ``error``: whether an error stopped the turn.
- ``nodes``: ``+id`` for each ``node_started``, ``-id`` for each ``node_finished``, ``!id`` for one with an error.
- ``inputs``: those of the run's events, and of each end of each node.
- ``messages``: text and ``message_end`` data of each Message; ``pieces``: the text of each ``message``.
- ``outputs``: those of the components that ran; ``history``; ``globals``.
- ``llm_calls``, ``http_calls``, ``tool_calls``, ``searches``, ``sandbox_calls``: the requests to services.
- ``references``: the passages that the turn's answers may cite.
- ``trace``: the calls of agents, as RAGFlow stores them for its page, without times.

Error texts differ between implementations, so ``<error>`` replaces them everywhere.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.services.knowledge import DatasetSearch
from ragflow_lg.services.memories import MemorySearch
from tests.fakes.prompts import GUIDELINES, head_of, read_prompt
from tests.harness.play import TurnResult

Record = dict[str, Any]

_HIDDEN_OUTPUTS = frozenset({"next", "_created_time", "_elapsed_time"})
_SHORTEST_ERROR = 3
_ARTIFACT_ID = re.compile(r"(?<=/artifact/)[0-9a-f]{32}")
_PLAIN_FIELDS = (
    *("answer", "thinking", "nodes", "messages", "history", "globals", "pause", "references", "searches"),
    "sandbox_calls",
)
"""The fields that a case states as they are in a record. A recording has events instead of some of them."""


def record_expectation(expect: Mapping[str, Any], components: Mapping[str, Any]) -> Record:
    """Return the record of a turn's expected result, without the fields that the case does not state."""
    frames: Sequence[Mapping[str, Any]] = expect.get("events", ())
    record: Record = _record_frames(frames) if frames else {}
    record |= {key: expect[key] for key in _PLAIN_FIELDS if key in expect}
    record["thinking"] = expect.get("thinking", "")
    record["error"] = bool(expect.get("canvas_error")) or bool(frames and frames[-1]["event"] == "exception")
    if "last_event" in expect:
        record["end"] = expect["last_event"]
    if "final_outputs" in expect:
        # A recording lists every component; the events tell which ones ran.
        ran = {node[1:] for node in record.get("nodes", ()) if node[0] in "-!"} if frames else expect["final_outputs"]
        # While a region waits, the outputs of its body are not part of the state around it.
        is_waiting = bool(frames) and frames[-1]["event"] == "user_inputs"
        inside = _nodes_in_open_regions(record["nodes"], components) if is_waiting else set[str]()
        record["outputs"] = {id_: expect["final_outputs"][id_] for id_ in ran if id_ not in inside}
    if "llm_calls" in expect:
        record["llm_calls"] = [_normalize_llm_call(call) for call in expect["llm_calls"]]
    if "http_calls" in expect:
        record["http_calls"] = [_http_call(**call) for call in expect["http_calls"]]
    if "tool_calls" in expect:
        record["tool_calls"] = [[call["tool"], _search_argument(call["arguments"])] for call in expect["tool_calls"]]
    if "retrieval" in expect:
        record["references"] = expect["retrieval"][-1]
    if "retrieval_calls" in expect:
        record["searches"] = [{**call, "doc_ids": call["doc_ids"] or None} for call in expect["retrieval_calls"]]
    if "memory_calls" in expect:
        record["memory_calls"] = expect["memory_calls"]
    if "tool_calls" in expect or "trace" in expect:
        record["trace"] = [_normalize_trace(block) for block in expect.get("trace", [])]
    errors = [frame.get("error") or "" for frame in frames] + [str(expect.get("canvas_error") or "")]
    return _normalize(record, errors)


def _nodes_in_open_regions(nodes: Sequence[str], components: Mapping[str, Any]) -> set[str]:
    """Return the nodes inside regions whose end is not the last event of the region in this turn."""
    last_marks = {node[1:]: node[0] for node in nodes}
    inside = set[str]()
    for id_, component in components.items():
        while owner := component.get("parent_id"):
            if last_marks.get(owner) not in ("-", "!"):
                inside.add(id_)
            component = components[owner]
    return inside


def record_result(result: TurnResult) -> Record:
    """Return the record of a turn's actual result."""
    record = _record_frames(result.frames)
    record |= {"error": result.error is not None, "history": result.state.get("history", [])}
    if (
        result.error is not None
        and result.plan.compatibility.old_values
        and not any(node[0] == "!" for node in record["nodes"])
    ):
        record["end"] = "exception"  # the error belongs to no node, and leaves the run
    ran = {node[1:] for node in record["nodes"] if node[0] in "-!"}
    outputs = {id_: value for id_, value in result.state.get("outputs", {}).items() if id_ in ran}
    record |= {"outputs": outputs, "globals": result.state.get("globals", {})}
    record["llm_calls"] = [_llm_call(is_streaming, request) for is_streaming, request in result.model.requests]
    record["http_calls"] = [
        _http_call(call.method, call.path, dict(call.headers), call.body.decode("utf-8", "replace"))
        for call in result.received
    ]
    record["tool_calls"] = [[function, _search_argument(arguments)] for function, arguments in result.tool_calls]
    record["references"] = result.state.get("turn", {}).get("references", {"chunks": {}, "doc_aggs": {}})
    record["searches"] = [_search(search) for search in result.searches]
    record["memory_calls"] = [_memory_search(search) for search in result.memory_searches]
    record["trace"] = [_normalize_trace(block) for block in result.trace]
    record["sandbox_calls"] = result.sandbox_calls
    return _normalize(record, [frame.get("error") or "" for frame in result.frames] + [result.error or ""])


def _memory_search(search: MemorySearch) -> Record:
    """Return a search as a call of RAGFlow's memories. RAGFlow restricts it to a user only if the canvas names one."""
    params = {
        "query": search.question,
        "similarity_threshold": search.similarity_threshold,
        "keywords_similarity_weight": search.keywords_similarity_weight,
        "top_n": search.top_n,
    }
    return {"filter": {"memory_id": list(search.memories)}, "params": params}


def _search(search: DatasetSearch) -> Record:
    """Return a search as a call of RAGFlow's retriever. An id that does not exist stands for no documents."""
    documents = search.document_ids
    return {
        "question": search.question,
        "kb_ids": sorted(dataset.id for dataset in search.datasets),
        "page": 1,
        "page_size": search.top_n,
        "similarity_threshold": search.similarity_threshold,
        "vector_similarity_weight": round(1 - search.keywords_similarity_weight, 9),
        "top": search.top_k,
        "doc_ids": None if documents is None else sorted(documents) or ["-999"],
        "rerank": bool(search.rerank_id),
    }


def _search_argument(arguments: Mapping[str, Any]) -> Any:
    """Return the required argument of a tool call."""
    return next((arguments[name] for name in ("query", "q", "urls") if name in arguments), None)


def _normalize_trace(block: Mapping[str, Any]) -> Record:
    """Omit times and titles, which RAGFlow does not store, and sort the calls of a round, which have no fixed order."""
    omitted = ("elapsed_time", "title")
    entries = [{key: value for key, value in entry.items() if key not in omitted} for entry in block["trace"]]
    return {**block, "trace": sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))}


def _record_frames(frames: Iterable[Mapping[str, Any]]) -> Record:
    nodes: list[str] = []
    inputs: dict[str, list[Any]] = {}
    messages: list[list[Any]] = []
    pieces: list[str] = []
    texts = {False: "", True: ""}
    is_thinking, text = False, ""
    last: Mapping[str, Any] = {"event": ""}
    for last in frames:
        if "inputs" in last and last["event"] not in ("node_started", "user_inputs"):
            inputs.setdefault(last.get("component_id") or last["event"], []).append(last["inputs"])
        match last["event"]:
            case "node_started":
                nodes.append("+" + last["component_id"])
            case "node_finished":
                nodes.append(("!" if last.get("error") else "-") + last["component_id"])
            case "message":
                is_thinking = (is_thinking or "start_to_think" in last) and "end_to_think" not in last
                piece = last["content"] or ""
                texts[is_thinking] += piece
                text += piece
                pieces += [piece] if piece else []
            case "message_end":
                messages.append([text, {key: value for key, value in last.items() if key != "event"}])
                is_thinking, text = False, ""
            case _:
                pass
    record: Record = {"answer": texts[False], "thinking": texts[True], "end": last["event"], "nodes": nodes}
    record |= {"inputs": inputs} if inputs else {}
    record |= {"messages": [*messages, [text, None]] if text else messages, "pieces": pieces}
    if last["event"] == "user_inputs":
        record["pause"] = {"inputs": sorted(last["inputs"]), "tips": last["tips"]}
    return record


def _llm_call(is_streaming: bool, request: Any) -> Record:
    """Return one of our model requests in the form of the recordings, with markers instead of our prompts."""
    system, messages = request.system, [dict(message) for message in request.messages]
    if read_prompt("categorize", system):
        system = "<categorize-instructions>"
        values = read_prompt("categorize_message", messages[0]["content"]) or {}
        messages[0]["content"] = f"<categorize-data> {values['conversation']}"
    elif read_prompt("translation", system) is not None:
        system = "<cross-language-instructions>"
        messages[0]["content"] = "<cross-language-data>\n" + messages[0]["content"]
    elif values := read_prompt("metadata_filter", system):
        fixed = "" if values["fixed_operators"] == "none" else values["fixed_operators"]
        system = f"<meta-filter-instructions>\n{values['fields']}\n{values['question']}{fixed}"
        messages[0]["content"] = "Generate filters:"
    elif values := read_prompt("add_citations", system):
        system = f"<citation-rewrite-instructions>\n{values['passages']}"
    elif values := read_prompt("standalone_question", system):
        system = f"<full-question-instructions>\n{values['conversation']}"
    else:
        schema = rf"\n*{re.escape(head_of('structured_output'))}.*"
        system = re.sub(schema, "\n<structured-output-instructions>", system, flags=re.DOTALL)
        system = re.sub(r"(\n\n)?" + re.escape(GUIDELINES), "<citation-guidelines>", system)
        system = system.replace(head_of("react"), "<react-instructions>\n")
    if values := read_prompt("final_answer", messages[-1].get("content") or ""):
        messages[-1]["content"] = values["reason"].removesuffix(".")
    call: Record = {"stream": is_streaming, "system": system.strip(), "messages": [_message(m) for m in messages]}
    call["gen_conf"] = _sent_sampling(request.sampling)
    if request.tools:
        call["gen_conf"]["tool_choice"] = "auto"
        call["tools"] = [tool.name for tool in request.tools]
    return call


def _normalize_llm_call(call: Mapping[str, Any]) -> Record:
    system = re.sub(r"\n+<", "\n<", call["system"].strip())
    if "gen_conf" in call:
        call = {**call, "gen_conf": _sent_sampling(call["gen_conf"])}
    return {**call, "system": system, "messages": [_message(message) for message in call["messages"]]}


def _sent_sampling(sampling: Mapping[str, Any]) -> Record:
    """Return what is sent: RAGFlow's clients and ours remove ``max_tokens``, below the place of some recordings."""
    return {name: value for name, value in sampling.items() if name != "max_tokens"}


def _message(message: Mapping[str, Any]) -> Record:
    """Return a message in OpenAI's form, with tool calls without an index."""
    if not message.get("tool_calls"):
        return dict(message)
    calls = [
        call
        if "function" in call
        else {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}, "type": "function"}
        for call in message["tool_calls"]
    ]
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{key: value for key, value in call.items() if key != "index"} for call in calls],
    }


def _http_call(method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None) -> Record:
    """Return a comparable HTTP request, with lower-case header names and the value of a JSON body."""
    sent = {name.lower(): value for name, value in (headers or {}).items() if name.lower() not in _OWN_HEADERS}
    try:
        value = json.loads(body or "null")
    except ValueError:
        value = body
    return {"method": method, "path": path, "headers": sent, "body": value}


_OWN_HEADERS = frozenset({"host", "user-agent", "accept", "accept-encoding", "connection", "content-length"})
"""Headers of the HTTP client, which the recordings omit."""


def _normalize(record: Record, errors: Iterable[str]) -> Record:
    """Remove what is not compared: error texts, display names of successors, the date, unread streams."""
    texts = sorted({text for text in errors if len(text) >= _SHORTEST_ERROR}, key=len, reverse=True)
    result: Record = _replace_texts(record, texts)
    if "globals" in result:
        result["globals"] = {key: value for key, value in result["globals"].items() if key != "sys.date"}
        if "history" in result:
            result["globals"]["sys.history"] = _lines(result["globals"].get("sys.history", ()), result["history"])
    if "outputs" in result:
        result["outputs"] = {id_: _outputs(outputs) for id_, outputs in result["outputs"].items()}
    if "history" in result:
        result["history"] = [
            [role, _outputs(what) if isinstance(what, dict) else what] for role, what in result["history"]
        ]
    return result


def _outputs(outputs: Any) -> Record:
    values = cast("Record", outputs or {})
    comparable = {key: value for key, value in values.items() if key not in _HIDDEN_OUTPUTS and value != "<stream>"}
    error = {"_ERROR": "<error>"} if comparable.pop("_ERROR", None) else {}
    return comparable | error


def _replace_texts(value: Any, texts: Sequence[str]) -> Any:
    """Replace the texts of errors, and the random ids of artifacts."""
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, "<error>")
        return _ARTIFACT_ID.sub("<hex>", value) if "/artifact/" in value else value
    if isinstance(value, Mapping):
        return {key: _replace_texts(part, texts) for key, part in cast("Record", value).items()}
    if isinstance(value, list | tuple):
        return [_replace_texts(part, texts) for part in cast("list[Any]", value)]
    return value


def _lines(lines: Sequence[str], history: Sequence[Any]) -> list[str]:
    """Return ``sys.history`` with only the role of assistant lines, whose text is in Python notation in RAGFlow.

    Their content is compared in ``history``; here only their number is.
    """
    count = sum(role == "assistant" for role, _ in history)
    comparable = ["assistant" if line.startswith("assistant: ") else line for line in lines]
    return comparable if comparable.count("assistant") == count else [*comparable, f"({count} answers in history)"]
