"""Judges the body of an OpenAI Chat Completions request, as OpenAI and as the servers that speak its dialect do.

A state machine over the message list: what it must remember of the past is the last role, the calls of the newest
assistant message and which of them are answered. That is why a checked prefix never has to be read again: keep its
Check, fork it, feed the new tail to the fork.
"""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.openai_chat.validate_fields import (
    array_too_long_text,
    check_chat_content,
    check_function_tools,
    describe_bad_function_name,
    describe_unsendable,
    empty_array_text,
    empty_string_text,
    string_too_long_text,
    wrong_type_text,
)
from tidegate.wire.validation.faults import STRICT_PROFILE, FaultLog, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import MAX_ARGUMENT_CHARS, describe_value, is_json_object

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_is_mistral_id = re.compile(r"[a-zA-Z0-9]{9}").fullmatch

_ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
_ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
_MINIMAX = "invalid params, tool call result does not follow tool call (2013)"
_MISTRAL_LAST = "Expected last role User or Tool (or Assistant with prefix) for serving but got "
_MISTRAL_EMPTY = "Assistant message must have either content or tool_calls, but not both."


def validate(body: object, profile: ValidationProfile = STRICT_PROFILE) -> list[RequestFault]:
    """Every fault of the body; a body of any shape is judged, none raises."""
    if not isinstance(body, Mapping):
        return [RequestFault("SHAPE", wrong_type_text("body", "an object", body), "")]
    state = ChatValidator(body, profile)
    messages = body.get("messages")
    if not isinstance(messages, list):
        return [
            *state.faults,
            RequestFault("SHAPE", wrong_type_text("messages", "an array of objects", messages), "messages"),
        ]
    for message in messages:
        state.feed(message)
    return state.finish()


class ChatValidator:
    """Feed the messages in order; `finish` may be asked at any point and changes nothing."""

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        self._profile = profile
        self._found = FaultLog()
        self._at = 0
        self._role = ""  # of the newest message that is not a system one
        self._systems = 0
        self._calls: dict[str, bool] | None = None  # the open group: call id -> answered
        self._calls_at = 0
        self._tool_turn = False  # the running turn has called tools
        self._prefix = False  # the newest message is an assistant prefix
        self._head(head)

    @property
    def faults(self) -> list[RequestFault]:
        return self._found.all()

    def fork(self) -> "ChatValidator":
        child = ChatValidator.__new__(ChatValidator)
        child.__dict__.update(self.__dict__)
        child._found = self._found.fork()
        child._calls = None if self._calls is None else dict(self._calls)
        return child

    def finish(self) -> list[RequestFault]:
        return [*self._found.all(), *self._end()]

    def feed(self, message: object) -> None:
        at = self._at
        self._at = at + 1
        if not isinstance(message, dict):
            self._say("SHAPE", wrong_type_text(f"messages[{at}]", "an object", message), f"messages[{at}]")
            return
        self._sendable(message, f"messages[{at}]")
        if self._prefix and self._profile.mistral:
            self._say("MI1", "Assistant message with prefix True must be last message", f"messages[{at - 1}]")
        self._prefix = False
        role = message.get("role")
        if (
            not isinstance(role, str)
            or role not in _ROLES
            or (role == "developer" and not self._profile.allows_developer_role)
        ):
            self._say("OC9", f'Unexpected role "{describe_value(role)[1:-1]}"', f"messages[{at}].role")
        if role != "tool":
            self._close()
        if role == "tool":
            self._answer(message, at)
            self._turn(role, at)
        elif role == "assistant":
            self._turn(role, at)
            self._assistant(message, at)
        elif role == "user":
            self._turn(role, at)
            self._tool_turn = False
        elif self._profile.alternate and role in ("system", "developer"):
            self._system(at)
        if role != "assistant" and "tool_calls" in message:
            self._say("OC4", f"Unknown parameter: 'messages[{at}].tool_calls'.", f"messages[{at}].tool_calls")
        if not isinstance(message.get("content"), str):
            self._found.extend(check_chat_content(message, role if isinstance(role, str) else "", at, self._profile))

    def _say(self, rule: str, text: str, where: str) -> None:
        self._found.add(rule, text, where)

    def _head(self, head: Mapping[str, object]) -> None:
        for key, value in head.items():
            if key != "messages":
                self._sendable(value, str(key))
        if head.get("tools") is not None:
            self._found.extend(check_function_tools(head["tools"], self._profile, flat=False))
        elif head.get("tool_choice") is not None:
            text = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
            self._say("OC5", text, "tool_choice")
        user = head.get("user")
        if isinstance(user, str) and len(user) > 64:
            self._say("OC6", string_too_long_text("user", 64, len(user)), "user")

    def _sendable(self, value: object, where: str) -> None:
        if text := describe_unsendable(value, where):
            self._say("OC10", text, where)

    def _turn(self, role: str, at: int) -> None:
        """OC11 and MI1: what may follow what. A run of tool messages stands on the user's side."""
        before, self._role = self._role, role
        where = f"messages[{at}]"
        if before == "tool" and role == "user" and self._profile.mistral:
            self._say("MI1", "Unexpected role 'user' after role 'tool'", where)
        if not self._profile.alternate or role == "tool":
            return
        if not before and role != "user":
            self._say("OC11", _ALTERNATE, where)
        elif before == role:
            text = f"{_ALTERNATE} {self._profile.repeated_role_text}".rstrip()
            self._say("OC11", f"{text} (messages[{at - 1}] and {where} in your input).", where)

    def _system(self, at: int) -> None:
        self._systems += 1
        if self._profile.mistral and self._role in ("tool", "assistant"):
            self._say("MI1", f"Unexpected role 'system' after role '{self._role}'", f"messages[{at}]")
        elif at > 0:
            text = "System message must be at the beginning." if self._systems == 1 else "Only one system message."
            self._say("OC11", f"{_ALTERNATE} {text}", f"messages[{at}]")

    def _close(self) -> None:
        self._found.extend(self._unanswered())
        self._calls = None

    def _unanswered(self) -> Iterator[RequestFault]:
        if self._calls is None or all(self._calls.values()):
            return
        where = f"messages[{self._calls_at}].tool_calls"
        missing = ", ".join(key[:80] for key, answered in self._calls.items() if not answered)
        if self._profile.mistral:
            yield RequestFault("MI2", "Not the same number of function calls and responses", where)
        elif self._profile.minimax:
            yield RequestFault("OC14", _MINIMAX, where)
        else:
            yield RequestFault("OC3", f"{_UNANSWERED}{missing}", where)

    def _answer(self, message: dict[str, object], at: int) -> None:
        """OC2 and its dialects: the tool message answers an open call, each call once."""
        where = f"messages[{at}].tool_call_id"
        key = message.get("tool_call_id")
        if not isinstance(key, str):
            self._say("OC2", f"Missing required parameter: '{where}'.", where)
            return
        self._id(key, where)
        calls = self._calls
        if calls is not None and calls.get(key) is False:
            if self._profile.minimax and next(one for one, answered in calls.items() if not answered) != key:
                self._say("OC14", _MINIMAX, where)
            calls[key] = True
        elif self._profile.minimax:
            self._say("OC14", _MINIMAX, where)
        elif self._profile.moonshot:
            self._say("OC13", "Invalid request: tool_call_id  is not found", where)  # it never fills the id in
        elif self._profile.mistral and calls is not None and key in calls:
            self._say("MI2", "Not the same number of function calls and responses", where)
        elif calls is None:
            self._say("OC2", _ORPHAN, f"messages[{at}].role")
        else:
            text = f"Invalid parameter: 'tool_call_id' of '{key[:80]}' not found in 'tool_calls' of previous message."
            self._say("OC2", text, where)

    def _id(self, key: str, where: str) -> None:
        if not key:
            self._say("OC6", empty_string_text(where), where)
        elif len(key) > 40:
            self._say("OC6", string_too_long_text(where, 40, len(key)), where)
        if self._profile.mistral and not _is_mistral_id(key):
            text = f"Tool call id was {key[:80]} but must be a-z, A-Z, 0-9, with a length of 9."
            self._say("MI3", text, where)

    def _assistant(self, message: dict[str, object], at: int) -> None:
        self._prefix = message.get("prefix") is True
        calls = message.get("tool_calls", ())
        if "tool_calls" in message:
            self._open(calls, at)
        if self._profile.mistral and not calls and not message.get("content"):
            self._say("MI4", _MISTRAL_EMPTY, f"messages[{at}]")
        if not self._profile.requires_reasoning:
            return
        reasoning = message.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning:
            return
        if calls:
            text = f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
            self._say("OC12", text, f"messages[{at}]")
        elif self._tool_turn:
            text = f"Missing `reasoning_content` field in the assistant message at message index {at}."
            self._say("OC12", text, f"messages[{at}]")

    def _open(self, calls: object, at: int) -> None:
        where = f"messages[{at}].tool_calls"
        if not isinstance(calls, list):
            self._say("OC4", wrong_type_text(where, "an array of objects", calls), where)
            return
        if not calls:
            self._say("OC4", empty_array_text(where), where)
            return
        if len(calls) > 128:
            self._say("OC4", array_too_long_text(where, 128, len(calls)), where)
        self._calls, self._calls_at, self._tool_turn = {}, at, True
        for n, call in enumerate(calls):
            self._call(call, f"{where}[{n}]", self._calls)

    def _call(self, call: object, where: str, group: dict[str, bool]) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or call.get("type", "function") != "function":
            self._say("SHAPE", wrong_type_text(where, "an object with type 'function'", call), where)
            return
        key = call.get("id")
        if not isinstance(key, str):
            self._say("OC6", f"Missing required parameter: '{where}.id'.", f"{where}.id")
        else:
            self._id(key, f"{where}.id")
            if key in group:
                self._say("OC2", f"Invalid '{where}.id': '{key[:80]}' is repeated in one message.", f"{where}.id")
            group.setdefault(key, False)
        if text := describe_bad_function_name(f"{where}.function.name", function.get("name")):
            self._say("MI5" if self._profile.mistral else "OC5", text, f"{where}.function.name")
        self._arguments(function.get("arguments"), f"{where}.function.arguments")

    def _arguments(self, arguments: object, where: str) -> None:
        if not isinstance(arguments, str):
            self._say("OC7", wrong_type_text(where, "a string", arguments), where)
        elif len(arguments) > MAX_ARGUMENT_CHARS:
            self._say("OC7", string_too_long_text(where, MAX_ARGUMENT_CHARS, len(arguments)), where)
        elif self._profile.json_arguments and not is_json_object(arguments):
            self._say("OC7", f"{where}: arguments must be a valid JSON object string", where)

    def _end(self) -> Iterator[RequestFault]:
        if not self._at:
            yield RequestFault("OC1", empty_array_text("messages"), "messages")
            return
        yield from self._unanswered()
        last = f"messages[{self._at - 1}]"
        if self._role in ("user", "tool"):
            return
        if self._profile.mistral:
            if not self._prefix:
                yield RequestFault("MI1", f"{_MISTRAL_LAST}{self._role or 'system'}", last)
        elif self._profile.alternate:
            text = "The last message must be a user message or a tool message."
            yield RequestFault("OC11", f"{_ALTERNATE} {text}", last)
