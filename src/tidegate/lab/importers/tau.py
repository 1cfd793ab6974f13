"""tau-bench and tau2-bench results: many simulated conversations in one file.

In tau2 the simulated user may have tools of its own; the agent never sees these calls. The system prompt is not in the
file: it is made of the policy, as the agent gets it.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Talk

FORMAT, FORMAT2 = "tau-bench", "tau2-bench"


def recognises(head: Source) -> bool:
    return any(_is_tau2(value) or _is_run(value) for _, top in head.head for value in _runs(top)[:4])


def _runs(value: object) -> list[Json]:
    return dicts(value) if isinstance(value, list) else dicts([value])


def _is_run(value: Json) -> bool:
    return isinstance(value.get("traj"), list) and "task_id" in value


def _is_tau2(value: Json) -> bool:
    return isinstance(value.get("simulations"), list) and isinstance(value.get("info"), dict)


def read(source: Source) -> Iterator[Recording]:
    for _, top in source.values():
        for value in _runs(top):
            if _is_tau2(value):
                yield from _simulations(source, value)
            elif _is_run(value):
                name = f"{source.stem}-task{value['task_id']}-trial{value.get('trial', 0)}"
                meta = Meta(FORMAT, "tau-bench", "", name, source.stem, str(source.path))
                found = _chat(dicts(value["traj"]), "").recording(source, name, meta)
                if found:
                    yield found


def _simulations(source: Source, value: Json) -> Iterator[Recording]:
    info = a_dict(value["info"])
    policy = text_at(a_dict(info.get("environment_info")), "policy")
    domain = text_at(a_dict(info.get("environment_info")), "domain_name")
    model = text_at(a_dict(info.get("agent_info")), "llm")
    for simulation in dicts(value["simulations"]):
        name = text_at(simulation, "id") or f"{source.stem}-task{simulation.get('task_id')}"
        meta = Meta(FORMAT2, "tau2-bench", model, name, domain or source.stem, str(source.path))
        found = _chat(dicts(simulation.get("messages")), policy).recording(source, name, meta)
        if found:
            yield found


def _chat(messages: list[Json], policy: str) -> Talk:
    talk = Talk()
    if policy:
        talk.say("system", f"<policy>\n{policy}\n</policy>")
    for message in messages:
        role, content = message.get("role"), a_str(message.get("content"))
        time = time_of(message.get("timestamp"))
        if role == "tool":
            for each in dicts(message.get("tool_messages")) or [message]:
                _result(talk, each, time)
        elif role == "assistant":
            talk.answer(content, [_call(each) for each in dicts(message.get("tool_calls"))], "", time)
        else:
            if role == "user" and a_list(message.get("tool_calls")):
                talk.leave("calls of the simulated user")
            talk.say("user" if role == "user" else "system", content, time)
    return talk


def _call(call: Json) -> Call:
    function = a_dict(call.get("function")) or call
    return Call(text_at(call, "id"), text_at(function, "name"), function.get("arguments"))


def _result(talk: Talk, message: Json, time: float) -> None:
    if message.get("requestor") == "user":
        talk.leave("results for the simulated user")
    else:
        talk.result(text_at(message, "tool_call_id", "id"), a_str(message.get("content")), time)
