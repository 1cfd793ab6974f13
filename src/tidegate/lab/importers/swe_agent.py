"""SWE-agent trajectories (`.traj`): `history` is what the model saw.

Where the model writes its action as text, the action becomes a call of `shell` and what the user says next its result.
The last action ends the run and is never answered: its words stay. A demonstration at the head is not the session.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, text_at
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk

FORMAT = "swe-agent"


def recognises(head: Source) -> bool:
    return any(_is_trajectory(value) for value in head.dicts())


def _is_trajectory(value: Json) -> bool:
    steps = dicts(value.get("trajectory"))
    return (
        isinstance(value.get("history"), list)
        and isinstance(value.get("trajectory"), list)
        and (not steps or "action" in steps[0])
    )


def read(source: Source) -> Iterator[Recording]:
    for _, value in source.values():
        if isinstance(value, dict) and _is_trajectory(value):
            talk = _talk(dicts(value["history"]))
            model = text_at(a_dict(a_dict(value.get("replay_config")).get("agent")), "model")
            name = text_at(value, "instance_id") or source.stem
            meta = Meta(FORMAT, "SWE-agent", model, name, text_at(value, "environment"), str(source.path))
            found = talk.recording(source, name, meta)
            if found:
                yield found


def _talk(history: list[Json]) -> Talk:
    talk = Talk()
    said = []
    for message in history:
        if message.get("is_demo") is True:
            talk.leave("messages of a demonstration")
        else:
            said.append(message)
    waiting = False
    for at, message in enumerate(said):
        role, content = message.get("role"), _content(message.get("content"))
        after = said[at + 1] if at + 1 < len(said) else {}
        if role == "assistant":
            waiting = _answer(talk, message, content, after)
        elif role == "tool":
            talk.result(a_str(next(iter(a_list(message.get("tool_call_ids"))), "")), content)
        elif role == "user" and waiting:
            talk.result("", content)
            waiting = False
        else:
            talk.say("user" if role == "user" else "system", content)
    return talk


def _answer(talk: Talk, message: Json, content: Content, after: Json) -> bool:
    """Whether what the user says next is the result of a text action."""
    made = [
        Call(
            a_str(each.get("id")),
            text_at(a_dict(each.get("function")), "name"),
            a_dict(each.get("function")).get("arguments"),
        )
        for each in dicts(message.get("tool_calls"))
    ]
    if made:
        talk.answer(content, made)
        return False
    action = a_str(message.get("action"))
    words = a_str(message.get("thought")) or content
    if action and after.get("role") == "user":
        talk.answer(words, [Call("", "shell", {"command": action})])
        return True
    if action:
        talk.leave("actions that end the run")
    talk.answer(words)
    return False


def _content(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(text_at(part, "text") for part in dicts(value))
