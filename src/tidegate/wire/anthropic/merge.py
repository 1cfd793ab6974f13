"""Several answers of Anthropic's, passed on as one: blocks are renumbered."""

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import KEEP, AnswerMerger
from tidegate.wire.streaming.reply import as_index, as_list, as_object


class AnthropicMerger(AnswerMerger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._places: dict[int, int] = {}
        self._next_place = 0
        self._input_usage: JsonObject = {}
        self._content: list[object] = []

    def start_next(self) -> None:
        super().start_next()
        self._places = {}

    def feed(self, frame: JsonObject) -> JsonObject | None:
        kind, index = frame.get("type"), as_index(frame.get("index"), 0)
        if kind == "message_start":
            self._input_usage = dict(as_object(as_object(frame.get("message")).get("usage")))
            return KEEP if self.rounds == 1 else None
        if kind == "content_block_start" and not self._take_block(index, frame.get("content_block")):
            return None
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            place = None if self.goes_on else self._places.get(index)
            return None if place is None else KEEP if place == frame.get("index") else {**frame, "index": place}
        if kind == "message_delta":
            return self._end(frame)
        return None if kind == "message_stop" and self.goes_on else KEEP

    def _take_block(self, index: int, block: object) -> bool:
        block_fields = as_object(block)
        if block_fields.get("type") == "tool_use" and block_fields.get("name") == self.name:
            self.hidden_calls += 1
            self._places.pop(index, None)  # some servers give every block the same index
            return False
        self.visible_calls += block_fields.get("type") == "tool_use"
        self._places[index] = self._next_place
        self._next_place += 1
        return True

    def _end(self, frame: JsonObject) -> JsonObject | None:
        delta, usage = as_object(frame.get("delta")), as_object(frame.get("usage"))
        if not self.ends_here(delta.get("stop_reason") == "tool_use", usage.get("output_tokens")):
            return None
        if not self.is_changed:
            return KEEP
        return {**frame, "delta": self._stop(delta), "usage": self._usage({**self._input_usage, **usage})}

    def _stop(self, delta: JsonObject) -> JsonObject:
        ends = delta.get("stop_reason") == "tool_use" and self.has_lost_its_calls
        return {**delta, "stop_reason": "end_turn"} if ends else dict(delta)

    def _usage(self, usage: object) -> JsonObject:
        return self.sum_output(usage, "output_tokens")

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        for block in as_list(body.get("content")):
            if self._take_block(0, block):
                self._content.append(block)
        self.first_id = self.first_id or body.get("id")
        usage = as_object(body.get("usage"))
        if not self.ends_here(body.get("stop_reason") == "tool_use", usage.get("output_tokens")):
            return None
        if not self.is_changed:
            return KEEP
        return {**self._stop(body), "id": self.first_id, "content": self._content, "usage": self._usage(usage)}
