"""Codex rollouts: `response_item` lines are what the model sees; `event_msg` lines repeat it for the screen.

Old rollouts have the items bare, without the wrapper. Reasoning and the summary of a compaction are encrypted; what is
plain of them is kept.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_str, dicts, json_text, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, parts_of, with_images

FORMAT = "codex"
_WRAPPED = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")


def recognises(head: Source) -> bool:
    values = head.dicts()
    if any(value.get("type") in _WRAPPED and isinstance(value.get("payload"), dict) for value in values):
        return True
    old = bool(values) and {"id", "timestamp", "instructions"} <= values[0].keys()
    return old and all("record_type" in value or value.get("type") in _ITEMS for value in values[1:])


def read(source: Source) -> Iterator[Recording]:
    rollout = _Rollout()
    for _, value in source.values():
        if isinstance(value, dict):
            rollout.line(value)
    rollout.mark_typed()
    name = rollout.session or source.stem
    meta = Meta(FORMAT, "Codex CLI", rollout.model, name, rollout.folder, str(source.path))
    found = rollout.talk.recording(source, name, meta)
    if found:
        yield found


class _Rollout:
    def __init__(self) -> None:
        self.talk = Talk()
        self.session = self.model = self.folder = ""
        self._answer: Json | None = None
        self._thought = ""
        self._typed = set[str]()

    def line(self, line: Json) -> None:
        kind, payload = line.get("type"), line.get("payload")
        time = time_of(line.get("timestamp"))
        if not isinstance(payload, dict):
            if "instructions" in line and not self.session:
                self._meta(line, time)
            elif kind in _ITEMS:
                self._item(line, time)
        elif kind == "session_meta" and not self.session:
            self._meta(payload, time)
        elif kind == "turn_context":
            self.model = self.model or a_str(payload.get("model"))
        elif kind == "compacted":
            self.talk.compacted(a_str(payload.get("message")))
        elif kind == "response_item":
            self._item(payload, time)
        elif kind == "event_msg" and payload.get("type") == "user_message":
            self._typed.add(a_str(payload.get("message")).strip())

    def mark_typed(self) -> None:
        """Mark what the user typed: the model's view also holds instructions, the events repeat only the prompts."""
        for place, message in enumerate(self.talk.messages):
            if self._typed and message["role"] == "user":
                text = "\n".join(a_str(part.get("text")) for part in parts_of(message["content"]))
                self.talk.mark(place, text.strip() in self._typed)

    def _meta(self, payload: Json, time: float) -> None:
        self.session = a_str(payload.get("id"))
        self.folder = a_str(payload.get("cwd"))
        base = payload.get("base_instructions")
        self.talk.say("system", a_str(a_dict(base).get("text")) or text_at(payload, "instructions"), time)

    def _item(self, item: Json, time: float) -> None:
        kind = a_str(item.get("type"))
        if kind == "message":
            self._message(item, time)
        elif kind == "reasoning":
            texts = [a_str(part.get("text")) for key in ("summary", "content") for part in dicts(item.get(key))]
            self._thought = "\n".join(filter(None, [self._thought, *texts]))
        elif kind.endswith("_call_output") or (kind.endswith("_output") and "call_id" in item):
            self._answer = None
            self.talk.result(a_str(item.get("call_id")), _output(item.get("output")), time)
        elif kind.endswith("_call"):
            self._call(kind, item, time)

    def _message(self, item: Json, time: float) -> None:
        role, content = item.get("role"), _content(item.get("content"))
        if role == "assistant":
            if self._answer is not None and not self._answer.get("tool_calls"):
                self.talk.more(self._answer, content, thinking=self._thought)
            else:
                self._answer = self.talk.answer(content, thinking=self._thought, time=time)
            self._thought = ""
        else:
            self._answer = None
            self.talk.say("user" if role == "user" else "system", content, time)

    def _call(self, kind: str, item: Json, time: float) -> None:
        ident = text_at(item, "call_id")
        if not ident:
            self.talk.leave("calls the provider served itself")
            return
        if kind == "custom_tool_call":
            arguments: object = {"input": item.get("input")}
        else:
            arguments = item.get("arguments", item.get("action"))
        call = Call(ident, text_at(item, "name") or kind.removesuffix("_call"), arguments)
        if self._answer is None:
            self._answer = self.talk.answer(time=time)
        self.talk.more(self._answer, calls=[call], thinking=self._thought)
        self._thought = ""


def _content(value: object) -> Content:
    if isinstance(value, str):
        return value
    texts = [a_str(part.get("text")) for part in dicts(value) if part.get("type") != "input_image"]
    return with_images(texts, [text_at(part, "image_url") for part in dicts(value) if part.get("image_url")])


def _output(value: object) -> Content:
    """A text, parts, or an object with the text inside."""
    if isinstance(value, dict):
        inner = value.get("content", value.get("output"))
        return _content(inner) if isinstance(inner, str | list) else json_text(value)
    return _content(value)
