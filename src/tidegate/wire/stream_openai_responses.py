"""OpenAI Responses as a stream: items by output index. An item that is done replaces what its deltas made of it.

The last event brings the whole response once more. It is believed if it holds the items; servers that leave them out
there have sent each of them before.
"""

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.wire.blocks import Json
from tidegate.wire.replies import (
    Delta,
    Reply,
    Stop,
    a_map,
    a_seq,
    a_str,
    broken,
    cut,
    own_ids,
    place_of,
    readable,
    stop_of,
)

_ENDS = ("response.completed", "response.incomplete", "response.done")
_CALLS = ("function_call", "custom_tool_call")
_STOPS: Mapping[str, Stop] = MappingProxyType(
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
        self.error: Json | None = None
        self._items: dict[int, Json] = {}
        self._whole: set[int] = set()
        self._response: Json | None = None

    @property
    def done(self) -> bool:
        return self._response is not None and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        kind = a_str(frame.get("type"))
        response = a_map(frame.get("response"))
        if kind == "error" or (not kind and frame.get("error")):
            inner = frame.get("error")
            said = {key: value for key, value in frame.items() if key not in ("type", "sequence_number")}
            self.error = inner if isinstance(inner, dict) else {"message": inner} if inner else said
        elif kind in ("response.failed", "response.cancelled"):
            self.error = a_map(response.get("error")) or {"message": kind}
        elif self._response is not None:
            return []
        elif kind in _ENDS:
            self._response = {"status": kind.removeprefix("response."), **response}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(frame, kind.endswith("done"))
        elif kind.endswith(".delta"):
            return self._grow(frame, kind)
        return []

    def _item(self, frame: Mapping[str, object], is_whole: bool) -> list[Delta]:
        item = a_map(frame.get("item"))
        place = place_of(frame.get("output_index"), len(self._items) - is_whole)
        known = place in self._items
        self._items[place] = dict(item)
        if is_whole:
            self._whole.add(place)
        if item.get("type") in _CALLS and not known:
            return [Delta("call", a_str(item.get("name")), place)]
        return []

    def _grow(self, frame: Mapping[str, object], kind: str) -> list[Delta]:
        piece = a_str(frame.get("delta"))
        place = place_of(frame.get("output_index"), max(self._items, default=0))
        item = self._items.setdefault(place, {})
        if not piece or place in self._whole:
            return []
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            item.setdefault("type", "message")
            item.setdefault("role", "assistant")
            self._text(item, "refusal" if "refusal" in kind else "output_text", piece)
            return [Delta("text", piece, place)]
        if kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            key = "input" if "custom" in kind else "arguments"
            item[key] = a_str(item.get(key)) + piece
            return [Delta("call", piece, place)]
        if kind.startswith("response.reasoning"):
            return [Delta("thinking", piece, place)]
        return []

    def _text(self, item: Json, kind: str, piece: str) -> None:
        content = [a_map(part) for part in a_seq(item.get("content"))]
        key = "refusal" if kind == "refusal" else "text"
        if content and content[-1].get("type") == kind:
            content[-1] = {**content[-1], key: a_str(content[-1].get(key)) + piece}
        else:
            content.append({"type": kind, key: piece})
        item["content"] = content

    def finish(self) -> Reply:
        if self._response is None or not self.done:
            raise cut()
        response = self._response
        listed = [a_map(item) for item in a_seq(response.get("output"))]
        items = listed or [self._items[place] for place in sorted(self._items)]
        items = [dict(item) for item in items if item.get("type")]
        if any(item["type"] == "reasoning" and not _is_sealed(item) for item in items):
            raise cut()
        calls = [item for item in items if item["type"] in _CALLS]
        ids = own_ids([a_str(item.get("call_id")) for item in calls])
        for item, ident in zip(calls, ids, strict=True):
            item |= {"call_id": ident, "name": a_str(item.get("name"))}
        reason = a_str(a_map(response.get("incomplete_details")).get("reason")) or a_str(response.get("status"))
        stop = stop_of(_STOPS.get(reason, "unknown"), bool(calls))
        stop = "refused" if stop == "end" and _refuses(items) else stop
        usage, model = a_map(response.get("usage")), a_str(response.get("model"))
        bad = broken(ids, [a_str(item.get("arguments")) for item in calls])
        return readable("openai_responses", Reply(items, usage, stop, model, reason, bad))


def _is_sealed(item: Json) -> bool:
    """Reasoning goes back to the provider as it is: what it would not take back was damaged on the way."""
    summary = item.get("summary") or []
    told = isinstance(summary, list) and all(isinstance(a_map(each).get("text"), str) for each in summary)
    return told and isinstance(item.get("encrypted_content") or "", str)


def _refuses(items: list[Json]) -> bool:
    return any(a_map(part).get("type") == "refusal" for item in items for part in a_seq(item.get("content")))


def whole(body: Mapping[str, object]) -> list[Json]:
    """An answer that did not come as a stream, as the frames it would have been."""
    if body.get("error"):
        return [{"type": "error", "error": body["error"]}]
    ended = body.get("status") in ("completed", "incomplete")
    frames: list[Json] = []
    for place, each in enumerate(a_seq(body.get("output"))):
        item = a_map(each)
        texts = [a_str(a_map(part).get("text")) for part in a_seq(item.get("content"))]
        if item.get("type") == "message":
            frames += [{"type": "response.output_text.delta", "output_index": place, "delta": text} for text in texts]
        else:
            frames.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return [*frames, {"type": "response.completed" if ended else "response.in_progress", "response": dict(body)}]
