"""Every rule of every provider: one request that breaks it is refused in the provider's words, its twin is accepted."""

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (
    MistralRequestValidator,
    MistralRequestValidatorV3,
    ValidationMode,
)

from tests.wire.cases import Body, Case
from tests.wire.rules_anthropic import ANTHROPIC, BINDING
from tests.wire.rules_bedrock import BEDROCK
from tests.wire.rules_chat import CHAT, MISTRAL
from tests.wire.rules_gemini import GEMINI
from tests.wire.rules_responses import RESPONSES
from tidegate.wire.validation.faults import RULE_DESCRIPTIONS, UNCHECKED_RULES

CASES = [*CHAT, *MISTRAL, *RESPONSES, *ANTHROPIC, *BINDING, *BEDROCK, *GEMINI]

ALL = (
    [f"OC{n}" for n in range(1, 16)]
    + [f"OR{n}" for n in range(1, 13)]
    + [f"AN{n}" for n in range(1, 17)]
    + [f"GE{n}" for n in range(1, 9)]
    + [f"BR{n}" for n in range(1, 6)]
    + [f"MI{n}" for n in range(1, 6)]
    + ["XA1"]
)


def test_the_bad_ones_are_refused_in_the_providers_words() -> None:
    def is_refused(case: Case) -> bool:
        faults = case.check(case.bad, case.profile)
        return {fault.rule for fault in faults} == {case.rule} and any(case.phrase in fault.text for fault in faults)

    assert [(case.name, case.check(case.bad, case.profile)) for case in CASES if not is_refused(case)] == []


def test_their_twins_are_accepted() -> None:
    assert [(case.name, faults) for case in CASES if (faults := case.check(case.good, case.profile))] == []


def test_every_rule_has_a_case_or_a_reason() -> None:
    covered = {case.rule for case in CASES}
    assert covered | set(UNCHECKED_RULES) == {*ALL, "SHAPE"}
    assert not covered & set(UNCHECKED_RULES)
    assert set(RULE_DESCRIPTIONS) == {*ALL, "SHAPE"}


def mistral_refuses(body: Body) -> bool:
    """What Mistral's own validator says, in the oldest form that knows call ids."""
    validator: MistralRequestValidator = MistralRequestValidatorV3(ValidationMode.serving)
    try:
        validator.validate_request(ChatCompletionRequest(**body))
    except (MistralCommonException, ValueError):
        return True
    return False


def test_mistral_itself_takes_the_twins_and_refuses_the_bad_ones() -> None:
    assert [case.name for case in MISTRAL if mistral_refuses(case.good)] == []
    taken = [case.phrase for case in MISTRAL if not mistral_refuses(case.bad)]
    # Its newest validator lets the user speak after a tool; the servers that gave error 3230 did not.
    assert [phrase for phrase in taken if "after role 'tool'" not in phrase] == []
