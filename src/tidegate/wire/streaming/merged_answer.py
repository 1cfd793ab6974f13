"""Several answers of a provider, passed on to a client as one, without the calls of a hidden tool.

A provider's answer with hidden calls only is not the end: these calls are answered, and the next answer continues the
first. `feed` gets each frame of a stream and returns it as the client gets it: as it is (`KEEP`), changed, or None.
`goes_on` then says whether another answer follows; `start_next` announces it. Blocks, items, calls and sequence numbers
are renumbered. The reported input is that of the last answer, the output is the sum.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from tidegate.wire.openai_chat.stream import PartialCalls
from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.reply import as_index, as_list, as_object, as_string

KEEP: Final[JsonObject] = {}
"""The frame is passed on as it is, byte for byte."""


class MergedAnswer(Protocol):
    """One answer to the client. With `is_last`, no other answer may follow: hidden calls are left out of this one."""

    goes_on: bool
    is_last: bool

    def start_next(self) -> None: ...

    def feed(self, frame: JsonObject) -> JsonObject | None: ...

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        """The same for a whole answer."""


class _Merged:
    """What the dialects share: counts of this answer, and the sums of those before it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.goes_on = False
        self.is_last = False
        self._rounds = 1
        self._hidden_calls = self._visible_calls = 0
        self._earlier_output = 0
        self._first_id: object = None
        self._has_ended = False

    def start_next(self) -> None:
        self._rounds += 1
        self._hidden_calls = self._visible_calls = 0
        self.goes_on = self._has_ended = False

    def _ends_here(self, asks_for_calls: bool, output_tokens: object) -> bool:
        """Whether the answer to the client ends with this answer of the provider. The first end of an answer counts."""
        if self._has_ended:
            return not self.goes_on
        self._has_ended = True
        self.goes_on = bool(asks_for_calls and self._hidden_calls and not self._visible_calls and not self.is_last)
        if self.goes_on and isinstance(output_tokens, int):
            self._earlier_output += output_tokens
        return not self.goes_on

    @property
    def _is_changed(self) -> bool:
        return self._rounds > 1 or self._hidden_calls > 0

    @property
    def _has_lost_its_calls(self) -> bool:
        return self._hidden_calls > 0 and not self._visible_calls

    def _sum_output(self, usage: object, key: str, total: str = "") -> JsonObject:
        found = dict(as_object(usage))
        for each in filter(None, (key, total)):
            count = found.get(each)
            if isinstance(count, int):
                found[each] = count + self._earlier_output
        return found


class _MergedAnthropic(_Merged):
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
            return KEEP if self._rounds == 1 else None
        if kind == "content_block_start" and not self._take_block(index, frame.get("content_block")):
            return None
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            place = None if self.goes_on else self._places.get(index)
            return None if place is None else KEEP if place == frame.get("index") else {**frame, "index": place}
        if kind == "message_delta":
            return self._end(frame)
        return None if kind == "message_stop" and self.goes_on else KEEP

    def _take_block(self, index: int, block: object) -> bool:
        found = as_object(block)
        if found.get("type") == "tool_use" and found.get("name") == self._name:
            self._hidden_calls += 1
            self._places.pop(index, None)  # some servers give every block the same index
            return False
        self._visible_calls += found.get("type") == "tool_use"
        self._places[index] = self._next_place
        self._next_place += 1
        return True

    def _end(self, frame: JsonObject) -> JsonObject | None:
        delta, usage = as_object(frame.get("delta")), as_object(frame.get("usage"))
        if not self._ends_here(delta.get("stop_reason") == "tool_use", usage.get("output_tokens")):
            return None
        if not self._is_changed:
            return KEEP
        return {**frame, "delta": self._stop(delta), "usage": self._usage({**self._input_usage, **usage})}

    def _stop(self, found: JsonObject) -> JsonObject:
        ends = found.get("stop_reason") == "tool_use" and self._has_lost_its_calls
        return {**found, "stop_reason": "end_turn"} if ends else dict(found)

    def _usage(self, usage: object) -> JsonObject:
        return self._sum_output(usage, "output_tokens")

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        for block in as_list(body.get("content")):
            if self._take_block(0, block):
                self._content.append(block)
        self._first_id = self._first_id or body.get("id")
        usage = as_object(body.get("usage"))
        if not self._ends_here(body.get("stop_reason") == "tool_use", usage.get("output_tokens")):
            return None
        if not self._is_changed:
            return KEEP
        return {**self._stop(body), "id": self._first_id, "content": self._content, "usage": self._usage(usage)}


class _MergedChat(_Merged):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calls = PartialCalls()
        self._places: list[int | None] = []
        self._texts: list[str] = []

    def start_next(self) -> None:
        super().start_next()
        self._calls, self._places = PartialCalls(), []

    def feed(self, frame: JsonObject) -> JsonObject | None:
        self._first_id = self._first_id or frame.get("id")
        choices = as_list(frame.get("choices"))
        if not choices:
            return self._end_usage(frame)
        if self.goes_on:
            return None
        choice = as_object(choices[0])
        delta = as_object(choice.get("delta"))
        new_delta = self._filter_calls(delta)
        if self._rounds > 1:
            new_delta.pop("role", None)  # the client has it already
        reason = choice.get("finish_reason")
        usage = as_object(frame.get("usage"))
        if reason and not self._ends_here(reason == "tool_calls", usage.get("completion_tokens")):
            reason = None
        if reason == "tool_calls" and self._has_lost_its_calls:
            reason = "stop"
        if new_delta == delta and reason == choice.get("finish_reason") and self._rounds == 1 and not reason:
            return KEEP
        if not new_delta and not reason:
            return None
        if not self._is_changed:
            return KEEP
        found = {**frame, "id": self._first_id, "choices": [{**choice, "delta": new_delta, "finish_reason": reason}]}
        return {**found, "usage": self._usage(usage)} if usage else found

    def _end_usage(self, frame: JsonObject) -> JsonObject | None:
        usage = as_object(frame.get("usage"))
        if self.goes_on:
            count = usage.get("completion_tokens")
            self._earlier_output += count if isinstance(count, int) else 0
            return None
        return {**frame, "id": self._first_id, "usage": self._usage(usage)} if self._is_changed and usage else KEEP

    def _usage(self, usage: object) -> JsonObject:
        return self._sum_output(usage, "completion_tokens", "total_tokens")

    def _filter_calls(self, delta: JsonObject) -> JsonObject:
        if not delta.get("tool_calls"):
            return dict(delta)
        kept = []
        for call in map(as_object, as_list(delta["tool_calls"])):
            taken, _ = self._calls.take(call)
            if taken.place == len(self._places):
                is_hidden = taken.name == self._name
                self._hidden_calls += is_hidden
                self._places.append(None if is_hidden else self._visible_calls)
                self._visible_calls += not is_hidden
            if (place := self._places[taken.place]) is not None:
                kept.append({**call, "index": place})
        rest = {key: value for key, value in delta.items() if key != "tool_calls"}
        if not kept and all(value in (None, "", "assistant") for value in rest.values()):
            return {}
        return {**rest, "tool_calls": kept} if kept else rest

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        self._first_id = self._first_id or body.get("id")
        choice = as_object(next(iter(as_list(body.get("choices"))), None))
        message = dict(as_object(choice.get("message")))
        calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
        kept = [call for call in calls if as_object(call.get("function")).get("name") != self._name]
        self._hidden_calls, self._visible_calls = len(calls) - len(kept), len(kept)
        self._texts.append(as_string(message.get("content")))
        usage, reason = as_object(body.get("usage")), choice.get("finish_reason")
        if not self._ends_here(reason == "tool_calls", usage.get("completion_tokens")):
            return None
        if not self._is_changed:
            return KEEP
        message["content"] = "".join(self._texts) or None
        message.pop("tool_calls", None)
        message |= {"tool_calls": kept} if kept else {}
        reason = "stop" if reason == "tool_calls" and not kept else reason
        choices = [{**choice, "message": message, "finish_reason": reason}]
        return {**body, "id": self._first_id, "choices": choices, **({"usage": self._usage(usage)} if usage else {})}


class _MergedResponses(_Merged):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._places: dict[int, int | None] = {}
        self._next_place = self._sequence = 0
        self._output: list[object] = []

    def start_next(self) -> None:
        super().start_next()
        self._places = {}

    def feed(self, frame: JsonObject) -> JsonObject | None:
        changed = self._change(frame)
        if changed is None:
            return None
        number, self._sequence = self._sequence, self._sequence + 1
        if "sequence_number" in frame and frame["sequence_number"] != number:
            changed = {**(changed or frame), "sequence_number": number}
        return changed

    def _change(self, frame: JsonObject) -> JsonObject | None:
        kind = as_string(frame.get("type"))
        response = frame.get("response")
        if isinstance(response, dict):
            self._first_id = self._first_id or response.get("id")
            if kind in ("response.completed", "response.incomplete"):
                found = self.feed_body(response)
                return {**frame, "response": found} if found else found
            if self._rounds > 1 and kind != "response.failed":
                return None
            found = self._hide_tool(response)
            return KEEP if found is response else {**frame, "response": found}
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
        found = as_object(item)
        return found.get("type") == "function_call" and found.get("name") == self._name

    def _hide_tool(self, response: JsonObject) -> JsonObject:
        """The provider repeats the tools of the request in its answer."""
        tools = as_list(response.get("tools"))
        kept = [tool for tool in tools if as_object(tool).get("name") != self._name]
        return {**response, "tools": kept} if len(kept) < len(tools) else response

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        self._first_id = self._first_id or body.get("id")
        output = as_list(body.get("output"))
        kept = [item for item in output if not self._is_hidden(item)]
        self._hidden_calls = len(output) - len(kept)
        self._visible_calls = sum(as_string(as_object(item).get("type")).endswith("_call") for item in kept)
        self._output += kept
        usage = as_object(body.get("usage"))
        if not self._ends_here(body.get("status") == "completed", usage.get("output_tokens")):
            return None
        found = self._hide_tool(body)
        if not self._is_changed:
            return KEEP if found is body else found
        usage = self._sum_output(usage, "output_tokens", "total_tokens")
        return {**found, "id": self._first_id, "output": self._output, **({"usage": usage} if usage else {})}


class _MergedGemini(_Merged):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._parts: list[object] = []

    def feed(self, frame: JsonObject) -> JsonObject | None:
        self._first_id = self._first_id or frame.get("responseId")
        candidate = as_object(next(iter(as_list(frame.get("candidates"))), None))
        content = as_object(candidate.get("content"))
        parts = as_list(content.get("parts"))
        kept = [part for part in parts if not self._is_hidden(part)]
        self._hidden_calls += len(parts) - len(kept)
        self._visible_calls += sum("functionCall" in as_object(part) for part in kept)
        usage, reason = as_object(frame.get("usageMetadata")), candidate.get("finishReason")
        ends = not reason or self._ends_here(reason == "STOP", usage.get("candidatesTokenCount"))
        if not self._is_changed:
            return KEEP
        if not kept and parts and not (reason and ends):
            return None
        if not ends:
            candidate = {key: value for key, value in candidate.items() if key != "finishReason"}
        if parts:
            candidate = {**candidate, "content": {**content, "parts": kept}}
        found = {**frame, "candidates": [candidate]} if candidate else dict(frame)
        if self._first_id:
            found["responseId"] = self._first_id
        if usage and reason and ends:
            found["usageMetadata"] = self._sum_output(usage, "candidatesTokenCount", "totalTokenCount")
        return found

    def _is_hidden(self, part: object) -> bool:
        return as_object(as_object(part).get("functionCall")).get("name") == self._name

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        found = self.feed(body)
        shown = body if found is KEEP else found
        candidate = as_object(next(iter(as_list((shown or {}).get("candidates"))), None))
        content = as_object(candidate.get("content"))
        self._parts += as_list(content.get("parts"))
        if self.goes_on:
            return None
        if found is KEEP or shown is None:
            return found
        candidate = {**candidate, "content": {**content, "parts": self._parts}}
        return {**shown, "candidates": [candidate]}


_MERGED: Final[Mapping[str, Callable[[str], MergedAnswer]]] = MappingProxyType(
    {
        "anthropic": _MergedAnthropic,
        "openai_chat": _MergedChat,
        "openai_responses": _MergedResponses,
        "gemini": _MergedGemini,
    }
)


def create_merged_answer(dialect: str, hidden_tool: str) -> MergedAnswer:
    return _MERGED[dialect](hidden_tool)
