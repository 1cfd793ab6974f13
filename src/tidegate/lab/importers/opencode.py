"""OpenCode, as `opencode export` writes a session: one JSON with messages, each with its parts.

A message can hold several steps of the model, each begun by a `step-start`; a result stands inside its call.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Place, Source
from tidegate.lab.importers.talk import Call, Content, Talk, with_images

FORMAT = "opencode"


def recognises(head: Source) -> bool:
    return any(is_session(value) for value in head.dicts())


def is_session(value: Json) -> bool:
    messages = value.get("messages")
    if not isinstance(value.get("info"), dict) or not isinstance(messages, list):
        return False
    known = all(isinstance(each, dict) and "info" in each and "parts" in each for each in messages[:8])
    return known and (bool(messages) or a_str(a_dict(value["info"]).get("id")).startswith("ses_"))


def read(source: Source) -> Iterator[Recording]:
    for _, value in source.values():
        if isinstance(value, dict) and is_session(value):
            info = a_dict(value["info"])
            messages = [(a_dict(each.get("info")), dicts(each.get("parts"))) for each in dicts(value["messages"])]
            found = session(source, info, messages)
            if found:
                yield found


def session(source: Source | Place, info: Json, messages: list[tuple[Json, list[Json]]]) -> Recording | None:
    """A session of its info and its messages, each with its parts: however they were kept."""
    talk = Talk()
    model = ""
    for about, parts in messages:
        time = time_of(a_dict(about.get("time")).get("created"))
        if about.get("role") == "user":
            _user(talk, parts, time)
        elif about.get("role") == "assistant":
            model = model or text_at(about, "modelID")
            if about.get("summary") is True:
                talk.compacted("\n".join(_texts(parts)))
            else:
                _assistant(talk, parts, time)
    name = text_at(info, "id") or source.stem
    folder = text_at(info, "directory")
    model = model or text_at(a_dict(info.get("model")), "id", "modelID")
    return talk.recording(source, name, Meta(FORMAT, "OpenCode", model, name, folder, str(source.path)))


def _texts(parts: list[Json]) -> list[str]:
    return [a_str(part.get("text")) for part in parts if part.get("type") == "text" and not part.get("ignored")]


def _user(talk: Talk, parts: list[Json], time: float) -> None:
    images = []
    for part in parts:
        if part.get("type") == "file":
            if a_str(part.get("mime")).startswith("image/"):
                images.append(a_str(part.get("url")))
            else:
                talk.leave("attached files")
    texts = [part for part in parts if part.get("type") == "text" and not part.get("ignored")]
    typed = not any(part.get("synthetic") for part in texts)  # the program adds what a mentioned file holds
    talk.say("user", with_images(_texts(parts), images), time, typed=typed)


def _assistant(talk: Talk, parts: list[Json], time: float) -> None:
    """What is said behind a call of the same step is an answer of its own: results must follow their calls."""
    answer: Json | None = None
    results: list[tuple[str, Content, float]] = []
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" or (kind in ("text", "reasoning") and answer and answer.get("tool_calls")):
            answer = None
        if kind == "step-start":
            _flush(talk, results)
        elif kind in ("text", "reasoning", "tool"):
            if answer is None:
                answer = talk.answer(time=time_of(a_dict(part.get("time")).get("start")) or time)
            _part(talk, answer, part, results)
    _flush(talk, results)


def _part(talk: Talk, answer: Json, part: Json, results: list[tuple[str, Content, float]]) -> None:
    if part.get("type") == "text":
        talk.more(answer, a_str(part.get("text")))
    elif part.get("type") == "reasoning":
        talk.more(answer, thinking=a_str(part.get("text")))
    else:
        state = a_dict(part.get("state"))
        ident = text_at(part, "callID", "id")
        talk.more(answer, calls=[Call(ident, a_str(part.get("tool")), state.get("input") or {})])
        if state.get("status") in ("completed", "error"):
            content = state.get("output") if state.get("status") == "completed" else state.get("error")
            results.append((ident, a_str(content), time_of(a_dict(state.get("time")).get("end"))))


def _flush(talk: Talk, results: list[tuple[str, Content, float]]) -> None:
    for ident, content, time in results:
        talk.result(ident, content, time)
    results.clear()
