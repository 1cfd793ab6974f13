# ruff: noqa: E501 - the bodies are as clients send them
"""Edits of a view are spliced into a client's own bytes, in every dialect."""

import json
import sys
from collections.abc import Callable

import pytest

from tidegate.core.messages import OPAQUE_MEDIA, Call, Image, Message, Result, Text, Thinking
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.block_form import keep_marks
from tidegate.wire.splicing.memo import WriteMemo
from tidegate.wire.splicing.request_text import find_items
from tidegate.wire.splicing.spans import find_elements, find_members, rebuild_array, remove_member, replace_value
from tidegate.wire.splicing.units import HostRequest, ShownUnit, show_unit

ANTHROPIC = """{ "model":"claude-sonnet-4-5", "max_tokens" : 1000,"future_field":{"a":[1,2]},
 "tools":[{"name":"read","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
 "messages":[
  {"role":"user","content":"start"},
  {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"text","text":"Step 1."},
     {"type":"tool_use","id":"t1","name":"read","input":{"path": "a.txt"},"caller":{"type":"direct"}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"long \\u00e9 text"}],
     "cache_control":{"type":"ephemeral","ttl":"1h"}}, {"type":"text","text":"and now?"}]},
  {"role":"assistant","content":"fine"},
  {"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},
     {"type":"mystery","x":{"y":1},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"last"}]}
 ] }"""
CHAT = """{"model":"gpt-4o","messages":[{"role":"system","content":"be nice"},{"role":"user","content":"start"},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\\"path\\": \\"a\\"}"},"extra":1}]},
 {"role":"tool","tool_call_id":"c1","content":"long text","name":"read"},
 {"role":"user","content":"last"}],"stream_options":{"include_usage":true},"temperature":0.10}"""
RESPONSES = """{"model":"gpt-5","instructions":"be nice","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"dev"}]},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"start"}]},
 {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc"},
 {"type":"function_call","id":"fc_1","call_id":"c1","name":"shell","arguments":"{\\"cmd\\": \\"ls\\"}"},
 {"type":"local_shell_call","call_id":"c2","action":{"type":"exec","command":["ls"]},"status":"completed"},
 {"type":"function_call_output","call_id":"c1","output":"long text"},
 {"type":"local_shell_call_output","call_id":"c2","output":"more"},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"last"}]}],
 "tools":[{"type":"namespace","name":"mcp","tools":[]},{"type":"custom","name":"apply_patch"}],"store":false}"""
GEMINI = """{"contents":[{"role":"user","parts":[{"text":"start"}]},
 {"role":"model","parts":[{"text":"thinking","thought":true},{"functionCall":{"name":"read","args":{"path": "a"}},"thoughtSignature":"sig"}]},
 {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"long text"}}}]},
 {"role":"user","parts":[{"text":"last"}]}],"generationConfig":{"temperature":0},"systemInstruction":{"parts":[{"text":"be nice"}]}}"""
BODIES = {"anthropic": ANTHROPIC, "openai_chat": CHAT, "openai_responses": RESPONSES, "gemini": GEMINI}
LIST_KEYS = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input", "gemini": "contents"}
each_dialect = pytest.mark.parametrize("dialect", BODIES)


def read(dialect: str) -> HostRequest:
    return get_dialect(dialect).read_request(json.loads(BODIES[dialect]))


def write(dialect: str, shown: list[ShownUnit]) -> str:
    return get_dialect(dialect).form.write_messages(BODIES[dialect].encode(), shown, read(dialect).fixed_items).decode()


def keep_all(dialect: str) -> list[ShownUnit]:
    return [show_unit(unit, None) for unit in read(dialect).units]


def replace_results(shown: list[ShownUnit], text: str) -> list[ShownUnit]:
    found = []
    for each in shown:
        if each.unit is not None and each.unit.message.role == "tool":
            old = each.unit.message.parts[0]
            assert isinstance(old, Result)
            each = show_unit(each.unit, Message("tool", (Result(old.call_id, (Text(text),), old.error),)))
        found.append(each)
    return found


@each_dialect
def test_a_view_that_keeps_everything_gives_the_same_bytes(dialect: str) -> None:
    assert write(dialect, keep_all(dialect)) == BODIES[dialect]


@each_dialect
def test_every_dialect_reads_the_whole_conversation(dialect: str) -> None:
    roles = [unit.message.role for unit in read(dialect).units]
    assert roles[0] == "user"
    assert {"user", "assistant", "tool"} <= set(roles)
    assert ("be nice" in read(dialect).system) == (dialect != "anthropic")


def test_a_block_of_an_unknown_kind_is_carried_without_its_cache_mark() -> None:
    assert read("anthropic").units[-1].message.parts[1] == Image(OPAQUE_MEDIA, '{"type":"mystery","x":{"y":1}}')


@each_dialect
def test_an_item_that_is_no_object_is_carried_as_it_is(dialect: str) -> None:
    listed = BODIES[dialect].replace(f'"{LIST_KEYS[dialect]}":[', f'"{LIST_KEYS[dialect]}":["odd",', 1)
    request = get_dialect(dialect).read_request(json.loads(listed))
    odd = request.units[0]
    assert (odd.message, odd.is_whole) == (Message("user", (Image(OPAQUE_MEDIA, '"odd"'),)), True)
    shown = [show_unit(unit, None) for unit in request.units]
    assert get_dialect(dialect).form.write_messages(listed.encode(), shown, request.fixed_items).decode() == listed


def test_a_file_beside_a_block_of_an_unknown_kind_is_a_file() -> None:
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    item = {"type": "message", "role": "user", "content": [file, {"type": "mystery"}]}
    (unit,) = get_dialect("openai_responses").read_request({"input": [item]}).units
    assert unit.message.parts[0] == Image("application/pdf", "JVBERi0=")


def test_elements_are_put_into_an_empty_array() -> None:
    assert rebuild_array(b"[ ]", [b"1", b'"two"']) == b'[1,"two"]'


@each_dialect
def test_a_shortened_result_changes_only_its_own_value(dialect: str) -> None:
    text = write(dialect, replace_results(keep_all(dialect), "short \n é"))
    was, now = json.loads(BODIES[dialect]), json.loads(text)
    key = LIST_KEYS[dialect]
    assert {name: value for name, value in was.items() if name != key} == {n: v for n, v in now.items() if n != key}
    changed = [place for place, (old, new) in enumerate(zip(was[key], now[key], strict=True)) if old != new]
    assert len(changed) == (2 if dialect == "openai_responses" else 1)
    assert "short \\n é" in text
    assert text[:250] == BODIES[dialect][:250]


@pytest.mark.parametrize(
    "odd",
    [b'{"type":{"a":1}}', b'{"type":["text"]}', b'{"type":null}', b"{}", b'"text"', b"7", b'[{"cache_control":{}}]'],
)
def test_no_cache_mark_goes_to_a_block_of_an_unknown_form(odd: bytes) -> None:
    marked = b'{"type":"text","text":"old","cache_control":{"type":"ephemeral"}}'
    plain = b'{"type":"text","text":"new"}'
    assert keep_marks([marked, odd], [odd]) == [odd]
    assert keep_marks([plain, marked, odd], [plain, odd]) == [marked.replace(b"old", b"new"), odd]


def test_the_cache_mark_of_a_shortened_block_stays_with_its_ttl() -> None:
    now = json.loads(write("anthropic", replace_results(keep_all("anthropic"), "short")))
    block = now["messages"][2]["content"][0]
    assert block == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "short",
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    }


@each_dialect
def test_a_dropped_group_leaves_no_trace(dialect: str) -> None:
    kept = [each for each in keep_all(dialect) if each.unit and each.unit.message.role in ("user", "system")]
    text = write(dialect, kept)
    assert "read" not in json.dumps(json.loads(text)[LIST_KEYS[dialect]])
    assert "c1" not in text
    roles = [item.get("role") for item in json.loads(text)[LIST_KEYS[dialect]]]
    assert "assistant" not in roles
    assert "model" not in roles


def test_items_that_an_edit_brings_together_are_joined() -> None:
    shown = keep_all("anthropic")
    del shown[1:3]  # the call and its result; the text of that user message stays
    now = json.loads(write("anthropic", shown))["messages"]
    assert [item["role"] for item in now] == ["user", "assistant", "user"]
    assert [block["text"] for block in now[0]["content"]] == ["start", "and now?"]


def test_a_system_message_stays_the_end_of_the_users_turn() -> None:
    """Anthropic's models accept one only there. Here a note stands for all that was between it and the next turn."""
    said = [("user", "start"), ("system", "Mind the tide."), ("assistant", "fine"), ("user", "last")]
    listed = [{"role": role, "content": text} for role, text in said]
    body = json.dumps({"model": "claude-opus-5-5", "messages": listed})
    units = get_dialect("anthropic").read_request(json.loads(body)).units
    note = show_unit(None, Message("user", (Text("NOTE of the engine"),)))
    start, system, _, last = (show_unit(unit, None) for unit in units)
    now = json.loads(get_dialect("anthropic").form.write_messages(body.encode(), [start, system, note, last]))[
        "messages"
    ]
    assert now == [{"role": "user", "content": now[0]["content"]}, listed[1]]
    assert [block["text"] for block in now[0]["content"]] == ["start", "NOTE of the engine", "last"]


def test_thinking_is_left_out_after_a_changed_prefix() -> None:
    shown = [show_unit(each.unit, None, signed=False) for each in keep_all("anthropic")]
    text = write("anthropic", shown)
    assert "thinking" not in text
    assert '"caller":{"type":"direct"}' in text


@each_dialect
def test_a_message_of_the_engine_is_inserted_where_it_belongs(dialect: str) -> None:
    shown = keep_all(dialect)
    shown.insert(0, show_unit(None, Message("user", (Text("NOTE of the engine"),))))
    now = json.loads(write(dialect, shown))[LIST_KEYS[dialect]]
    place = read(dialect).fixed_items
    assert "NOTE of the engine" in json.dumps(now[place])


@each_dialect
def test_shortened_arguments_are_spliced_into_the_call(dialect: str) -> None:
    shown = keep_all(dialect)
    place = next(n for n, each in enumerate(shown) if each.unit and each.unit.message.role == "assistant")
    unit = shown[place].unit
    assert unit is not None
    parts = tuple(
        Call(part.id, part.name, '{"path":"short"}') if isinstance(part, Call) and "call" not in part.name else part
        for part in unit.message.parts
        if not isinstance(part, Thinking)
    )
    shown[place] = show_unit(unit, Message("assistant", parts))
    now = json.loads(write(dialect, shown))[LIST_KEYS[dialect]]
    said = json.dumps(now)
    assert "short" in said
    assert '"a.txt"' not in said
    assert "signature" not in said
    assert "encrypted_content" not in said
    if dialect == "openai_responses":
        assert "fc_1" not in said  # its id was bound to the reasoning
        assert "local_shell_call" in said


ODD_FIELDS = {
    "reasoning of another kind": (
        "openai_chat",
        '"content":null,"tool_calls"',
        '"reasoning_content":[{}],"tool_calls"',
    ),
    "content of another kind": ("openai_chat", '"content":null,"tool_calls"', '"content":[{"type":"x"}],"tool_calls"'),
    "a refusal of another kind": ("openai_chat", '"content":null,"tool_calls"', '"refusal":{},"tool_calls"'),
    "a signature of another kind": ("gemini", '"thoughtSignature":"sig"', '"thoughtSignature":[]'),
    "an id of another kind": ("gemini", '{"functionCall":{"name"', '{"functionCall":{"id":7,"name"'),
    "an id of a result of another kind": (
        "gemini",
        '{"functionResponse":{"name"',
        '{"functionResponse":{"id":7,"name"',
    ),
}


@pytest.mark.parametrize("case", ODD_FIELDS)
def test_a_call_is_read_although_a_field_beside_it_has_an_unknown_form(case: str) -> None:
    """Else its result would have no call, and would leave the view alone."""
    dialect, plain, odd = ODD_FIELDS[case]
    assert plain in BODIES[dialect]
    units = get_dialect(dialect).read_request(json.loads(BODIES[dialect].replace(plain, odd))).units
    parts = [part for unit in units for part in unit.message.parts]
    (call,) = (part for part in parts if isinstance(part, Call))
    (result,) = (part for part in parts if isinstance(part, Result))
    assert (call.name, json.loads(call.arguments), result.call_id) == ("read", {"path": "a"}, call.id)


def test_unknown_content_is_opaque_and_counted() -> None:
    unit = read("anthropic").units[-1]
    kinds = [getattr(part, "media", "text") for part in unit.message.parts]
    assert kinds == ["application/pdf", "application/json", "text"]
    assert [tool.name for tool in read("openai_responses").tools] == ["mcp", "apply_patch"]


def test_requests_whose_past_the_provider_stores_are_not_managed() -> None:
    body: dict[str, object] = {"model": "gpt-5", "input": [{"type": "item_reference", "id": "x"}]}
    assert get_dialect("openai_responses").read_request(body).reason
    assert get_dialect("openai_responses").read_request({"input": "hi", "previous_response_id": "resp_1"}).reason
    assert get_dialect("gemini").read_request({"contents": [], "cachedContent": "cachedContents/1"}).reason


def test_a_single_text_as_input_can_be_edited() -> None:
    body = b'{"model":"gpt-5","input":"hello"}'
    units = get_dialect("openai_responses").read_request(json.loads(body)).units
    assert units[0].message.parts == (Text("hello"),)
    note = show_unit(None, Message("user", (Text("note"),)))
    now = json.loads(
        get_dialect("openai_responses").form.write_messages(body, [note, *(show_unit(unit, None) for unit in units)])
    )
    assert [item["content"][0]["text"] for item in now["input"]] == ["note", "hello"]


def test_spans_survive_any_spacing_and_escapes() -> None:
    text = b' { "a\\"b" : [ 1 , {"x":"\\\\"} ] , "c":{} , "d" : "}" } '
    members = find_members(text)
    assert [text[member.value : member.end] for member in members.values()] == [b'[ 1 , {"x":"\\\\"} ]', b"{}", b'"}"']
    inner = text[members['a"b'].value : members['a"b'].end]
    assert [inner[each.start : each.end] for each in find_elements(inner)] == [b"1", b'{"x":"\\\\"}']
    for key in members:
        assert json.loads(remove_member(text, key)) == {k: v for k, v in json.loads(text).items() if k != key}
    assert json.loads(replace_value(text, ("c",), b"7"))["c"] == 7


def test_a_body_that_repeats_a_key_is_refused() -> None:
    with pytest.raises(Exception, match="there twice"):
        find_members(b'{"messages":[1],"messages":[2]}')


def make_loop(dialect: str, steps: int, model: str = "m") -> bytes:
    """A request of a tool loop with this many calls and results."""
    items: list[dict[str, object]] = []
    for step in range(steps):
        ident, output = f"c{step}", f"output {step}"
        call: dict[str, object] = {"id": ident, "name": "read", "args": {"n": step}}
        if dialect == "anthropic":
            use = {"type": "tool_use", "id": ident, "name": "read", "input": {"n": step}}
            result = {"type": "tool_result", "tool_use_id": ident, "content": output}
            items += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        elif dialect == "gemini":
            answer = {"functionResponse": {"id": ident, "name": "read", "response": {"output": output}}}
            items += [{"role": "model", "parts": [{"functionCall": call}]}, {"role": "user", "parts": [answer]}]
        elif dialect == "openai_chat":
            function = {"name": "read", "arguments": json.dumps({"n": step})}
            calls = [{"id": ident, "type": "function", "function": function}]
            items.append({"role": "assistant", "content": None, "tool_calls": calls})
            items.append({"role": "tool", "tool_call_id": ident, "content": output})
        else:
            called = {"call_id": ident, "name": "read", "arguments": json.dumps({"n": step})}
            items.append({"type": "function_call", **called})
            items.append({"type": "function_call_output", "call_id": ident, "output": output})
    text = {"parts": [{"text": "start"}]} if dialect == "gemini" else {"content": "start"}
    return json.dumps({"model": model, LIST_KEYS[dialect]: [{"role": "user", **text}, *items], "stream": True}).encode()


def edit_loop(request: HostRequest, dropped: int, shortened: int) -> list[ShownUnit]:
    """A view without the first calls, in which the next results are shorter, and with a note of the engine."""
    first, *loop = [show_unit(unit, None) for unit in request.units]
    short = replace_results(loop[2 * dropped : 2 * (dropped + shortened)], "short")
    note = show_unit(None, Message("user", (Text(f"{dropped} calls left"),)))
    return [first, note, *short, *loop[2 * (dropped + shortened) :]]


@each_dialect
def test_a_view_written_with_the_memo_of_the_last_one_has_the_same_bytes(dialect: str) -> None:
    memo, reused = WriteMemo(), []
    views = [(steps, 2, 3) for steps in range(7, 14)]
    views += [(steps, 7, 4) for steps in range(14, 20)]  # a sweep
    views += [(20, 2, 3), (21, 2, 3), (22, 0, 0), (23, 7, 4), (24, 7, 4)]  # an undo of it, of both, and another sweep
    for steps, *edits in views:
        body = make_loop(dialect, steps)
        request = get_dialect(dialect).read_request(json.loads(body))
        shown, items = edit_loop(request, *edits), find_items(body, LIST_KEYS[dialect])
        reused.append(memo.find(body, items, shown) is not None)
        written = get_dialect(dialect).form.write_messages(body, shown, request.fixed_items, items, memo)
        assert written == get_dialect(dialect).form.write_messages(body, shown, request.fixed_items)
    assert [steps for (steps, *_), known in zip(views, reused, strict=True) if not known] == [7, 14, 20, 22, 23]


@each_dialect
def test_the_memo_of_a_view_holds_under_another_head_and_not_for_other_bytes(dialect: str) -> None:
    memo, key = WriteMemo(), LIST_KEYS[dialect]
    for body, is_known in (
        (make_loop(dialect, 9), False),
        (make_loop(dialect, 10, model="another-model"), True),
        (make_loop(dialect, 11).replace(b'"start"', b'"st\\u0061rt"'), False),  # the same message in other bytes
        (make_loop(dialect, 12).replace(b"output 6", b"output six"), False),
        (make_loop(dialect, 3), False),
    ):
        request = get_dialect(dialect).read_request(json.loads(body))
        shown, items = edit_loop(request, 1, 1), find_items(body, key)
        assert (memo.find(body, items, shown) is not None) == is_known, body
        written = get_dialect(dialect).form.write_messages(body, shown, request.fixed_items, items, memo)
        assert written == get_dialect(dialect).form.write_messages(body, shown, request.fixed_items)


def make_dialogue(dialect: str, turns: int) -> bytes:
    """A request with questions and answers, and a last question."""
    texts = [("user" if place % 2 == 0 else "assistant", f"text {place}") for place in range(2 * turns + 1)]
    if dialect == "gemini":
        items = [{"role": {"user": "user"}.get(role, "model"), "parts": [{"text": text}]} for role, text in texts]
    else:
        items = [{"role": role, "content": text} for role, text in texts]
    return json.dumps({"model": "m", LIST_KEYS[dialect]: items}).encode()


def edit_dialogue(request: HostRequest, dropped: int) -> list[ShownUnit]:
    """A view without the first answers, and with a note of the engine after each of the other questions."""
    units = request.units
    note = show_unit(None, Message("user", (Text("a hint"),)))
    questions = [show_unit(unit, None) for unit in units[: 2 * dropped : 2]]
    pairs = [[show_unit(units[place], None), note] for place in range(2 * dropped, len(units), 2)]
    answers = [[show_unit(unit, None)] for unit in units[2 * dropped + 1 :: 2]]
    return [*questions, *(each for pair in zip(pairs, [*answers, []], strict=True) for part in pair for each in part)]


@each_dialect
def test_a_view_with_a_note_in_each_turn_is_written_with_the_memo_of_the_last_one(dialect: str) -> None:
    memo, key = WriteMemo(), LIST_KEYS[dialect]
    for turns in range(9, 13):
        body = make_dialogue(dialect, turns)
        request = get_dialect(dialect).read_request(json.loads(body))
        shown, items = edit_dialogue(request, 5), find_items(body, key)
        known = memo.find(body, items, shown)
        assert (known is not None) == (turns > 9)
        assert known is None or len(shown) - len(known.units) <= 6  # the rest: two turns
        written = get_dialect(dialect).form.write_messages(body, shown, request.fixed_items, items, memo)
        assert written == get_dialect(dialect).form.write_messages(body, shown, request.fixed_items)


def count_calls(act: Callable[[], object]) -> int:
    """How many functions are called."""
    calls, previous = 0, sys.getprofile()

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(previous)
    return calls


@each_dialect
def test_writing_messages_that_become_one_takes_work_by_their_number(dialect: str) -> None:
    """Each was joined with all before it, so the work grew by the square of their number."""

    def work(turns: int) -> int:
        body = make_dialogue(dialect, turns)
        request = get_dialect(dialect).read_request(json.loads(body))
        shown = edit_dialogue(request, turns)
        return count_calls(lambda: get_dialect(dialect).form.write_messages(body, shown, request.fixed_items))

    assert work(160) < 3 * work(80)


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_results_of_messages_that_become_one_come_first(dialect: str) -> None:
    request = get_dialect(dialect).read_request(json.loads(make_loop(dialect, 3)))
    body = make_loop(dialect, 3)
    shown = [show_unit(unit, None) for unit in request.units if unit.message.role != "assistant"]
    items = json.loads(get_dialect(dialect).form.write_messages(body, shown))[LIST_KEYS[dialect]]
    (joined,) = items
    blocks = joined["parts" if dialect == "gemini" else "content"]
    assert ["text" in block for block in blocks] == [False, False, False, True]


def test_answers_with_calls_are_not_joined_in_openai_chat() -> None:
    def answer(text: object, *calls: str) -> dict[str, object]:
        made = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in calls]
        return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}

    blocks = [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]
    answers = [answer("a"), answer("b"), answer(blocks), answer("e", "c1"), answer("f"), answer("g")]
    items = [item for each in answers for item in ({"role": "user", "content": "?"}, each)]
    body = json.dumps({"messages": items}).encode()
    units = get_dialect("openai_chat").read_request(json.loads(body)).units
    shown = [show_unit(unit, None) for unit in (units[0], *units[1::2])]
    _, first, second = json.loads(get_dialect("openai_chat").form.write_messages(body, shown))["messages"]
    said = [{"type": "text", "text": text} for text in ("a\n\nb", "c", "d", "e")]
    assert first == answer(said, "c1")
    assert second == answer("f\n\ng")
