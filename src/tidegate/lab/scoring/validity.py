"""Check whether a provider would accept a request, from its messages alone.

A rule that the recording itself breaks at the same place does not count against the policy.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tidegate.lab.scoring.pairing_rules import find_chat_faults, find_turn_faults
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
