"""tau-bench and tau2-bench results: many simulated conversations in one file.

In tau2 the simulated user may have tools of its own; the agent never sees these calls. The system prompt is not in the
file: it is built from the policy, as the agent gets it.
"""

from collections.abc import Iterator

from tidegate.lab.importers.conversation_builder import ConversationBuilder, RecordedCall
from tidegate.lab.importers.json_fields import (
    first_text,
    list_objects,
    list_or_empty,
    object_or_empty,
    parse_recorded_time,
    string_or_empty,
)
from tidegate.lab.importers.recording import JsonRecord, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import SourceFile

FORMAT, _TAU2_FORMAT = "tau-bench", "tau2-bench"


def recognizes(head: SourceFile) -> bool:
    return any(_is_tau2(value) or _is_run(value) for _, top in head.head for value in _list_runs(top)[:4])


def _list_runs(value: object) -> list[JsonRecord]:
    return list_objects(value) if isinstance(value, list) else list_objects([value])


def _is_run(value: JsonRecord) -> bool:
    return isinstance(value.get("traj"), list) and "task_id" in value


def _is_tau2(value: JsonRecord) -> bool:
    return isinstance(value.get("simulations"), list) and isinstance(value.get("info"), dict)


def read(source: SourceFile) -> Iterator[Recording]:
    for _, top in source.read_values():
        for value in _list_runs(top):
            if _is_tau2(value):
                yield from _read_simulations(source, value)
            elif _is_run(value):
                name = f"{source.stem}-task{value['task_id']}-trial{value.get('trial', 0)}"
                meta = RecordingOrigin(FORMAT, "tau-bench", "", name, source.stem, str(source.path))
                recording = _build_conversation(list_objects(value["traj"]), "").build_recording(source, name, meta)
                if recording:
                    yield recording


def _read_simulations(source: SourceFile, value: JsonRecord) -> Iterator[Recording]:
    info = object_or_empty(value["info"])
    policy = first_text(object_or_empty(info.get("environment_info")), "policy")
    domain = first_text(object_or_empty(info.get("environment_info")), "domain_name")
    model = first_text(object_or_empty(info.get("agent_info")), "llm")
    for simulation in list_objects(value["simulations"]):
        name = first_text(simulation, "id") or f"{source.stem}-task{simulation.get('task_id')}"
        meta = RecordingOrigin(_TAU2_FORMAT, "tau2-bench", model, name, domain or source.stem, str(source.path))
        recording = _build_conversation(list_objects(simulation.get("messages")), policy).build_recording(
            source, name, meta
        )
        if recording:
            yield recording


def _build_conversation(messages: list[JsonRecord], policy: str) -> ConversationBuilder:
    talk = ConversationBuilder()
    if policy:
        talk.add_message("system", f"<policy>\n{policy}\n</policy>")
    for message in messages:
        role, content = message.get("role"), string_or_empty(message.get("content"))
        time = parse_recorded_time(message.get("timestamp"))
        if role == "tool":
            for each in list_objects(message.get("tool_messages")) or [message]:
                _add_result(talk, each, time)
        elif role == "assistant":
            talk.add_answer(content, [_read_call(each) for each in list_objects(message.get("tool_calls"))], "", time)
        else:
            if role == "user" and list_or_empty(message.get("tool_calls")):
                talk.count_omitted("calls of the simulated user")
            talk.add_message("user" if role == "user" else "system", content, time)
    return talk


def _read_call(call: JsonRecord) -> RecordedCall:
    function = object_or_empty(call.get("function")) or call
    return RecordedCall(first_text(call, "id"), first_text(function, "name"), function.get("arguments"))


def _add_result(talk: ConversationBuilder, message: JsonRecord, time: float) -> None:
    if message.get("requestor") == "user":
        talk.count_omitted("results for the simulated user")
    else:
        talk.add_result(first_text(message, "tool_call_id", "id"), string_or_empty(message.get("content")), time)
