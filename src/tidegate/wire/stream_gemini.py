"""Gemini generateContent as a stream: every frame is a piece of an answer in the form of a whole one.

Plain texts that follow each other are one text. A part with a signature stays a part of its own, in its place: it is
signed as it is.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidegate.wire.blocks import Json
from tidegate.wire.replies import (
    Delta,
    Reply,
    Stop,
    a_map,
    a_seq,
    a_str,
    bound_parts,
    cut,
    error_in,
    more_usage,
    own_ids,
    place_of,
    readable,
    stop_of,
)

_FILTERS = frozenset("SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE".split())
_STOPS: Mapping[str, Stop] = MappingProxyType({"STOP": "end", "MAX_TOKENS": "length"})


class GeminiAssembler:
    def __init__(self) -> None:
        self.error: Json | None = None
        self._parts: list[Json] = []
        self._calls = 0
        self._texts: list[str] = []  # what is still to be added to the last part
        self._usage: Json = {}
        self._model = self._reason = ""
        self._blocked = False

    @property
    def done(self) -> bool:
        return bool(self._reason) and self.error is None

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        if frame.get("error"):
            self.error = error_in(frame)
            return []
        self._usage = more_usage(self._usage, frame.get("usageMetadata"))
        self._model = a_str(frame.get("modelVersion")) or self._model
        blocked = a_str(a_map(frame.get("promptFeedback")).get("blockReason"))
        if blocked:
            self._blocked, self._reason = True, blocked
        deltas: list[Delta] = []
        for each in a_seq(frame.get("candidates")):
            candidate = a_map(each)
            if place_of(candidate.get("index"), 0) != 0:
                continue
            for part in a_seq(a_map(candidate.get("content")).get("parts")):
                deltas += self._take(a_map(part))
            reason = a_str(candidate.get("finishReason"))
            self._reason = reason if reason not in ("", "FINISH_REASON_UNSPECIFIED") else self._reason
        return deltas

    def _take(self, part: Json) -> list[Delta]:
        if not part:
            return []
        text, thought = part.get("text"), part.get("thought") is True
        plain = isinstance(text, str) and part.keys() <= {"text", "thought"}
        last = self._parts[-1] if self._parts else {}
        grows = plain and last.keys() <= {"text", "thought"} and (last.get("thought") is True) == thought
        if grows and last:
            self._texts.append(a_str(text))
        else:
            self._settle()
            self._parts.append(dict(part))
            self._calls += "functionCall" in part
            bound_parts(len(self._parts), self._calls)
        if isinstance(text, str):
            return [Delta("thinking" if thought else "text", text)] if text else []
        call = a_map(part.get("functionCall"))
        if not call:
            return []
        arguments = msgspec.json.encode(call.get("args") or {}).decode()
        place = len(self._parts) - 1
        return [Delta("call", a_str(call.get("name")), place), Delta("call", arguments, place)]

    def _settle(self) -> None:
        if self._texts:
            last = self._parts[-1]
            last["text"] = a_str(last.get("text")) + "".join(self._texts)
            self._texts = []

    def finish(self) -> Reply:
        if not self.done:
            raise cut()
        self._settle()
        parts = [dict(part) for part in self._parts]
        called = [part for part in parts if "functionCall" in part]
        names = [a_str(a_map(part["functionCall"]).get("name")) for part in called]
        given = [a_str(a_map(part["functionCall"]).get("id")) for part in called]
        ids = own_ids([ident or name for ident, name in zip(given, names, strict=True)])
        for part, ident, name in zip(called, ids, names, strict=True):
            part["functionCall"] = {**a_map(part["functionCall"]), "id": ident, "name": name}
        filtered = self._blocked or self._reason.removeprefix("IMAGE_") in _FILTERS
        stop = "filtered" if filtered else stop_of(_STOPS.get(self._reason, "unknown"), bool(called))
        message: Json = {"role": "model", "parts": parts}
        return readable("gemini", Reply([message], self._usage, stop, self._model, self._reason))


def whole(body: Mapping[str, object]) -> list[Json]:
    """An answer that did not come as a stream is a frame like any other."""
    return [dict(body)]
