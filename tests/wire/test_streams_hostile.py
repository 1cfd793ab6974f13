"""Streams no provider should send, and some do."""

from typing import Any

import pytest

from tests.fake.recorded import CHAT_CALLS, CLAUDE_START, block, called, candidate, chunk, claude_end, grown, piece
from tidegate import Session
from tidegate.core.errors import BadInput
from tidegate.core.messages import calls_of
from tidegate.wire.answers import create_assembler, parse_reply
from tidegate.wire.limits import LimitExceeded
from tidegate.wire.streaming.reply import IncompleteReply, Reply
from tidegate.wire.streaming.sse import SseFrame, decode_frame

Json = dict[str, Any]
WIRES = ("openai_chat", "mistral", "deepseek", "openai_responses", "anthropic", "gemini")


def reply(wire: str, *frames: Json) -> Reply:
    answer = create_assembler(wire)
    for frame in frames:
        answer.feed(frame)
    return answer.finish()


def chat_calls(*frames: Json, finish: str = "tool_calls") -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls, after a way through a session that must render them valid."""
    found = reply("openai_chat", *frames, chunk({}, finish))
    went_through("openai_chat", found)
    calls = found.message["tool_calls"]
    assert isinstance(calls, list)
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]


def went_through(wire: str, found: Reply) -> str:
    session = Session("m", wire=wire, window=50_000, tools=[{"name": "read"}])
    session.add({"role": "user", "content": "Go."})
    for ident in session.add(*parse_reply(wire, found)):
        for call in calls_of(session.recall(ident)):
            session.add({"role": "tool", "tool_call_id": call.id, "content": "done"})
    session.add({"role": "user", "content": "And on."})
    return session.prepare().to_bytes().decode()


# --- calls that are hard to tell apart ----------------------------------------------------------------------------


def test_repeated_ids_become_two() -> None:
    frames = [chunk(piece(n, "{}", id="call_0", name="read")) for n in range(3)]
    assert [ident for ident, _, _ in chat_calls(*frames)] == ["call_0", "call_0_2", "call_0_3"]


def test_made_up_id_takes_none_that_was_given() -> None:
    frames = [chunk(piece(0, "{}", name="read")), chunk(piece(1, "{}", name="read", id="call_0"))]
    assert [ident for ident, _, _ in chat_calls(*frames)] == ["call_0_2", "call_0"]


def test_every_call_at_index_zero() -> None:
    frames = [chunk(piece(0, '{"n": 1}', id="a", name="read")), chunk(piece(0, '{"n": 2}', id="b", name="read"))]
    assert chat_calls(*frames) == [("a", "read", '{"n": 1}'), ("b", "read", '{"n": 2}')]


def test_no_index_at_all() -> None:
    calls = [{"id": "a", "function": {"name": "read", "arguments": '{"n":'}}, {"function": {"arguments": " 1}"}}]
    again = {"id": "b", "function": {"name": "read", "arguments": "{}"}}
    frames = [chunk({"tool_calls": [call]}) for call in (*calls, again)]
    assert chat_calls(*frames) == [("a", "read", '{"n": 1}'), ("b", "read", "{}")]


def test_name_and_id_repeated_with_every_piece() -> None:
    frames = [chunk(piece(0, text, id="a", name="read")) for text in ('{"n"', ": 1}")]
    assert chat_calls(*frames) == [("a", "read", '{"n": 1}')]


def test_another_id_with_every_piece_is_still_one_call() -> None:
    frames = [chunk(piece(0, '{"n"', id="a", name="read")), chunk(piece(0, ": 1}", id="b"))]
    assert chat_calls(*frames) == [("a", "read", '{"n": 1}')]


def test_call_without_a_name_is_kept_and_renders() -> None:
    assert chat_calls(chunk(piece(0, '{"n": 1}', id="a"))) == [("a", "", '{"n": 1}')]
    frames = block(0, {"type": "tool_use", "id": "toolu_1"}, *grown("input_json_delta", "partial_json", "{}"))
    found = reply("anthropic", CLAUDE_START, *frames, *claude_end("tool_use"))
    assert found.message["content"] == [{"type": "tool_use", "id": "toolu_1", "name": "", "input": {}}]
    went_through("anthropic", found)
    found = reply("gemini", candidate({"functionCall": {"args": {}}}, finish="STOP"))
    assert found.message["parts"] == [{"functionCall": {"args": {}, "id": "call_0", "name": ""}}]
    went_through("gemini", found)
    item = {"type": "function_call", "arguments": "{}"}
    found = reply("openai_responses", {"type": "response.completed", "response": {"output": [item]}})
    assert found.messages == [item | {"call_id": "call_0", "name": ""}]
    went_through("openai_responses", found)


def test_empty_slot_is_no_call() -> None:
    found = reply("openai_chat", chunk({"content": "a"}), chunk(piece(0, "", id="a")), chunk({}, "stop"))
    assert (found.message, found.stop) == ({"role": "assistant", "content": "a"}, "end")


def test_arguments_as_an_object_are_written_down() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": {"n": 1}}}
    assert chat_calls(chunk({"tool_calls": [call]})) == [("a", "read", '{"n":1}')]


def test_old_function_call_becomes_a_call() -> None:
    frames = [chunk({"function_call": {"name": "read"}}), chunk({"function_call": {"arguments": "{}"}})]
    assert chat_calls(*frames, finish="function_call") == [("call_0", "read", "{}")]


def test_anthropic_blocks_at_one_index_and_with_one_id() -> None:
    start = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    found = reply("anthropic", CLAUDE_START, *block(0, start), *block(0, start), *claude_end("tool_use"))
    content = found.message["content"]
    assert isinstance(content, list)
    assert [each["id"] for each in content] == ["toolu_1", "toolu_1_2"]
    went_through("anthropic", found)


# --- how it stopped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop"])
def test_arguments_cut_in_the_middle_are_told(finish: str) -> None:
    found = reply("openai_chat", chunk(piece(0, '{"path": "a.t', id="a", name="read")), chunk({}, finish))
    assert found.stop == ("length" if finish == "length" else "calls")
    assert (found.provider_stop, found.broken_call_ids) == (finish, ("a",))
    went_through("openai_chat", found)


def test_arguments_cut_in_the_middle_are_told_by_anthropic() -> None:
    start = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    cut = block(0, start, *grown("input_json_delta", "partial_json", '{"path": "a.t'))
    for reason in ("max_tokens", "tool_use"):
        found = reply("anthropic", CLAUDE_START, *cut, *claude_end(reason))
        assert found.stop == ("length" if reason == "max_tokens" else "calls")
        assert found.broken_call_ids == ("toolu_1",)
        assert "a.t" in went_through("anthropic", found)


def test_arguments_cut_in_the_middle_are_told_by_responses() -> None:
    item = {"type": "function_call", "call_id": "a", "name": "read", "arguments": '{"path": "a.t'}
    ended = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [item]}
    found = reply("openai_responses", {"type": "response.incomplete", "response": ended})
    assert (found.stop, found.provider_stop, found.broken_call_ids) == ("length", "max_output_tokens", ("a",))
    went_through("openai_responses", found)


def test_free_text_of_a_custom_tool_is_not_cut() -> None:
    item = {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "*** Begin"}
    found = reply("openai_responses", {"type": "response.completed", "response": {"output": [item]}})
    assert (found.stop, found.broken_call_ids) == ("calls", ())
    call = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    found = reply("openai_chat", chunk({"tool_calls": [call]}), chunk({}, "tool_calls"))
    assert (found.stop, found.broken_call_ids) == ("calls", ())
    assert found.message["tool_calls"] == [{key: value for key, value in call.items() if key != "index"}]


STOPS = [
    ("openai_chat", "stop", "end"),
    ("openai_chat", "length", "length"),
    ("openai_chat", "content_filter", "filtered"),
    ("openai_chat", "model_context_window_exceeded", "length"),
    ("openai_chat", "insufficient_system_resource", "unknown"),
    ("anthropic", "end_turn", "end"),
    ("anthropic", "stop_sequence", "end"),
    ("anthropic", "max_tokens", "length"),
    ("anthropic", "model_context_window_exceeded", "length"),
    ("anthropic", "pause_turn", "paused"),
    ("anthropic", "refusal", "refused"),
    ("anthropic", "new_reason", "unknown"),
    ("gemini", "STOP", "end"),
    ("gemini", "MAX_TOKENS", "length"),
    ("gemini", "SAFETY", "filtered"),
    ("gemini", "IMAGE_SAFETY", "filtered"),
    ("gemini", "MALFORMED_FUNCTION_CALL", "unknown"),
]


@pytest.mark.parametrize(("wire", "reason", "stop"), STOPS)
def test_reasons_to_stop(wire: str, reason: str, stop: str) -> None:
    frames = {
        "openai_chat": [chunk({"content": "a"}), chunk({}, reason)],
        "anthropic": [CLAUDE_START, *block(0, {"type": "text", "text": "a"}), *claude_end(reason)],
        "gemini": [candidate({"text": "a"}, finish=reason)],
    }
    found = reply(wire, *frames[wire])
    assert (found.stop, found.provider_stop) == (stop, reason)


def test_calls_under_the_name_of_an_ordinary_end_are_calls() -> None:
    assert reply("openai_chat", chunk(piece(0, "{}", id="a", name="read")), chunk({}, "stop")).stop == "calls"


def test_only_the_broken_call_is_named() -> None:
    calls = [piece(0, '{"n": 1}', id="a", name="read"), piece(1, '{"n"', id="b", name="read"), piece(2, "", name="x")]
    found = reply("openai_chat", *map(chunk, calls), chunk({}, "tool_calls"))
    assert (found.stop, found.broken_call_ids) == ("calls", ("b",))


def test_calls_that_never_came_are_an_ordinary_end() -> None:
    assert reply("openai_chat", chunk({"content": "a"}), chunk({}, "tool_calls")).stop == "end"


def test_refusals_are_told_and_kept() -> None:
    found = reply("openai_chat", chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop"))
    assert (found.stop, found.message["refusal"]) == ("refused", "I cannot.")
    item = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert reply("openai_responses", {"type": "response.completed", "response": {"output": [item]}}).stop == "refused"


def test_blocked_prompt_is_filtered() -> None:
    found = reply("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert (found.stop, found.provider_stop, found.message) == (
        "filtered",
        "PROHIBITED_CONTENT",
        {"role": "model", "parts": []},
    )


def test_reasons_that_are_none() -> None:
    answer = create_assembler("openai_chat")
    answer.feed(chunk({"content": "a"}, "null"))
    assert not answer.done
    answer.feed(chunk({"content": "b"}, "stop"))
    assert answer.finish().message["content"] == "ab"
    answer = create_assembler("gemini")
    answer.feed(candidate({"text": "a"}, finish="FINISH_REASON_UNSPECIFIED"))
    assert not answer.done


def test_answer_that_cannot_be_read_is_no_answer() -> None:
    part = {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}
    with pytest.raises(IncompleteReply, match=r"cannot be read: .*audio/wav"):
        reply("gemini", candidate({"text": "Listen:"}, part, finish="STOP"))


# --- reasoning under its many names -------------------------------------------------------------------------------


def test_openrouter_details_are_kept_exactly() -> None:
    details = [
        {"type": "reasoning.text", "text": "Think", "index": 0, "format": "anthropic-claude-v1"},
        {"type": "reasoning.text", "text": "ing.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "gAAA", "index": 1},
    ]
    frames = [chunk({"reasoning": each.get("text"), "reasoning_details": [each]}) for each in details]
    found = reply("openai_chat", *frames, chunk({"content": "Done."}), chunk({}, "stop"))
    first = {"type": "reasoning.text", "text": "Thinking.", "index": 0, "format": "anthropic-claude-v1"}
    assert found.message["reasoning_details"] == [first | {"signature": "c2ln"}, details[2]]
    assert found.message["reasoning"] == "Thinking."
    went_through("openai_chat", found)


def test_mistral_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "Yes."}]
    found = reply("mistral", chunk({"content": parts}), chunk({"content": " Sure."}), chunk({}, "stop"))
    assert found.message == {"role": "assistant", "content": "Yes. Sure.", "reasoning_content": "Hm."}
    went_through("mistral", found)


def test_unknown_blocks_and_citations_are_kept() -> None:
    cited = block(1, {"type": "text", "text": "Yes"}, {"type": "citations_delta", "citation": {"url": "u"}})
    served = block(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    odd = block(2, {"type": "text", "text": "."}, {"type": "odd_delta", "x": 1}, {"type": "text_delta", "text": "."})
    found = reply("anthropic", CLAUDE_START, *served, *cited, *odd, *claude_end("end_turn"))
    assert found.message["content"] == [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "text", "text": "Yes", "citations": [{"url": "u"}]},
        {"type": "text", "text": ".."},
    ]
    assert found.stop == "end"


def test_delta_of_a_block_nobody_started() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
    lost = {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}}
    found = reply("anthropic", CLAUDE_START, delta, lost, *claude_end("end_turn"))
    assert found.message["content"] == [{"type": "text", "text": "a"}]


def test_responses_without_items_in_the_last_event() -> None:
    deltas = [{"type": "response.output_text.delta", "output_index": 0, "delta": text} for text in ("a", "b")]
    found = reply("openai_responses", *deltas, {"type": "response.completed", "response": {"model": "m"}})
    assert found.messages == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ab"}]}
    ]
    assert found.stop == "end"


def test_delta_of_an_item_that_is_done() -> None:
    item = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    late = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}
    answer = create_assembler("openai_responses")
    assert [delta.text for frame in (done, late) for delta in answer.feed(frame)] == ["read"]
    answer.feed({"type": "response.completed", "response": {}})
    assert answer.finish().messages == [item]


# --- usage --------------------------------------------------------------------------------------------------------


def test_zero_does_not_overwrite_what_was_known() -> None:
    end = claude_end("end_turn")
    end[0]["usage"] = {"input_tokens": 0, "output_tokens": 9, "cache_read_input_tokens": None}
    found = reply("anthropic", CLAUDE_START, *block(0, {"type": "text", "text": "a"}), *end)
    assert found.usage == {"input_tokens": 40, "cache_read_input_tokens": 900, "output_tokens": 9}


def test_no_usage_is_said_as_none() -> None:
    assert reply("openai_chat", chunk({"content": "a"}), chunk({}, "stop")).usage == {}


# --- what is no answer --------------------------------------------------------------------------------------------

ERROR = {"type": "overloaded_error", "message": "Overloaded"}
FAILED: list[tuple[str, Json]] = [
    ("openai_chat", {"error": ERROR}),
    ("openai_chat", chunk({}) | {"choices": [{"index": 0, "error": ERROR}]}),
    ("anthropic", {"type": "error", "error": ERROR}),
    ("openai_responses", {"type": "error", "error": ERROR}),
    ("openai_responses", {"type": "response.failed", "response": {"status": "failed", "error": ERROR}}),
    ("gemini", {"error": ERROR}),
]


@pytest.mark.parametrize(("wire", "frame"), FAILED)
def test_error_frame_is_kept_and_ends_the_answer(wire: str, frame: Json) -> None:
    answer = create_assembler(wire)
    assert answer.feed(frame) == []
    assert answer.error == ERROR
    assert not answer.done
    for more in (chunk({"content": "a"}, "stop"), *claude_end("end_turn"), candidate({"text": "a"}, finish="STOP")):
        answer.feed(more)
    with pytest.raises(IncompleteReply):
        answer.finish()


def test_error_behind_the_end_unmakes_the_answer() -> None:
    answer = create_assembler("openai_chat")
    for frame in (*CHAT_CALLS.frames, {"error": "upstream died"}):
        answer.feed(frame)
    assert answer.error == {"message": "upstream died"}
    assert not answer.done


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_no_answer(wire: str) -> None:
    with pytest.raises(IncompleteReply):
        create_assembler(wire).finish()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("value", [None, 1, "a", [], ["a"], {}, {"a": None}, [{"index": "x"}], True])
def test_frames_of_any_shape_do_no_harm(wire: str, value: object) -> None:
    answer = create_assembler(wire)
    keys = (
        "choices delta message content_block index usage response item output_index candidates promptFeedback".split()
    )
    kinds = "message_start content_block_start content_block_delta message_delta message_stop".split()
    kinds += ["response.output_item.added", "response.output_item.done", "response.output_text.delta"]
    for kind in (*kinds, value):
        answer.feed({"type": kind} | dict.fromkeys(keys, value))
    for inner in ("delta", "content", "tool_calls", "reasoning_details", "function_call", "finish_reason", "error"):
        answer.feed({"choices": [{inner: value, "delta": {inner: value}}], "candidates": [{inner: value}]})


def test_frames_that_are_no_json() -> None:
    assert decode_frame(SseFrame("", "[DONE]")) is None
    assert decode_frame(SseFrame("ping", " ")) is None
    assert decode_frame(SseFrame("error", "<html>bad gateway")) == {"error": {"message": "<html>bad gateway"}}
    assert decode_frame(SseFrame("error", '{"code": 400}')) == {"error": {"code": 400}}
    for text in ("<html>", "[1]", '{"a": ', '"a"', "[" * 40_000):
        with pytest.raises(BadInput, match="not a JSON object"):
            decode_frame(SseFrame("", text))
    with pytest.raises(LimitExceeded, match="more than 50,000 values"):
        decode_frame(SseFrame("", "[" * 100_000))


def test_other_choices_are_left_alone() -> None:
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}
    found = reply("openai_chat", chunk({}) | {"choices": [other]}, chunk({"content": "a"}), chunk({}, "stop"))
    assert found.message["content"] == "a"


def test_called_is_what_the_recordings_hold() -> None:
    assert CHAT_CALLS.messages[0]["tool_calls"][0] == called("call_a", "read", '{"path": "a.txt"}')
