"""Assembler for Gemini streams: every frame has the form of a whole answer and holds a piece of it.

Adjacent plain texts are joined. A part with a signature stays separate, because exactly this part is signed.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.gemini.parse import parse_message
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
    extract_error,
    incomplete_reply_error,
    merge_usage,
    normalize_stop,
)

_FILTERS = frozenset("SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE".split())
_STOPS: Mapping[str, StopReason] = MappingProxyType({"STOP": "end", "MAX_TOKENS": "length"})


class GeminiAssembler:
    def __init__(self) -> None:
        self.error: JsonObject | None = None
        self._parts: list[JsonObject] = []
        self._calls = 0
        self._texts: list[str] = []  # pieces to be added to the last part
        self._usage: JsonObject = {}
        self._model = self._reason = ""
        self._blocked = False

    @property
    def done(self) -> bool:
        return bool(self._reason) and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        if frame.get("error"):
            self.error = extract_error(frame)
            return []
        self._usage = merge_usage(self._usage, frame.get("usageMetadata"))
        self._model = as_string(frame.get("modelVersion")) or self._model
        blocked = as_string(as_object(frame.get("promptFeedback")).get("blockReason"))
        if blocked:
            self._blocked, self._reason = True, blocked
        deltas: list[Delta] = []
        for each in as_list(frame.get("candidates")):
            candidate = as_object(each)
            if as_index(candidate.get("index"), 0) != 0:
                continue
            for part in as_list(as_object(candidate.get("content")).get("parts")):
                deltas += self._take(as_object(part))
            reason = as_string(candidate.get("finishReason"))
            self._reason = reason if reason not in ("", "FINISH_REASON_UNSPECIFIED") else self._reason
        return deltas

    def _take(self, part: JsonObject) -> list[Delta]:
        if not part:
            return []
        text, thought = part.get("text"), part.get("thought") is True
        plain = isinstance(text, str) and part.keys() <= {"text", "thought"}
        last = self._parts[-1] if self._parts else {}
        grows = plain and last.keys() <= {"text", "thought"} and (last.get("thought") is True) == thought
        if grows and last:
            self._texts.append(as_string(text))
        else:
            self._settle()
            self._parts.append(dict(part))
            self._calls += "functionCall" in part
            bound_parts(len(self._parts), self._calls)
        if isinstance(text, str):
            return [Delta("thinking" if thought else "text", text)] if text else []
        call = as_object(part.get("functionCall"))
        if not call:
            return []
        arguments = msgspec.json.encode(call.get("args") or {}).decode()
        place = len(self._parts) - 1
        return [Delta("call", as_string(call.get("name")), place), Delta("call", arguments, place)]

    def _settle(self) -> None:
        if self._texts:
            last = self._parts[-1]
            last["text"] = as_string(last.get("text")) + "".join(self._texts)
            self._texts = []

    def finish(self) -> Reply:
        if not self.done:
            raise incomplete_reply_error()
        self._settle()
        parts = [dict(part) for part in self._parts]
        calls = [part for part in parts if "functionCall" in part]
        names = [as_string(as_object(part["functionCall"]).get("name")) for part in calls]
        call_ids = [as_string(as_object(part["functionCall"]).get("id")) for part in calls]
        ids = assign_unique_ids([ident or name for ident, name in zip(call_ids, names, strict=True)])
        for part, ident, name in zip(calls, ids, names, strict=True):
            part["functionCall"] = {**as_object(part["functionCall"]), "id": ident, "name": name}
        filtered = self._blocked or self._reason.removeprefix("IMAGE_") in _FILTERS
        stop = "filtered" if filtered else normalize_stop(_STOPS.get(self._reason, "unknown"), bool(calls))
        message: JsonObject = {"role": "model", "parts": parts}
        return ensure_parseable(parse_message, Reply([message], self._usage, stop, self._model, self._reason))


def frames_from_body(body: Mapping[str, object]) -> list[JsonObject]:
    """Convert an unstreamed answer to frames: it is one frame."""
    return [dict(body)]
