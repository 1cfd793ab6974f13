"""A dialect of nobody's: what a package would write to add one. `TOY` is registered by a test under its name.

    {"model": "m", "rules": "Be kind.", "limit": 100, "tools": [{"name": "step", "about": "", "takes": {}}], "turns": [
        {"role": "user", "said": [{"text": "Hello"}]},
        {"role": "robot", "said": [{"do": {"id": "c1", "name": "step", "with": {}}}]},
        {"role": "user", "said": [{"did": {"id": "c1", "gave": {"output": "stepped"}}}]}]}

An answer is `{"turn": {...}, "end": "done", "cost": {"read": 10, "wrote": 2}}`; a stream has a frame for each part.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidegate.core.messages import Call, Message, Part, Result, Text, Tool
from tidegate.core.usage import Usage
from tidegate.wire.dialect import AnswerForm, Dialect, Endpoint, MessageMarks, RequestPaths
from tidegate.wire.parsing import (
    ParsedRequest,
    build_parsed_request,
    build_tool,
    build_tool_message,
    decode_object,
    read_call_arguments,
    require_field,
    require_list,
    require_object,
)
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import IdentifierRules, define_tools
from tidegate.wire.splicing.block_form import BlockForm, BlockRules, wrap_result
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.options import OutputLimit
from tidegate.wire.splicing.units import (
    HostRequest,
    HostUnit,
    PartOrigin,
    list_items,
    read_known_part,
    read_model_name,
    read_system_text,
    read_tool_list,
    split_blocks,
)
from tidegate.wire.streaming.merged_answer import KEEP, AnswerMerger
from tidegate.wire.streaming.reply import (
    Delta,
    Reply,
    as_list,
    as_object,
    as_string,
    ensure_parseable,
    incomplete_reply_error,
)
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer, cut_pieces
from tidegate.wire.usage import UsageForm, read_count
from tidegate.wire.validation.faults import RequestFault
from tidegate.wire.validation.validator import BodyFormat, MessageListValidator

NAME = "toy"
_NAMES = re.compile(r"[a-z_]{1,30}")
_CAPABILITIES = DialectCapabilities(NAME, IdentifierRules(re.compile(r"\w{1,30}"), _NAMES), user_images=False)
_encode = msgspec.json.encode


# --- parse ---------------------------------------------------------------------------------------------------------


def _read_part(part: JsonObject, what: str = "") -> Part:
    if "do" in part:
        call = require_object(part["do"], "A do")
        return Call(require_field(call, "id", "A do"), require_field(call, "name", "A do"), _arguments(call))
    return Text(require_field(part, "text", "A part"))


def _arguments(call: JsonObject) -> str:
    return read_call_arguments(call.get("with"))


def _read_result(part: object) -> Message | None:
    did = as_object(as_object(part).get("did"))
    gave = as_object(did.get("gave"))
    text = as_string(gave.get("output", gave.get("error")))
    return build_tool_message(as_string(did.get("id")), [Text(text)], "error" in gave) if did else None


def _parse_message(obj: object) -> list[Message]:
    turn = require_object(obj, "A turn")
    parts = [require_object(part, "A part") for part in require_list(turn.get("said"), "said")]
    if turn.get("role") == "robot":
        return [Message("assistant", tuple(map(_read_part, parts)), origin=NAME)]
    found = [result for part in parts if (result := _read_result(part)) is not None]
    rest = tuple(_read_part(part) for part in parts if "did" not in part)
    return [*found, Message("user", rest)] if rest else found


def _read_tool(value: object) -> Tool:
    tool = require_object(value, "A tool")
    return build_tool(require_field(tool, "name", "A tool"), tool.get("about"), tool.get("takes"))


def _parse_body(body: object) -> ParsedRequest:
    request = require_object(body, "The body")
    turns = require_list(request.get("turns"), "turns")
    tools = map(_read_tool, require_list(request.get("tools") or [], "tools"))
    return build_parsed_request(
        [each for turn in turns for each in _parse_message(turn)], as_string(request.get("rules")), tools
    )


# --- render --------------------------------------------------------------------------------------------------------


def _render_head(system: str, tools: tuple[Tool, ...], options: RequestOptions, calls: bool) -> JsonObject:
    defined = [
        {"name": each.name, "about": each.description, "takes": each.schema}
        for each in define_tools(tools, _CAPABILITIES.identifiers)
    ]
    head: JsonObject = {"model": options.model, "rules": system, "tools": defined}
    return head | ({"limit": options.max_tokens} if options.max_tokens else {})


def _render_block(block: LayoutBlock, options: RequestOptions) -> list[JsonObject]:
    said: list[JsonObject] = []
    for answer in block.answers:
        result = Result(answer.id, answer.parts, answer.error)
        said.append({"did": {"id": answer.id, "gave": wrap_result(result)}})
    for part in block.parts:
        if isinstance(part, Call):
            said.append({"do": {"id": part.id, "name": part.name, "with": msgspec.Raw(part.arguments.encode())}})
        elif isinstance(part, Text):
            said.append({"text": part.text})
    decoded = msgspec.json.decode(_encode(said))
    return [{"role": "robot" if block.side == "assistant" else "user", "said": decoded}]


# --- validate ------------------------------------------------------------------------------------------------------


class ToyValidator(MessageListValidator):
    """Sides alternate, the user is first and last, nothing is empty, and every call is answered in the next turn."""

    body_format = BodyFormat(
        "turns",
        "turns.",
        "",
        lambda _: "no body",
        lambda _: "no turns",
        lambda where, _: f"{where}: no turn",
        "no JSON",
    )

    def __init__(self, head: Mapping[str, object], profile: Any) -> None:
        super().__init__(head, profile)
        self._role = "robot"
        self._open: frozenset[str] = frozenset()
        self._read_head(head)

    def _check_head(self, head: Mapping[str, object]) -> None:
        for key in head.keys() - {"model", "rules", "limit", "tools", "turns", "stream"}:
            self._add("TOY1", f"{key}: unknown field", key)

    def _check_message(self, message: dict[str, object], at: int, where: str) -> None:
        said = [as_object(part) for part in as_list(message.get("said"))]
        if message.get("role") == self._role:
            self._add("TOY2", f"{where}: the sides must alternate", where)
        if not said or any(part.get("text") == "" for part in said):
            self._add("TOY3", f"{where}: nothing was said", where)
        answered = frozenset(as_string(as_object(part["did"]).get("id")) for part in said if "did" in part)
        if answered != self._open:
            self._add("TOY4", f"{where}: the calls before are {sorted(self._open)}", where)
        self._open = frozenset(as_string(as_object(part["do"]).get("id")) for part in said if "do" in part)
        self._role = as_string(message.get("role"))

    def _end_faults(self) -> Iterator[RequestFault]:
        if self._role != "user":
            yield RequestFault("TOY2", "the last turn must be the user's", "turns")


# --- a client's request --------------------------------------------------------------------------------------------


def _read_item(item: object, place: int) -> list[HostUnit]:
    turn = as_object(item)
    said = as_list(turn.get("said"))
    if turn.get("role") == "robot":
        parts = tuple(read_known_part(_read_part, part) for part in said)
        origins = tuple(PartOrigin(place, number) for number in range(len(parts)))
        return [HostUnit(Message("assistant", parts, origin=NAME), origins, True)]
    return split_blocks(said, place, Message("user", ()), _read_result, lambda part: read_known_part(_read_part, part))


def _read_request(body: JsonObject, memo: ReadMemo | None = None) -> HostRequest:
    memo = memo or ReadMemo()
    turns, tools = list_items(body, "turns"), body.get("tools")
    _, units = memo.read_units(turns, lambda item, place, _: _read_item(item, place), lambda found, _: found)
    listed = read_tool_list(tools, lambda tool: [_read_tool(tool)])
    return HostRequest(tuple(units), read_system_text(body.get("rules"), _read_part), listed, read_model_name(body))


def _encode_result(call_id: str, gave: object) -> bytes:
    return _encode({"did": {"id": call_id, "gave": gave}})


_FORM = BlockForm(
    BlockRules(
        key="turns",
        blocks_key="said",
        assistant_role="robot",
        encode_text=lambda text: _encode({"text": text}),
        encode_result=lambda result, _: _encode_result(result.call_id, wrap_result(result)),
        encode_hidden_result=lambda result: _encode_result(result.call_id, {"output": result.text}),
        is_result=lambda block: "did" in block,
        call_paths=(("do", "with"),),
        wrapped_result_paths=(("did", "gave"),),
    )
)
_CALLS = CallForm(
    lambda tool, schema: _encode({"name": tool.name, "about": tool.description, "takes": schema}),
    calls_key="said",
    holder="do",
    arguments_key="with",
)


# --- answers -------------------------------------------------------------------------------------------------------


class ToyAssembler:
    def __init__(self) -> None:
        self.error: JsonObject | None = None
        self._said: list[JsonObject] = []
        self._end = ""
        self._cost: JsonObject = {}

    @property
    def done(self) -> bool:
        return bool(self._end)

    def feed(self, frame: Mapping[str, object]) -> list[Delta]:
        self._end = as_string(frame.get("end"))
        self._cost = as_object(frame.get("cost"))
        part = as_object(frame.get("add"))
        if "text" not in part:
            self._said += [part] if part else []
            return []
        text = as_string(part["text"])
        if self._said and "text" in self._said[-1]:
            self._said[-1] = {"text": as_string(self._said[-1]["text"]) + text}
        else:
            self._said.append(part)
        return [Delta("text", text)]

    def finish(self) -> Reply:
        if not self.done:
            raise incomplete_reply_error()
        turn: JsonObject = {"role": "robot", "said": self._said}
        return ensure_parseable(_parse_message, Reply([turn], self._cost, "calls" if self._end == "do" else "end"))


def _frames_from_body(body: Mapping[str, object]) -> list[JsonObject]:
    said = as_list(as_object(body.get("turn")).get("said"))
    return [*({"add": part} for part in said), {"end": body.get("end"), "cost": body.get("cost")}]


def _encode_end(answer: ScriptedAnswer) -> JsonObject:
    usage = answer.usage or Usage(0, 0, 0, 0)
    end = "do" if answer.effective_stop == "calls" else "done"
    return {"end": end, "cost": {"read": usage.input_tokens, "wrote": usage.output_tokens}}


def _encode_calls(calls: Iterable[Call]) -> list[JsonObject]:
    return [{"do": {"id": each.id, "name": each.name, "with": decode_object(each.arguments)}} for each in calls]


def _encode_frames(answer: ScriptedAnswer) -> Iterator[JsonObject]:
    texts: list[JsonObject] = [{"text": piece} for piece in cut_pieces(answer.text)]
    for part in [*texts, *_encode_calls(answer.calls)]:
        yield {"add": part}
    yield _encode_end(answer)


def _encode_body(answer: ScriptedAnswer) -> JsonObject:
    texts: list[JsonObject] = [{"text": answer.text}] if answer.text else []
    return {"turn": {"role": "robot", "said": [*texts, *_encode_calls(answer.calls)]}, **_encode_end(answer)}


class ToyMerger(AnswerMerger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._said: list[object] = []

    def feed(self, frame: JsonObject) -> JsonObject | None:
        if "add" in frame:
            return KEEP if self._take(frame["add"]) else None
        return self._finish(frame)

    def _take(self, part: object) -> bool:
        call = as_object(as_object(part).get("do"))
        is_hidden = call.get("name") == self.name
        self.hidden_calls += is_hidden
        self.visible_calls += bool(call) and not is_hidden
        return not is_hidden

    def _finish(self, end: JsonObject) -> JsonObject | None:
        cost = as_object(end.get("cost"))
        if not self.ends_here(end.get("end") == "do", cost.get("wrote")):
            return None
        if not self.is_changed:
            return KEEP
        return {**end, "end": "done" if self.has_lost_its_calls else end["end"], "cost": self.sum_output(cost, "wrote")}

    def feed_body(self, body: JsonObject) -> JsonObject | None:
        turn = as_object(body.get("turn"))
        self._said += [part for part in as_list(turn.get("said")) if self._take(part)]
        found = self._finish(body)
        return {**found, "turn": {**turn, "said": self._said}} if found else found


def _read_usage(cost: Mapping[str, object]) -> Usage:
    return Usage(read_count(cost, "read"), read_count(cost, "wrote"), 0, 0)


TOY = Dialect(
    name=NAME,
    capabilities=_CAPABILITIES,
    endpoint=Endpoint("http://127.0.0.1/v1", "/toy"),
    render_head=_render_head,
    render_leading_messages=lambda system: [],
    render_block=_render_block,
    parse_message=_parse_message,
    parse_body=_parse_body,
    answers=AnswerForm(ToyAssembler, _frames_from_body, _encode_frames, _encode_body, ToyMerger),
    form=_FORM,
    calls=_CALLS,
    read_request=_read_request,
    output=OutputLimit((("limit",),)),
    usage=UsageForm(("read", "wrote"), _read_usage),
    paths=RequestPaths(("/toy",)),
    marks=MessageMarks(keys=frozenset({"said"})),
    create_validator=ToyValidator,
)
