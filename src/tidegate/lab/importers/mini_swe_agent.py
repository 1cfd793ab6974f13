"""mini-swe-agent: `messages` in OpenAI chat form, with notes of the program under `extra`.

Version 2 calls tools. Version 1, and version 2 in its text mode, writes its command in a fenced block: that becomes a
call of `bash`, and what the user says next its result. A message with the role `exit` is the end, not a message.
"""

import re
from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Talk

FORMAT = "mini-swe-agent"
_BLOCK = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)


def recognises(head: Source) -> bool:
    return any(_is_trajectory(value) for value in head.dicts())


def _is_trajectory(value: Json) -> bool:
    if not isinstance(value.get("messages"), list):
        return False
    info = a_dict(value.get("info"))
    return text_at(value, "trajectory_format").startswith("mini-swe-agent") or "mini_version" in info


def read(source: Source) -> Iterator[Recording]:
    for _, value in source.values():
        if isinstance(value, dict) and _is_trajectory(value):
            talk = _talk(dicts(value["messages"]))
            config = a_dict(a_dict(value.get("info")).get("config"))
            model = text_at(a_dict(config.get("model")), "model_name")
            name = text_at(value, "instance_id") or source.stem.removesuffix(".traj")
            meta = Meta(FORMAT, "mini-swe-agent", model, name, "", str(source.path))
            found = talk.recording(source, name, meta)
            if found:
                yield found


def _talk(messages: list[Json]) -> Talk:
    talk = Talk()
    waiting = 0
    for at, message in enumerate(messages):
        role, content = message.get("role"), _content(message.get("content"))
        time = time_of(a_dict(message.get("extra")).get("timestamp"))
        if role == "assistant":
            after = messages[at + 1].get("role") if at + 1 < len(messages) else ""
            calls = _calls(message, content) if after != "exit" or message.get("tool_calls") else []
            waiting = sum(not call.id for call in calls) if after == "user" else 0
            if not waiting:
                calls = [call for call in calls if call.id]
            talk.answer(content, calls, text_at(message, "reasoning_content"), time)
        elif role == "tool":
            talk.result(text_at(message, "tool_call_id"), content, time)
        elif role == "user" and waiting:
            talk.result("", content, time)
            waiting -= 1
        elif role == "exit":
            talk.leave("messages of the program itself")
        else:
            talk.say("user" if role == "user" else "system", content, time)
    return talk


def _calls(message: Json, content: str) -> list[Call]:
    made = [
        Call(text_at(each, "id"), text_at(function, "name"), function.get("arguments"))
        for each in dicts(message.get("tool_calls"))
        for function in [a_dict(each.get("function"))]
    ]
    if made:
        return made
    noted = [a_str(each.get("command")) for each in dicts(a_dict(message.get("extra")).get("actions"))]
    commands = noted or _BLOCK.findall(content)[:1]
    return [Call("", "bash", {"command": command}) for command in commands]


def _content(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(text_at(part, "text") for part in dicts(value))
