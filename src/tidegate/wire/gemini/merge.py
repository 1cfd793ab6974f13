"""Several answers of Gemini, passed on as one."""

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import KEEP, AnswerMerger
from tidegate.wire.streaming.reply import as_list, as_object


class GeminiMerger(AnswerMerger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._parts: list[object] = []

    def feed(self, frame: JsonObject) -> JsonObject | None:
        self.first_id = self.first_id or frame.get("responseId")
        candidate = as_object(next(iter(as_list(frame.get("candidates"))), None))
        content = as_object(candidate.get("content"))
        parts = as_list(content.get("parts"))
        visible = [part for part in parts if not self._is_hidden(part)]
        self.hidden_calls += len(parts) - len(visible)
        self.visible_calls += sum("functionCall" in as_object(part) for part in visible)
        usage, reason = as_object(frame.get("usageMetadata")), candidate.get("finishReason")
        ends = not reason or self.ends_here(reason == "STOP", usage.get("candidatesTokenCount"))
        if not self.is_changed:
            return KEEP
        if not visible and parts and not (reason and ends):
            return None
        if not ends:
            candidate = {key: value for key, value in candidate.items() if key != "finishReason"}
        if parts:
            candidate = {**candidate, "content": {**content, "parts": visible}}
        new_frame = {**frame, "candidates": [candidate]} if candidate else dict(frame)
        if self.first_id:
            new_frame["responseId"] = self.first_id
        if usage and reason and ends:
            new_frame["usageMetadata"] = self.sum_output(usage, "candidatesTokenCount", "totalTokenCount")
        return new_frame

    def _is_hidden(self, part: object) -> bool:
        return as_object(as_object(part).get("functionCall")).get("name") == self.name

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        new_body = self.feed(body)
        answer = body if new_body is KEEP else new_body
        candidate = as_object(next(iter(as_list((answer or {}).get("candidates"))), None))
        content = as_object(candidate.get("content"))
        self._parts += as_list(content.get("parts"))
        if self.goes_on:
            return None
        if new_body is KEEP or answer is None:
            return new_body
        candidate = {**candidate, "content": {**content, "parts": self._parts}}
        return {**answer, "candidates": [candidate]}
