"""Bedrock on the Anthropic form: the same structure, refused in its own words."""

from tests.wire.bedrock_profile import BEDROCK_PROFILE
from tests.wire.rules_anthropic import CALLED, M, U, ask, model, result, row, text, thinking, use, user

BEDROCK = [
    row(
        "BR1",
        "A conversation must start with a user message. Try again with",
        ask(M, U),
        ask(U, M, U),
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR1",
        "A conversation must alternate between user and assistant roles.",
        ask(U, U),
        ask(U),
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR2",
        "Expected toolResult blocks at messages.2.content for the following Ids: toolu_1",
        ask(U, model(use()), U),
        CALLED,
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR2",
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.",
        ask(U, model(use()), user(result(), result("toolu_2"))),
        CALLED,
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR2",
        "The toolUse blocks at messages.1.content contain duplicate Ids: toolu_1",
        ask(U, model(use(), use()), user(result())),
        ask(U, model(use(), use("toolu_2")), user(result(), result("toolu_2"))),
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR3",
        "at messages.0.content.0 is blank. Add text to the text field",
        ask(user(text(" "))),
        ask(U),
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR4",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        ask(U, model(use()), user(result()), tools=None),
        CALLED,
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
    row(
        "BR5",
        "signature: Field required",
        ask(U, model(thinking(signature=None), text()), U),
        ask(U, model(thinking(), text()), U),
        message_wording=BEDROCK_PROFILE.message_wording,
    ),
]
