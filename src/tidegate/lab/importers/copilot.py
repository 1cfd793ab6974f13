"""Copilot CLI: a log of events, `events.jsonl`. What a subagent does carries the id of the call that began it."""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_str, dicts, json_text, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Talk, data_url, with_images

FORMAT = "copilot"
_EVENTS = ("session.start", "session.resume", "user.message", "assistant.message", "system.message")


def recognises(head: Source) -> bool:
    return any(value.get("type") in _EVENTS and isinstance(value.get("data"), dict) for value in head.dicts())


def read(source: Source) -> Iterator[Recording]:
    log = _Log()
    for _, value in source.values():
        if isinstance(value, dict):
            log.event(a_str(value.get("type")), a_dict(value.get("data")), time_of(value.get("timestamp")))
    name = log.session or source.stem
    meta = Meta(FORMAT, "Copilot CLI", log.model, name, log.folder, str(source.path))
    found = log.talk.recording(source, name, meta)
    if found:
        yield found


class _Log:
    def __init__(self) -> None:
        self.talk = Talk()
        self.session = self.model = self.folder = self._system = ""

    def event(self, kind: str, data: Json, time: float) -> None:
        if data.get("parentToolCallId") or data.get("agentId"):
            self.talk.leave("events of subagents")
        elif kind in ("session.start", "session.resume"):
            self.session = self.session or a_str(data.get("sessionId"))
            self.folder = self.folder or a_str(a_dict(data.get("context")).get("cwd"))
        elif kind == "system.message":
            if a_str(data.get("content")) != self._system:
                self._system = a_str(data.get("content"))
                self.talk.say("system", self._system, time)
        elif kind == "user.message":
            self._user(data, time)
        elif kind == "assistant.message":
            self._assistant(data, time)
        elif kind == "tool.execution_complete":
            self.talk.result(a_str(data.get("toolCallId")), _result(data), time)
        elif kind == "session.compaction_complete":
            self.talk.compacted(text_at(data, "summaryContent", "summary"))
        elif kind == "system.notification":
            self.talk.leave("notifications")

    def _user(self, data: Json, time: float) -> None:
        images = [
            data_url(text_at(each, "mimeType", "mime"), a_str(each.get("data")))
            for each in dicts(data.get("attachments"))
            if text_at(each, "mimeType", "mime").startswith("image/") and each.get("data")
        ]
        self.talk.say("user", with_images([a_str(data.get("content"))], images), time, typed=True)

    def _assistant(self, data: Json, time: float) -> None:
        self.model = self.model or a_str(data.get("model"))
        calls = [
            Call(a_str(each.get("toolCallId")), a_str(each.get("name")), each.get("arguments"))
            for each in dicts(data.get("toolRequests"))
        ]
        self.talk.answer(a_str(data.get("content")), calls, a_str(data.get("reasoningText")), time)


def _result(data: Json) -> str:
    result = data.get("result")
    if isinstance(result, dict):
        return text_at(result, "content", "detailedContent")
    error = data.get("error")
    if isinstance(error, dict):
        return f"Error: {json_text(error)}"
    return a_str(result) or a_str(error)
