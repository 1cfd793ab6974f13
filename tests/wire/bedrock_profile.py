"""Bedrock's profile of the Anthropic validator: the same rules under Bedrock's names and in its words."""

from collections.abc import Mapping

from tidegate.wire.validation.faults import FaultWording, ValidationProfile

_BLANK_TEXT = (
    "The text field in the ContentBlock object at messages.{at}.content.{n} is blank. "
    "Add text to the text field, and try again."
)
_EMPTY_MESSAGE_TEXT = (
    "The content field in the Message object at messages.{at} is empty. Add a ContentBlock object and try again."
)
_EXTRA_RESULT_TEXT = (
    "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks of previous turn."
)
_WORDING: Mapping[str, FaultWording] = {
    "first": FaultWording(
        "BR1",
        "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
    ),
    "alternate": FaultWording(
        "BR1",
        "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between "
        "user and assistant roles and try again.",
    ),
    "unanswered": FaultWording(
        "BR2", "Expected toolResult blocks at messages.{next}.content for the following Ids: {key}"
    ),
    "orphan": FaultWording("BR2", _EXTRA_RESULT_TEXT),
    "twice": FaultWording("BR2", _EXTRA_RESULT_TEXT),
    "reused": FaultWording("BR2", "The toolUse blocks at messages.{at}.content contain duplicate Ids: {key}"),
    "empty": FaultWording("BR3", _BLANK_TEXT),
    "blank": FaultWording("BR3", _BLANK_TEXT),
    "void": FaultWording("BR3", _EMPTY_MESSAGE_TEXT),
    "void_user": FaultWording("BR3", _EMPTY_MESSAGE_TEXT),
    "unsigned": FaultWording("BR5", "{where}.thinking.signature: Field required"),
    "no_tools": FaultWording(
        "BR4", "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    ),
}

BEDROCK_PROFILE = ValidationProfile(message_wording=_WORDING)
