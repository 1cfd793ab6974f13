"""A checked prefix need not be checked again: fed piece by piece and forked anywhere, the verdict is the same."""

import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.fake.issued_thinking import IssuedThinking
from tests.laws.sampled_law import sampled_law
from tests.wire.bedrock_profile import BEDROCK_PROFILE
from tests.wire.cases import Body, Case, places, replaced
from tests.wire.chat_demands import MINIMAX_DEMANDS, MOONSHOT_DEMANDS, XAI_DEMANDS
from tests.wire.rules_anthropic import ANTHROPIC
from tests.wire.rules_bedrock import BEDROCK
from tests.wire.rules_chat import CHAT, MISTRAL, MISTRAL_DEMANDS
from tests.wire.rules_gemini import GEMINI
from tests.wire.rules_responses import RESPONSES
from tidegate.wire.anthropic import validate as check_anthropic
from tidegate.wire.gemini import validate as check_gemini
from tidegate.wire.openai_chat import validate as check_openai_chat
from tidegate.wire.openai_responses import validate as check_openai_responses
from tidegate.wire.validation.faults import (
    RULE_DESCRIPTIONS,
    STRICT_PROFILE,
    RequestFault,
    ValidationProfile,
)
from tidegate.wire.validation.validator import RequestValidator


class Dialect(NamedTuple):
    name: str
    key: str
    check: Callable[[object, ValidationProfile], list[RequestFault]]
    start: Callable[[Mapping[str, object], ValidationProfile], RequestValidator]
    cases: list[Case]


DIALECTS = [
    Dialect(
        "chat", "messages", check_openai_chat.ChatValidator.validate, check_openai_chat.ChatValidator, [*CHAT, *MISTRAL]
    ),
    Dialect(
        "responses",
        "input",
        check_openai_responses.ResponsesValidator.validate,
        check_openai_responses.ResponsesValidator,
        RESPONSES,
    ),
    Dialect(
        "anthropic",
        "messages",
        check_anthropic.AnthropicValidator.validate,
        check_anthropic.AnthropicValidator,
        [*ANTHROPIC, *BEDROCK],
    ),
    Dialect("gemini", "contents", check_gemini.GeminiValidator.validate, check_gemini.GeminiValidator, GEMINI),
]
PROFILES = [
    STRICT_PROFILE,
    ValidationProfile(
        alternate=False,
        json_arguments=False,
        tool_results_plain_text=False,
        allows_prefill=True,
        allows_developer_role=True,
    ),
    ValidationProfile(requires_reasoning=True, text_only=True, chat=MOONSHOT_DEMANDS, requires_signatures=True),
    BEDROCK_PROFILE,
    ValidationProfile(chat=MINIMAX_DEMANDS),
    ValidationProfile(chat=XAI_DEMANDS),
    ValidationProfile(chat=MISTRAL_DEMANDS),
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=[one.name for one in DIALECTS])


BODIES = {
    dialect.name: [
        body
        for case in dialect.cases
        for body in (case.bad_source, case.good_source)
        if not callable(body) and len(str(body)) < 5_000
    ]
    for dialect in DIALECTS
}


def draw_request(data: st.DataObject, dialect: Dialect) -> Body:
    """A head from one case and messages from many: now and then valid, mostly wrong in some new way."""
    known = BODIES[dialect.name]
    pool = [message for body in known for message in body[dialect.key]]
    whole = st.sampled_from(known).map(lambda body: body[dialect.key])
    loose = st.lists(st.sampled_from(pool) | JUNK, max_size=3)
    runs = data.draw(st.lists(whole | loose, max_size=4))
    head = {key: value for key, value in data.draw(st.sampled_from(known)).items() if key != dialect.key}
    return {**head, dialect.key: [message for run in runs for message in run]}


@by_dialect
@sampled_law(20, 20, st.data(), st.sampled_from(PROFILES))
def test_forks_at_every_point_agree_with_the_whole(
    dialect: Dialect, data: st.DataObject, profile: ValidationProfile
) -> None:
    body = draw_request(data, dialect)
    messages = body[dialect.key]
    whole = dialect.check(body, profile)
    trunk = dialect.start(body, profile)
    forks = [trunk.fork()]
    for at, message in enumerate(messages):
        before = trunk.finish()
        tail = trunk.fork()
        for rest in messages[at:]:
            tail.feed(rest)
        assert tail.finish() == whole
        assert trunk.finish() == before, "a fork leaked into its parent"
        trunk.feed(message)
        forks.append(trunk.fork())
    assert trunk.finish() == whole
    # Forks taken long ago must not see what the trunk has learned since.
    for at, late in enumerate(forks):
        for rest in messages[at:]:
            late.feed(rest)
        assert late.finish() == whole


@by_dialect
@sampled_law(15, 12, st.data())
def test_a_chain_of_forks_agrees_with_the_whole(dialect: Dialect, data: st.DataObject) -> None:
    body = draw_request(data, dialect)
    state = dialect.start(body, STRICT_PROFILE)
    for message in body[dialect.key]:
        state = state.fork()
        state.feed(message)
    assert state.finish() == dialect.check(body, STRICT_PROFILE)
    assert state.faults == state.finish()[: len(state.faults)]


@by_dialect
@sampled_law(20, 20, JUNK, st.sampled_from(PROFILES))
def test_no_shape_raises(dialect: Dialect, body: object, profile: ValidationProfile) -> None:
    for asked in (body, {dialect.key: body}, {dialect.key: [body]}):
        assert known_rules(dialect.check(asked, profile))


def known_rules(faults: list[RequestFault]) -> bool:
    return {fault.rule for fault in faults} <= set(RULE_DESCRIPTIONS)


@by_dialect
@sampled_law(50, 75, st.data(), JUNK, st.sampled_from(PROFILES))
def test_no_misplaced_value_raises(
    dialect: Dialect, data: st.DataObject, junk: object, profile: ValidationProfile
) -> None:
    """One value of a real request becomes something else: the likeliest way for malformed input to come."""
    body = data.draw(st.sampled_from(BODIES[dialect.name]))
    broken = replaced(body, data.draw(st.sampled_from(places(body))), junk)
    assert known_rules(dialect.check(broken, profile))
    if isinstance(broken, dict):
        for first, second in ((body, broken), (broken, body)):
            issued = IssuedThinking()
            issued.issue(first, [second])
            assert known_rules(issued.find_faults(second))


@by_dialect
def test_bottomless_nesting_is_a_fault(dialect: Dialect) -> None:
    deep: Any = []
    for _ in range(50_000):  # how deep an interpreter follows differs between versions of Python
        deep = [deep]
    body = max(
        (body for body in BODIES[dialect.name] if not dialect.check(body, STRICT_PROFILE)),
        key=lambda one: len(str(one)),
    )
    for path in places(body):
        assert dialect.check(replaced(body, path, deep), STRICT_PROFILE), path


@by_dialect
def test_a_fork_copies_none_of_the_history(dialect: Dialect) -> None:
    state = dialect.start({}, STRICT_PROFILE)
    for message in [message for body in BODIES[dialect.name] for message in body[dialect.key]] * 20:
        state.feed(message)
    assert len(state.faults) > 100
    state.fork()  # fills the caches of isinstance
    tracemalloc.start()
    try:
        tail = state.fork()
        assert tracemalloc.get_traced_memory()[0] < 3_000
    finally:
        tracemalloc.stop()
    assert tail.faults == state.faults
