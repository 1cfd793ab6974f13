"""OpenHands: the events of an instance (`history`), one instance a line in `output.jsonl`; also a saved trajectory.

The answer of the model stands whole in the metadata of the first action it led to. The last call, `finish`, is never
answered: its words stay, the call does not. An error that answers no action was a call the program refused to read;
the call itself is not recorded.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, with_images

FORMAT = "openhands"


def recognises(head: Source) -> bool:
    return any(_events(value) for value in [*head.dicts(), head.only()])


def read(source: Source) -> Iterator[Recording]:
    for _, value in source.values():
        events = _events(value)
        if not events:
            continue
        about = value if isinstance(value, dict) else {}
        history = _History()
        for event in events:
            history.event(event)
        name = text_at(about, "instance_id") or source.stem
        folder = text_at(a_dict(about.get("instance")), "repo")
        meta = Meta(FORMAT, "OpenHands", history.model, name, folder, str(source.path))
        found = history.talk.recording(source, name, meta)
        if found:
            yield found


def _events(value: object) -> list[Json]:
    """The history in its three forms: under a key, as a bare list, or as pairs of action and observation."""
    found = a_list(value.get("history", value.get("trajectory")) if isinstance(value, dict) else value)
    events: list[Json] = []
    for each in found:
        events.extend(dicts(each) if isinstance(each, list) else dicts([each]))
    known = any(("action" in event or "observation" in event) and "source" in event for event in events[:16])
    return events if known else []


class _History:
    def __init__(self) -> None:
        self.talk = Talk()
        self.model = ""
        self._answers: set[str] = set()
        self._left: set[str] = set()

    def event(self, event: Json) -> None:
        time = time_of(event.get("timestamp"))
        action, arguments = event.get("action"), a_dict(event.get("args"))
        told = a_dict(event.get("tool_call_metadata"))
        if action == "system":
            self.talk.say("system", a_str(arguments.get("content")), time)
            self.talk.tools = dicts(arguments.get("tools"))
        elif "observation" in event:
            self._observation(event, told, time)
        elif told:
            self._answer(told, time)
        elif action == "message":
            self._message(event, arguments, time)
        elif action == "finish":
            self.talk.answer(text_at(arguments, "final_thought", "thought") or a_str(event.get("message")), time=time)
        elif action in ("recall", "condensation", "change_agent_state"):
            self.talk.leave("events of the program itself")

    def _message(self, event: Json, arguments: Json, time: float) -> None:
        images = [url for url in a_list(arguments.get("image_urls")) if isinstance(url, str)]
        content = with_images([a_str(arguments.get("content"))], images)
        if event.get("source") == "user":
            self.talk.say("user", content, time)
        else:
            self.talk.answer(content, time=time)

    def _answer(self, told: Json, time: float) -> None:
        response = a_dict(told.get("model_response"))
        message = a_dict(next(iter(dicts(response.get("choices"))), {}).get("message"))
        self.model = self.model or a_str(response.get("model"))
        key = text_at(response, "id") or text_at(told, "tool_call_id")
        if key in self._answers:
            return
        self._answers.add(key)
        calls = []
        for made in dicts(message.get("tool_calls")):
            function = a_dict(made.get("function"))
            if function.get("name") == "finish":
                self.talk.leave("calls that end the task")
                self._left.add(a_str(made.get("id")))
            else:
                calls.append(Call(a_str(made.get("id")), a_str(function.get("name")), function.get("arguments")))
        self.talk.answer(_content(message.get("content")), calls, text_at(message, "reasoning_content"), time)

    def _observation(self, event: Json, told: Json, time: float) -> None:
        ident = text_at(told, "tool_call_id")
        if ident and ident not in self._left:
            self.talk.result(ident, a_str(event.get("content")), time)
        elif event.get("observation") == "error":
            self.talk.leave("errors that answer no call")
        else:
            self.talk.leave("events of the program itself")


def _content(value: object) -> Content:
    if isinstance(value, str):
        return value
    return "\n".join(text_at(part, "text") for part in dicts(value))
