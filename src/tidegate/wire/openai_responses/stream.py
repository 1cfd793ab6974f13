"""Assembler for Responses streams: items by output index. A finished item replaces what its deltas built.

The last event repeats the whole response. It is used if it holds the items; servers that leave them out there have sent
each of them before.
"""

from collections.abc import Mapping
from itertools import groupby
from types import MappingProxyType

from tidegate.wire.openai_responses.parse import parse_message
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import (
    Delta,
    Reply,
    StopReason,
    as_index,
    as_list,
    as_object,
    as_string,
    assign_unique_ids,
    bound_parts,
    ensure_parseable,
    find_broken_calls,
    incomplete_reply_error,
    normalize_stop,
)

_ENDS = ("response.completed", "response.incomplete", "response.done")
_CALLS = ("function_call", "custom_tool_call")
_GROWS: Mapping[str, str] = MappingProxyType(
    {
        "response.output_text.delta": "output_text",
        "response.refusal.delta": "refusal",
        "response.function_call_arguments.delta": "arguments",
        "response.custom_tool_call_input.delta": "input",
    }
)
"""The deltas that extend an item, and the field they extend."""
_STOPS: Mapping[str, StopReason] = MappingProxyType(
    {
        "completed": "end",
        "done": "end",
        "max_output_tokens": "length",
        "max_tokens": "length",
        "content_filter": "filtered",
    }
)


class ResponsesAssembler:
    def __init__(self) -> None:
        self.error: JsonObject | None = None
        self._items: dict[int, JsonObject] = {}
        self._grown: dict[int, list[tuple[str, str]]] = {}  # field and text; joined once, at the end
        self._whole: set[int] = set()
        self._called: set[int] = set()
        self._changes = 0  # switches between fields of an item; each makes a part
        self._response: JsonObject | None = None

    @property
    def done(self) -> bool:
        return self._response is not None and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        kind = as_string(frame.get("type"))
        response = as_object(frame.get("response"))
        if kind == "error" or (not kind and frame.get("error")):
            inner = frame.get("error")
            fields = {key: value for key, value in frame.items() if key not in ("type", "sequence_number")}
            self.error = inner if isinstance(inner, dict) else {"message": inner} if inner else fields
        elif kind in ("response.failed", "response.cancelled"):
            self.error = as_object(response.get("error")) or {"message": kind}
        elif self._response is not None:
            return []
        elif kind in _ENDS:
            self._response = {"status": kind.removeprefix("response."), **response}
            listed = [as_object(item).get("type") for item in as_list(response.get("output"))]
            bound_parts(len(listed), sum(kind in _CALLS for kind in listed))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(frame, kind.endswith("done"))
        elif kind.endswith(".delta"):
            return self._grow(frame, kind)
        return []

    def _item(self, frame: Mapping[str, object], is_whole: bool) -> list[Delta]:
        item = as_object(frame.get("item"))
        place = as_index(frame.get("output_index"), len(self._items) - is_whole)
        is_old = place in self._items
        self._items[place] = dict(item)
        self._grown.pop(place, None)
        if is_whole:
            self._whole.add(place)
        if item.get("type") in _CALLS:
            self._called.add(place)
        bound_parts(len(self._items), len(self._called))
        if item.get("type") in _CALLS and not is_old:
            return [Delta("call", as_string(item.get("name")), place)]
        return []

    def _grow(self, frame: Mapping[str, object], kind: str) -> list[Delta]:
        piece = as_string(frame.get("delta"))
        place = as_index(frame.get("output_index"), max(self._items, default=0))
        if place not in self._items:
            self._items[place] = {}
            bound_parts(len(self._items), len(self._called))
        if not piece or place in self._whole:
            return []
        if kind in _GROWS:
            field, growth = _GROWS[kind], self._grown.setdefault(place, [])
            self._changes += bool(growth) and growth[-1][0] != field
            bound_parts(self._changes, 0)
            growth.append((field, piece))
            return [Delta("call" if field in ("arguments", "input") else "text", piece, place)]
        return [Delta("thinking", piece, place)] if kind.startswith("response.reasoning") else []

    def _joined(self, place: int) -> JsonObject:
        """Return an item with the content of its deltas."""
        item = dict(self._items[place])
        for field, pieces in groupby(self._grown.get(place, ()), lambda pair: pair[0]):
            text = "".join(piece for _, piece in pieces)
            if field in ("arguments", "input"):
                item[field] = as_string(item.get(field)) + text
                continue
            content = [as_object(part) for part in as_list(item.get("content"))]
            key = "refusal" if field == "refusal" else "text"
            if content and content[-1].get("type") == field:
                content[-1] = {**content[-1], key: as_string(content[-1].get(key)) + text}
            else:
                content.append({"type": field, key: text})
            item = {"type": "message", "role": "assistant"} | item | {"content": content}
        return item

    def finish(self) -> Reply:
        if self._response is None or not self.done:
            raise incomplete_reply_error()
        response = self._response
        listed = [as_object(item) for item in as_list(response.get("output"))]
        items = listed or [self._joined(place) for place in sorted(self._items)]
        items = [dict(item) for item in items if item.get("type")]
        if any(item["type"] == "reasoning" and not _is_sealed(item) for item in items):
            raise incomplete_reply_error()
        calls = [item for item in items if item["type"] in _CALLS]
        ids = assign_unique_ids([as_string(item.get("call_id")) for item in calls])
        for item, ident in zip(calls, ids, strict=True):
            item |= {"call_id": ident, "name": as_string(item.get("name"))}
        reason = as_string(as_object(response.get("incomplete_details")).get("reason")) or as_string(
            response.get("status")
        )
        stop = normalize_stop(_STOPS.get(reason, "unknown"), bool(calls))
        stop = "refused" if stop == "end" and _refuses(items) else stop
        usage, model = as_object(response.get("usage")), as_string(response.get("model"))
        bad = find_broken_calls(ids, [as_string(item.get("arguments")) for item in calls])
        return ensure_parseable(parse_message, Reply(items, usage, stop, model, reason, bad))


def _is_sealed(item: JsonObject) -> bool:
    """Refuse a damaged reasoning item: it is sent back as it is, and the provider would refuse it."""
    summary = item.get("summary") or []
    is_summary = isinstance(summary, list) and all(isinstance(as_object(each).get("text"), str) for each in summary)
    return is_summary and isinstance(item.get("encrypted_content") or "", str)


def _refuses(items: list[JsonObject]) -> bool:
    return any(as_object(part).get("type") == "refusal" for item in items for part in as_list(item.get("content")))


def frames_from_body(body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to the frames of a stream."""
    if body.get("error"):
        return [{"type": "error", "error": body["error"]}]
    is_whole = body.get("status") in ("completed", "incomplete")
    frames: list[JsonObject] = []
    for place, each in enumerate(as_list(body.get("output"))):
        item = as_object(each)
        texts = [as_string(as_object(part).get("text")) for part in as_list(item.get("content"))]
        if item.get("type") == "message":
            frames += [{"type": "response.output_text.delta", "output_index": place, "delta": text} for text in texts]
        else:
            frames.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return [*frames, {"type": "response.completed" if is_whole else "response.in_progress", "response": dict(body)}]
