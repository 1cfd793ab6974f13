"""Validator for OpenAI Chat Completions requests, as OpenAI and the servers compatible with it check them.

It remembers the last role, the calls of the latest assistant message and which of them are answered.
"""

import re
from collections.abc import Iterator, Mapping

from tidegate.wire.openai_chat.validate_fields import (
    NO_OBJECT_TEXT,
    UNSENDABLE_TEXT,
    array_too_long_text,
    check_call_arguments,
    check_chat_content,
    check_function_tools,
    check_id_length,
    check_user_name,
    describe_bad_function_name,
    empty_array_text,
    string_too_long_text,
    wrong_type_text,
)
from tidegate.wire.validation.faults import STRICT_PROFILE, FaultWording, RequestFault, ValidationProfile
from tidegate.wire.validation.json_checks import describe_value
from tidegate.wire.validation.validator import BodyFormat, MessageListValidator

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_MAX_ID_CHARS = 40

_ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
_ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


class ChatValidator(MessageListValidator):
    """The rules over the message list: turns, and calls with their results."""

    body_format = BodyFormat(
        "messages",
        "messages[",
        "]",
        bad_body=lambda body: wrong_type_text("body", "an object", body),
        bad_list=lambda messages: wrong_type_text("messages", "an array of objects", messages),
        bad_message=lambda where, message: wrong_type_text(where, "an object", message),
        unsendable=UNSENDABLE_TEXT,
        long_string=string_too_long_text,
    )

    def __init__(self, head: Mapping[str, object], profile: ValidationProfile = STRICT_PROFILE) -> None:
        super().__init__(head, profile)
        self._role = ""  # of the latest message that is not a system message
        self._systems = 0
        self._calls: dict[str, bool] | None = None  # the open calls: id -> answered
        self._calls_at = 0
        self._tool_turn = False  # the current turn has called tools
        self._prefix = False  # the latest message is an assistant prefix
        self._read_head(head)

    def _check_message(self, message: dict[str, object], at: int, where: str) -> None:
        if self._prefix:
            self._demand(self._profile.chat.prefix_last, f"messages[{at - 1}]")
        self._prefix = False
        role = message.get("role")
        if (
            not isinstance(role, str)
            or role not in _ROLES
            or (role == "developer" and not self._profile.allows_developer_role)
        ):
            self._add("OC9", f'Unexpected role "{describe_value(role)[1:-1]}"', f"{where}.role")
        if role != "tool" and self._calls is not None:
            self._found.extend(self._unanswered())
            self._calls = None
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
            self._add("OC4", f"Unknown parameter: 'messages[{at}].tool_calls'.", f"messages[{at}].tool_calls")
        if not isinstance(message.get("content"), str):
            self._found.extend(check_chat_content(message, role if isinstance(role, str) else "", at, self._profile))

    def _check_head(self, head: Mapping[str, object]) -> None:
        if head.get("tools") is not None:
            self._found.extend(check_function_tools(head["tools"], self._profile, flat=False))
        elif head.get("tool_choice") is not None:
            text = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
            self._add("OC5", text, "tool_choice")
        self._found.extend(check_user_name(head))

    def _demand(self, wording: FaultWording | None, where: str, *, role: str = "", key: str = "") -> None:
        if wording:
            self._add(wording.rule, wording.text.format(role=role, key=key), where)

    def _turn(self, role: str, at: int) -> None:
        """OC11 and MI1: the order of roles. A run of tool messages counts as user side."""
        before, self._role = self._role, role
        where = f"messages[{at}]"
        if before == "tool" and role == "user":
            self._demand(self._profile.chat.user_after_results, where)
        if not self._profile.alternate or role == "tool":
            return
        if not before and role != "user":
            self._add("OC11", _ALTERNATE, where)
        elif before == role:
            text = f"{_ALTERNATE} {self._profile.chat.repeated_role_text}".rstrip()
            self._add("OC11", f"{text} (messages[{at - 1}] and {where} in your input).", where)

    def _system(self, at: int) -> None:
        self._systems += 1
        wording = self._profile.chat.system_after
        if wording and self._role in ("tool", "assistant"):
            self._demand(wording, f"messages[{at}]", role=self._role)
        elif at > 0:
            text = "System message must be at the beginning." if self._systems == 1 else "Only one system message."
            self._add("OC11", f"{_ALTERNATE} {text}", f"messages[{at}]")

    def _unanswered(self) -> Iterator[RequestFault]:
        if self._calls is None or all(self._calls.values()):
            return
        where = f"messages[{self._calls_at}].tool_calls"
        missing = ", ".join(key[:80] for key, has_result in self._calls.items() if not has_result)
        if (wording := self._profile.chat.result_count) or (wording := self._profile.chat.result_order):
            yield RequestFault(wording.rule, wording.text, where)
        else:
            yield RequestFault("OC3", f"{_UNANSWERED}{missing}", where)

    def _answer(self, message: dict[str, object], at: int) -> None:
        """OC2 and its variants: a tool message answers an open call, each call once."""
        where = f"messages[{at}].tool_call_id"
        key = message.get("tool_call_id")
        if not isinstance(key, str):
            self._add("OC2", f"Missing required parameter: '{where}'.", where)
            return
        self._id(key, where)
        calls, demands = self._calls, self._profile.chat
        if calls is not None and calls.get(key) is False:
            if demands.result_order and next(one for one, has_result in calls.items() if not has_result) != key:
                self._demand(demands.result_order, where)
            calls[key] = True
        elif wording := demands.result_order or demands.known_result:
            self._demand(wording, where)
        elif demands.result_count and calls is not None and key in calls:
            self._demand(demands.result_count, where)
        elif calls is None:
            self._add("OC2", _ORPHAN, f"messages[{at}].role")
        else:
            text = f"Invalid parameter: 'tool_call_id' of '{key[:80]}' not found in 'tool_calls' of previous message."
            self._add("OC2", text, where)

    def _id(self, key: str, where: str) -> None:
        if not key or len(key) > _MAX_ID_CHARS:
            self._found.extend(check_id_length(key, _MAX_ID_CHARS, "OC6", where))
        wording = self._profile.chat.call_id
        if wording and not re.fullmatch(self._profile.chat.call_id_pattern, key):
            self._demand(wording, where, key=key[:80])

    def _assistant(self, message: dict[str, object], at: int) -> None:
        self._prefix = message.get("prefix") is True
        calls = message.get("tool_calls", ())
        if "tool_calls" in message:
            self._open(calls, at)
        if not calls and not message.get("content"):
            self._demand(self._profile.chat.content_or_calls, f"messages[{at}]")
        if not self._profile.requires_reasoning:
            return
        reasoning = message.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning:
            return
        if calls:
            text = f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
            self._add("OC12", text, f"messages[{at}]")
        elif self._tool_turn:
            text = f"Missing `reasoning_content` field in the assistant message at message index {at}."
            self._add("OC12", text, f"messages[{at}]")

    def _open(self, calls: object, at: int) -> None:
        where = f"messages[{at}].tool_calls"
        if not isinstance(calls, list):
            self._add("OC4", wrong_type_text(where, "an array of objects", calls), where)
            return
        if not calls:
            self._add("OC4", empty_array_text(where), where)
            return
        if len(calls) > 128:
            self._add("OC4", array_too_long_text(where, 128, len(calls)), where)
        self._calls, self._calls_at, self._tool_turn = {}, at, True
        for n, call in enumerate(calls):
            self._call(call, f"{where}[{n}]", self._calls)

    def _call(self, call: object, where: str, group: dict[str, bool]) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or call.get("type", "function") != "function":
            self._add("SHAPE", wrong_type_text(where, "an object with type 'function'", call), where)
            return
        key = call.get("id")
        if not isinstance(key, str):
            self._add("OC6", f"Missing required parameter: '{where}.id'.", f"{where}.id")
        else:
            self._id(key, f"{where}.id")
            if key in group:
                self._add("OC2", f"Invalid '{where}.id': '{key[:80]}' is repeated in one message.", f"{where}.id")
            group.setdefault(key, False)
        if text := describe_bad_function_name(f"{where}.function.name", function.get("name")):
            self._add(self._profile.chat.tool_rule, text, f"{where}.function.name")
        place = f"{where}.function.arguments"
        no_object = f"{place}: {NO_OBJECT_TEXT}" if self._profile.json_arguments else ""
        self._found.extend(check_call_arguments(function.get("arguments"), "OC7", place, no_object=no_object))

    def _end_faults(self) -> Iterator[RequestFault]:
        if not self._at:
            yield RequestFault("OC1", empty_array_text("messages"), "messages")
            return
        yield from self._unanswered()
        last = f"messages[{self._at - 1}]"
        if self._role in ("user", "tool"):
            return
        if wording := self._profile.chat.last_role:
            if not self._prefix:
                yield RequestFault(wording.rule, wording.text.format(role=self._role or "system"), last)
        elif self._profile.alternate:
            text = "The last message must be a user message or a tool message."
            yield RequestFault("OC11", f"{_ALTERNATE} {text}", last)
