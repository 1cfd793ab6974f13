"""Several answers of OpenAI Responses, passed on as one: items and sequence numbers are renumbered."""

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import KEEP, AnswerMerger
from tidegate.wire.streaming.reply import as_index, as_list, as_object, as_string


class ResponsesMerger(AnswerMerger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._places: dict[int, int | None] = {}
        self._next_place = self._sequence = 0
        self._output: list[object] = []

    def start_next(self) -> None:
        super().start_next()
        self._places = {}

    def feed(self, frame: JsonObject) -> JsonObject | None:
        new_frame = self._change(frame)
        if new_frame is None:
            return None
        number, self._sequence = self._sequence, self._sequence + 1
        if "sequence_number" in frame and frame["sequence_number"] != number:
            new_frame = {**(new_frame or frame), "sequence_number": number}
        return new_frame

    def _change(self, frame: JsonObject) -> JsonObject | None:
        kind = as_string(frame.get("type"))
        response = frame.get("response")
        if isinstance(response, dict):
            self.first_id = self.first_id or response.get("id")
            if kind in ("response.completed", "response.incomplete"):
                new_response = self.feed_body(response)
                return {**frame, "response": new_response} if new_response else new_response
            if self.rounds > 1 and kind != "response.failed":
                return None
            new_response = self._hide_tool(response)
            return KEEP if new_response is response else {**frame, "response": new_response}
        if "output_index" not in frame:
            return KEEP
        index = as_index(frame["output_index"], 0)
        if kind == "response.output_item.added":
            self._take_item(index, frame.get("item"))
        place = self._places.get(index)
        return None if place is None else KEEP if place == index else {**frame, "output_index": place}

    def _take_item(self, index: int, item: object) -> None:
        if self._is_hidden(item):
            self._places[index] = None
        else:
            self._places[index] = self._next_place
            self._next_place += 1

    def _is_hidden(self, item: object) -> bool:
        call = as_object(item)
        return call.get("type") == "function_call" and call.get("name") == self.name

    def _hide_tool(self, response: JsonObject) -> JsonObject:
        """The provider repeats the tools of the request in its answer."""
        tools = as_list(response.get("tools"))
        visible = [tool for tool in tools if as_object(tool).get("name") != self.name]
        return {**response, "tools": visible} if len(visible) < len(tools) else response

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        self.first_id = self.first_id or body.get("id")
        output = as_list(body.get("output"))
        visible = [item for item in output if not self._is_hidden(item)]
        self.hidden_calls = len(output) - len(visible)
        self.visible_calls = sum(as_string(as_object(item).get("type")).endswith("_call") for item in visible)
        self._output += visible
        usage = as_object(body.get("usage"))
        if not self.ends_here(body.get("status") == "completed", usage.get("output_tokens")):
            return None
        new_body = self._hide_tool(body)
        if not self.is_changed:
            return KEEP if new_body is body else new_body
        usage = self.sum_output(usage, "output_tokens", "total_tokens")
        return {**new_body, "id": self.first_id, "output": self._output, **({"usage": usage} if usage else {})}
