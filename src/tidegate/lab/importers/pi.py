"""Pi: lines that form a tree by `parentId`. The session is the path from the last line up to the root."""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, data_url, with_images

FORMAT = "pi"
_ENTRIES = ("message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message")


def recognises(head: Source) -> bool:
    values = head.dicts()
    if not values:
        return False
    first = values[0]
    begins = first.get("type") == "session" and "id" in first and "cwd" in first
    return begins or all(value.get("type") in _ENTRIES and "parentId" in value for value in values)


def read(source: Source) -> Iterator[Recording]:
    lines = [value for _, value in source.values() if isinstance(value, dict)]
    header = next((line for line in lines if line.get("type") == "session"), {})
    path = _path(lines)
    session = _Session()
    dropped = sum("parentId" in line for line in lines) - sum("parentId" in line for line in path)
    if dropped > 0:
        session.talk.leave("lines of other branches", dropped)
    for line in path:
        session.line(line)
    name = text_at(header, "id") or source.stem
    meta = Meta(FORMAT, "Pi", session.model, name, text_at(header, "cwd"), str(source.path))
    found = session.talk.recording(source, name, meta)
    if found:
        yield found


def _path(lines: list[Json]) -> list[Json]:
    """From the root to the last line. Sessions of the first version have no ids: all their lines count."""
    known = {a_str(line.get("id")): line for line in lines if line.get("type") != "session" and line.get("id")}
    if not known:
        return lines
    at = next(a_str(line["id"]) for line in reversed(lines) if line.get("type") != "session" and line.get("id"))
    path: dict[str, Json] = {}
    while at in known and at not in path:
        path[at] = known[at]
        at = a_str(known[at].get("parentId"))
    return list(reversed(path.values()))


class _Session:
    def __init__(self) -> None:
        self.talk = Talk()
        self.model = ""

    def line(self, line: Json) -> None:
        kind, time = line.get("type"), time_of(line.get("timestamp"))
        if kind == "message":
            self._message(a_dict(line.get("message")), time)
        elif kind == "custom_message":
            self.talk.say("user", _content(line.get("content")), time, typed=False)
        elif kind == "compaction":
            self.talk.compacted(text_at(line, "summary"))
        elif kind == "branch_summary":
            self.talk.leave("summaries of other branches")

    def _message(self, message: Json, time: float) -> None:
        role, content = message.get("role"), message.get("content")
        if role in ("user", "custom", "hookMessage"):
            self.talk.say("user", _content(content), time, typed=role == "user")
        elif role == "toolResult":
            self.talk.result(a_str(message.get("toolCallId")), _content(content), time)
        elif role == "bashExecution":
            self._shell(message, time)
        elif role == "assistant":
            self.model = self.model or a_str(message.get("model"))
            blocks = dicts(content)
            calls = [
                Call(a_str(each.get("id")), a_str(each.get("name")), each.get("arguments"))
                for each in blocks
                if each.get("type") == "toolCall"
            ]
            thoughts = [text_at(each, "thinking") for each in blocks if each.get("type") == "thinking"]
            self.talk.answer(_content(content), calls, "\n".join(filter(None, thoughts)), time)

    def _shell(self, message: Json, time: float) -> None:
        """A command the user ran; the model is told of it unless the user said not to."""
        if message.get("excludeFromContext") is True:
            self.talk.leave("commands kept from the model")
        else:
            command, output = a_str(message.get("command")), a_str(message.get("output"))
            self.talk.say("user", f"Ran `{command}`\n```\n{output}\n```", time, typed=False)


def _content(value: object) -> Content:
    if isinstance(value, str):
        return value
    blocks = dicts(value)
    images = [
        data_url(a_str(each.get("mimeType")), a_str(each.get("data"))) for each in blocks if each.get("type") == "image"
    ]
    return with_images([a_str(each.get("text")) for each in blocks if each.get("type") == "text"], images)
