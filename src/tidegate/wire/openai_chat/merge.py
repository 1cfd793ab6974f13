"""Several answers of OpenAI chat, passed on as one: calls are renumbered."""

from tidegate.wire.openai_chat.stream import PartialCalls
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import KEEP, AnswerMerger
from tidegate.wire.streaming.reply import as_list, as_object, as_string


class ChatMerger(AnswerMerger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calls = PartialCalls()
        self._places: list[int | None] = []
        self._texts: list[str] = []

    def start_next(self) -> None:
        super().start_next()
        self._calls, self._places = PartialCalls(), []

    def feed(self, frame: JsonObject) -> JsonObject | None:
        self.first_id = self.first_id or frame.get("id")
        choices = as_list(frame.get("choices"))
        if not choices:
            return self._end_usage(frame)
        if self.goes_on:
            return None
        choice = as_object(choices[0])
        delta = as_object(choice.get("delta"))
        new_delta = self._filter_calls(delta)
        if self.rounds > 1:
            new_delta.pop("role", None)  # the client has it already
        reason = choice.get("finish_reason")
        usage = as_object(frame.get("usage"))
        if reason and not self.ends_here(reason == "tool_calls", usage.get("completion_tokens")):
            reason = None
        if reason == "tool_calls" and self.has_lost_its_calls:
            reason = "stop"
        if new_delta == delta and reason == choice.get("finish_reason") and self.rounds == 1 and not reason:
            return KEEP
        if not new_delta and not reason:
            return None
        if not self.is_changed:
            return KEEP
        new_frame = {**frame, "id": self.first_id, "choices": [{**choice, "delta": new_delta, "finish_reason": reason}]}
        return {**new_frame, "usage": self._usage(usage)} if usage else new_frame

    def _end_usage(self, frame: JsonObject) -> JsonObject | None:
        usage = as_object(frame.get("usage"))
        if self.goes_on:
            count = usage.get("completion_tokens")
            self._earlier_output += count if isinstance(count, int) else 0
            return None
        return {**frame, "id": self.first_id, "usage": self._usage(usage)} if self.is_changed and usage else KEEP

    def _usage(self, usage: object) -> JsonObject:
        return self.sum_output(usage, "completion_tokens", "total_tokens")

    def _filter_calls(self, delta: JsonObject) -> JsonObject:
        if not delta.get("tool_calls"):
            return dict(delta)
        visible = []
        for call in map(as_object, as_list(delta["tool_calls"])):
            partial_call, _ = self._calls.take(call)
            if partial_call.place == len(self._places):
                is_hidden = partial_call.name == self.name
                self.hidden_calls += is_hidden
                self._places.append(None if is_hidden else self.visible_calls)
                self.visible_calls += not is_hidden
            if (place := self._places[partial_call.place]) is not None:
                visible.append({**call, "index": place})
        rest = {key: value for key, value in delta.items() if key != "tool_calls"}
        if not visible and all(value in (None, "", "assistant") for value in rest.values()):
            return {}
        return {**rest, "tool_calls": visible} if visible else rest

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        self.first_id = self.first_id or body.get("id")
        choice = as_object(next(iter(as_list(body.get("choices"))), None))
        message = dict(as_object(choice.get("message")))
        calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
        visible = [call for call in calls if as_object(call.get("function")).get("name") != self.name]
        self.hidden_calls, self.visible_calls = len(calls) - len(visible), len(visible)
        self._texts.append(as_string(message.get("content")))
        usage, reason = as_object(body.get("usage")), choice.get("finish_reason")
        if not self.ends_here(reason == "tool_calls", usage.get("completion_tokens")):
            return None
        if not self.is_changed:
            return KEEP
        message["content"] = "".join(self._texts) or None
        message.pop("tool_calls", None)
        message |= {"tool_calls": visible} if visible else {}
        reason = "stop" if reason == "tool_calls" and not visible else reason
        choices = [{**choice, "message": message, "finish_reason": reason}]
        return {**body, "id": self.first_id, "choices": choices, **({"usage": self._usage(usage)} if usage else {})}
