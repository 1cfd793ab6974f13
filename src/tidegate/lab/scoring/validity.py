"""Check whether a provider would accept a request, from its messages alone.

A rule that the recording itself breaks at the same place does not count against the policy.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidegate.wire.openai_chat.validate import ChatValidator
from tidegate.wire.validation.faults import ValidationProfile

_Json = dict[str, Any]

_OPENAI_PROFILE: Final = ValidationProfile(alternate=False, json_arguments=False, tool_results_plain_text=False)
"""What OpenAI itself refuses. Compatible servers refuse more; recordings made with OpenAI need not suit them."""


class ValidityVerdict(NamedTuple):
    """The broken `rules` of the dialect, and whether the shared pairing rules are broken, in chat form and in turns."""

    broken_rules: frozenset[str]
    breaks_chat_pairing: bool
    breaks_turn_pairing: bool


class RequestJudge:
    """Checks consecutive requests; what the previous request had is not checked again."""

    def __init__(self, recorded: Sequence[_Json]) -> None:
        self._recorded = recorded
        self._validator = ChatValidator({}, _OPENAI_PROFILE)
        self._recording_validator = ChatValidator({}, _OPENAI_PROFILE)
        self._recording_read_to = 0

    def check_request(self, at: int, messages: Sequence[_Json], extends: int) -> ValidityVerdict:
        """Check a request. `extends`: how many messages it shares with the previous one, if it starts with all of them;
        else 0.
        """
        if not extends:
            self._validator = ChatValidator({}, _OPENAI_PROFILE)
        for message in messages[extends:]:
            self._validator.feed(_sendable(message))
        rules = frozenset(fault.rule for fault in self._validator.finish())
        if rules:
            rules -= self._recorded_rules(at)
        chat = find_chat_faults(messages)
        if not chat:  # what is paired in chat form is paired in turns, too
            return ValidityVerdict(rules, False, False)
        own = self._recorded[:at]
        return ValidityVerdict(
            rules, bool(chat - find_chat_faults(own)), bool(find_turn_faults(messages) - find_turn_faults(own))
        )

    def _recorded_rules(self, at: int) -> set[str]:
        for message in self._recorded[self._recording_read_to : at]:
            self._recording_validator.feed(_sendable(message))
        self._recording_read_to = max(self._recording_read_to, at)
        return {fault.rule for fault in self._recording_validator.finish()}


def _sendable(message: _Json) -> _Json:
    """Return the message without the reasoning that recordings carry and no provider accepts."""
    return {key: value for key, value in message.items() if key != "reasoning_content"}


# --- the rules that every provider shares -----------------------------------------------------------------------------
# The order of speakers, and which result answers which call. These rules are fewer than those of a dialect's validator
# (`wire/validation`), on purpose: other tools that score recorded sessions use them, and the figures should be
# comparable.


_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user", "assistant", "tool")


def _is_empty_message(message: _Json) -> bool:
    content = message.get("content")
    if not content:
        return True
    if isinstance(content, str):
        return not content.strip()
    return all(part.get("type") == "text" and not (part.get("text") or "").strip() for part in content)


def find_chat_faults(messages: Sequence[_Json]) -> set[str]:
    """Return the broken rules of a request in OpenAI chat form."""
    if not messages:
        return {"no messages"}
    broken: set[str] = set()
    has_begun = False
    asking_message: _Json | None = None  # the assistant message whose results are being read
    answers: list[object] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if _is_empty_message(message):
                broken.add("empty tool")
            if asking_message is None:
                broken.add("result without call")
                _check_first_role(has_begun, role, broken)
                has_begun = True
            else:
                answers.append(message.get("tool_call_id"))
            continue
        _check_results(asking_message, answers, broken)
        asking_message, answers = None, []
        has_begun = _check_message(message, has_begun, broken)
        if role == "assistant" and message.get("tool_calls"):
            asking_message = message
    _check_results(asking_message, answers, broken)
    if not has_begun:
        broken.add("no message but system")
    if messages[-1].get("role") not in ("user", "tool"):
        broken.add("last not user or tool")
    return broken


def _check_first_role(has_begun: bool, role: object, broken: set[str]) -> None:
    if not has_begun and role != "user":
        broken.add("first not user")


def _check_message(message: _Json, has_begun: bool, broken: set[str]) -> bool:
    role = message.get("role")
    if role not in _ROLES:
        broken.add("role")
    if role == "user" and _is_empty_message(message):
        broken.add("empty user")
    if role == "assistant" and not message.get("tool_calls") and _is_empty_message(message):
        broken.add("empty assistant")
    if role in _SYSTEM:
        return has_begun
    _check_first_role(has_begun, role, broken)
    return True


def _check_results(message: _Json | None, answers: Sequence[object], broken: set[str]) -> None:
    """Check the calls of one message against the results that follow it."""
    if message is None:
        return
    calls = message["tool_calls"]
    ids = [call.get("id") for call in calls]
    if len(set(ids)) < len(ids):
        broken.add("repeated id")
    functions = [call["function"] for call in calls]
    if any(not isinstance(each["arguments"], str) or not each["name"] for each in functions):
        broken.add("call shape")
    if not set(ids) <= set(answers):
        broken.add("call without result")
    if not set(answers) <= set(ids):
        broken.add("result without call")
    if len(set(answers)) < len(answers):
        broken.add("repeated result")


class _Turn:
    """The messages of one side until the other speaks: results, calls, and where there was text."""

    def __init__(self, mine: bool) -> None:
        self.assistant = mine
        self.kinds: list[str] = []
        self.uses: list[object] = []
        self.results: list[object] = []


def find_turn_faults(messages: Sequence[_Json]) -> set[str]:
    """Return the broken rules after system messages are removed and consecutive messages of a side are merged."""
    broken: set[str] = set()
    turns: list[_Turn] = []
    for message in messages:
        role = message.get("role")
        if role in _SYSTEM:
            continue
        mine = role not in ("user", "tool")
        if not turns or turns[-1].assistant != mine:
            turns.append(_Turn(mine))
        _add_to_turn(message, turns[-1], broken)
    if not turns:
        return {"no messages"}
    if turns[0].assistant:
        broken.add("first not user")
    if turns[-1].assistant:
        broken.add("last not user")
    for place, turn in enumerate(turns):
        if turn.assistant:
            _check_turn_uses(turn, turns[place + 1].results if place + 1 < len(turns) else [], broken)
        elif turn.results:
            _check_turn_results(turn, place, broken)
    return broken


def _add_to_turn(message: _Json, turn: _Turn, broken: set[str]) -> None:
    if message.get("role") == "tool":
        turn.kinds.append("result")
        turn.results.append(message.get("tool_call_id"))
        return
    calls = message.get("tool_calls") or ()
    if not _is_empty_message(message):
        turn.kinds.append("text")
    elif not calls:
        broken.add(f"empty {'assistant' if turn.assistant else 'user'}")
    for call in calls:
        turn.kinds.append("use")
        turn.uses.append(call.get("id"))


def _check_turn_uses(turn: _Turn, results: Sequence[object], broken: set[str]) -> None:
    if not set(turn.uses) <= set(results):
        broken.add("use without result")
    if not set(results) <= set(turn.uses):
        broken.add("result without use")
    if len(set(turn.uses)) < len(turn.uses) or len(set(results)) < len(results):
        broken.add("repeated id")
    if turn.uses and "text" in turn.kinds[turn.kinds.index("use") :]:
        broken.add("text after use")


def _check_turn_results(turn: _Turn, place: int, broken: set[str]) -> None:
    if place == 0:
        broken.add("result without use")
    if "text" in turn.kinds and "result" in turn.kinds[turn.kinds.index("text") :]:
        broken.add("result after text")
