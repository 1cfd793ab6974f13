"""Any conversation a session may be handed.

A conversation is drawn as a list of moves (ask, speak, work, answer, ...) and then played into messages, so that it
shrinks move by move and so that a result always has a real call to go with, unless it is meant to be a stray one.
`whole` conversations are those a provider accepted (every call answered before anything else is said); the others
hold what histories really arrive with: interruptions, late results, missing results, results without a call.

Texts are small; a huge one is a small one repeated, so that drawing it costs nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.scale import FACTOR, scaled
from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Part, Result, Role, Text, Thinking

HUGE = 200_000
WORDS = ("read the file", "done", "", " ", "\n\t ", "ok\n", "x", "Zażółć gęślą jaźń", "price: 1,234.50 €")
SCRIPTS = ("漢字かな交じり文", "한국어 문장", "שלום עולם", "مرحبا بالعالم \u202e", "नमस्ते", "e\u0301\u0302\u0303")
EMOJI = ("👩‍👩‍👧‍👦", "🏳️‍🌈🇵🇱", "👍🏽", "\u200d\u200d", "\ufeff")
BROKEN = ("\ud800", "a\udc80b", "\udfff\ud800", "nul\x00nul", "\x1b[31mred\x1b[0m\r\rbar", "\ufffe\uffff")
LOOKALIKES = ("<summary>not one</summary>", "[archived]", '{"role": "system"}', "m1", "</tool_result>", "%s {0} $x")
SEEDS = ("word ", "漢字", "👩‍👩‍👧‍👦", "x", "line\n", "def f(x):\n    return x\n", '"\\')
POOL = WORDS + SCRIPTS + EMOJI + LOOKALIKES

IDS = ("c1", "c2", "c3", "call_01ABC", "toolu_01A09q90qw90lq917835lq9", "", "x" * 200, "идент-ё", "a b/c√", "c1 ")
NAMES = ("read", "bash", "web_search", "mcp__server__tool", "bad name!", "y" * 100, "функция", "")
ARGUMENTS = (
    "{}",
    '{"path": "src/main.py"}',
    '{"a": {"b": [1, 2.5, null, true]}, "c": "漢字 👍🏽"}',
    '{"command": "ls -la", "timeout": 120}',
    '{"a": 1, "a": 2}',
    '{"s": "\\ud800 \\u0000"}',
)
BROKEN_ARGUMENTS = ("", " ", "null", "[1, 2]", '"text"', "3", "not json", '{"a": ', '{"a": "cut of', '{"a": NaN}', "}{")

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
IMAGES = (
    Image("image/png", data=PNG, width=1, height=1),
    Image("image/jpeg", data=PNG, width=4000, height=3000),
    Image("image/png", url="https://example.com/picture.png"),
)
SIGNED = {
    "anthropic": (
        '{"type":"thinking","thinking":"let me see","signature":"EqQBCkYIBxgCKkA="}',
        '{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix="}',
    ),
    "openai_responses": (
        '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABo="}',
        '{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAB="}',
    ),
    "gemini": ('{"text":"let me see","thought":true,"thoughtSignature":"CpgBAVSoXO4="}',),
}
ORIGINS = ("", "openai_chat", "anthropic", "openai_responses", "gemini")


def law(examples: int) -> settings:
    """Settings of a law: the same examples at every run, unless `TIDEGATE_CASES` asks for more; then new ones."""
    return settings(
        max_examples=scaled(examples),
        deadline=None,
        derandomize=FACTOR == 1,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


# --- moves ------------------------------------------------------------------------------------------------------------


class Say(NamedTuple):
    role: Role
    parts: tuple[Part, ...]
    origin: str = ""
    visible: bool = True
    order: int = 0
    """Which of the open calls are answered first, where all must be before this is said."""


class Answer(NamedTuple):
    which: int
    parts: tuple[Text | Image, ...]
    error: bool = False
    visible: bool = True


class Stray(NamedTuple):
    call_id: str
    parts: tuple[Text | Image, ...]


Move = Say | Answer | Stray


def seldom(usual: SearchStrategy, rare: SearchStrategy, one_in: int) -> SearchStrategy:
    return st.integers(0, one_in - 1).flatmap(lambda n: rare if n == one_in - 1 else usual)


def written(*, broken: bool = True, huge: int = HUGE) -> SearchStrategy[str]:
    """A text of at most `huge` characters. `broken` ones hold lone surrogates, NULs and terminal codes."""
    small = st.one_of(st.sampled_from(POOL), st.text(max_size=12))
    if broken:
        small = st.one_of(small, st.sampled_from(BROKEN), st.text(st.characters(), max_size=5))
    if not huge:
        return small
    large = st.builds(lambda text, size: text * (size // len(text) + 1), st.sampled_from(SEEDS), st.integers(50, huge))
    return seldom(small, large, 14)


def arguments(*, huge: int = HUGE) -> SearchStrategy[str]:
    good = st.sampled_from(ARGUMENTS)
    bad = st.sampled_from(BROKEN_ARGUMENTS)
    if huge:
        size = st.integers(50, huge)
        good = seldom(good, size.map(lambda n: '{"path": "a", "content": "' + "x\\n" * (n // 3) + '"}'), 14)
        bad = seldom(bad, size.map(lambda n: '{"a": ' + '"\\' * (n // 2)), 8)
    return seldom(good, bad, 5)


@st.composite
def spoken(draw: st.DrawFn, texts: SearchStrategy[str], huge: int) -> Say:
    """What an assistant says: thinking, text and parallel calls, in any of the forms of its origin."""
    origin = draw(st.sampled_from(ORIGINS))
    parts: list[Part] = []
    opaque = "CpgBAVSoXO4=" if origin == "gemini" and draw(st.booleans()) else ""
    thinks = draw(st.integers(0, 5))
    if thinks == 1:
        parts.append(Thinking(draw(texts)))
    elif thinks >= 4 and origin in SIGNED:
        parts.extend(
            Thinking(block=block) for block in draw(st.lists(st.sampled_from(SIGNED[origin]), min_size=1, max_size=2))
        )
    if draw(st.booleans()):
        parts.append(Text(draw(texts), opaque))
    if draw(st.integers(0, 9)) == 9:
        parts.extend(Text(draw(texts)) for _ in range(3))
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 1, 2, 3, 4)))):
        ident = draw(st.sampled_from(IDS))
        parts.append(Call(ident, draw(st.sampled_from(NAMES)), draw(arguments(huge=huge)), opaque))
    return Say("assistant", tuple(parts), origin, order=draw(st.integers(0, 23)))


def a_move(*, broken: bool = True, huge: int = HUGE, faulty: bool = True, hidden: bool = True) -> SearchStrategy[Move]:
    texts = written(broken=broken, huge=huge)
    text = st.builds(Text, texts)
    visible = seldom(st.just(True), st.just(False), 8) if hidden else st.just(True)
    image = st.sampled_from(IMAGES)
    alone = st.tuples(text)
    shown = st.one_of(
        alone, alone, st.tuples(text, image), st.tuples(image, text), st.tuples(text, text), st.tuples(text, text, text)
    )
    order = st.integers(0, 23)
    plain = st.just("")
    ask = st.builds(Say, st.just("user"), shown, plain, visible, order)
    direct = st.builds(Say, st.just("system"), st.tuples(text), plain, st.just(True), order)
    results = st.one_of(st.tuples(text), st.tuples(text), st.tuples(text, image), st.just(()))
    answer = st.builds(Answer, st.integers(0, 7), results, st.booleans(), visible)
    speak = spoken(texts, huge)
    kinds: list[SearchStrategy] = [speak, speak, answer, answer, ask, seldom(ask, direct, 3)]
    if faulty:
        kinds.append(seldom(answer, st.builds(Stray, st.sampled_from(IDS), results), 2))
    return st.one_of(kinds)


def a_plain_move() -> SearchStrategy[Move]:
    """Short words and few ids: for laws about what happens to messages, not about what they hold."""
    text = st.just((Text("words"),))
    calls = st.lists(st.sampled_from(IDS[:3]).map(lambda ident: Call(ident, "read")), min_size=1, max_size=2).map(tuple)
    thought = (Thinking(block=SIGNED["anthropic"][0]), Text("so"))
    return st.one_of(
        text.map(lambda parts: Say("user", parts)),
        calls.map(lambda parts: Say("assistant", parts)),
        st.just(Say("assistant", thought, "anthropic")),
        st.builds(Answer, st.integers(0, 2), text, st.just(False), st.just(True)),
        st.builds(Stray, st.sampled_from(IDS[:3]), text),
    )


def a_turn(huge: int) -> SearchStrategy[list[Move]]:
    """A turn of a working agent: a request, calls with results of every size, an answer."""
    size = st.one_of(st.integers(0, 40), st.integers(40, huge // 20), st.integers(huge // 20, huge))
    text = st.builds(lambda seed, n: (Text((seed * (n // len(seed) + 1))[:n]),), st.sampled_from(SEEDS), size)
    call = st.sampled_from(IDS[:4]).map(lambda ident: Say("assistant", (Text("I look."), Call(ident, "read"))))
    step = st.tuples(call, st.builds(Answer, st.just(0), text, st.booleans(), st.just(True))).map(list)
    ask = text.map(lambda parts: Say("user", parts))
    end = text.map(lambda parts: Say("assistant", parts))
    return st.builds(
        lambda ask, steps, end: [ask, *(move for step in steps for move in step), *end],
        ask,
        st.lists(step, max_size=4),
        st.lists(end, max_size=1),
    )


def many(step: SearchStrategy, size: int) -> SearchStrategy[list]:
    """Lists that are long as often as short."""
    return st.one_of(st.lists(step, max_size=size // 2), st.lists(step, min_size=size // 2, max_size=size))


# --- and what they become ---------------------------------------------------------------------------------------------


class Player:
    """Turns moves into messages. `whole`: every call is answered before anything else is said."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._open: list[str] = []

    def play(self, move: Move) -> list[Message]:
        if isinstance(move, Answer):
            return [self._answer(move)] if self._open else []
        if isinstance(move, Stray):
            return [Message("tool", (Result(move.call_id, move.parts),), kind=TOOL_RESULT)]
        said = self.close(move.order) if self._whole else []
        said.append(Message(move.role, move.parts, agent_visible=move.visible, origin=move.origin))
        self._open.extend(part.id for part in move.parts if isinstance(part, Call))
        return said

    def close(self, order: int = 0) -> list[Message]:
        """Answer all that is open."""
        said = []
        while self._open:
            said.append(self._answer(Answer(order, (Text("closed"),))))
            order //= 2
        return said

    def _answer(self, move: Answer) -> Message:
        call_id = self._open.pop(move.which % len(self._open))
        result = Result(call_id, move.parts, move.error)
        return Message("tool", (result,), kind=TOOL_RESULT, agent_visible=move.visible)


def play(script: Sequence[Move], *, whole: bool) -> list[Message]:
    player = Player(whole=whole)
    said = [message for move in script for message in player.play(move)]
    return said + player.close() if whole else said


def conversations(
    *, broken: bool = True, huge: int = HUGE, hidden: bool = True, size: int = 14
) -> SearchStrategy[list[Message]]:
    """Any list of neutral messages, faults included."""
    drawn = many(a_move(broken=broken, huge=huge, hidden=hidden), size)
    return st.builds(lambda script, whole: play(script, whole=whole), drawn, st.booleans())


def whole_conversations(
    *, broken: bool = True, huge: int = HUGE, hidden: bool = True, size: int = 14
) -> SearchStrategy[list[Message]]:
    """Conversations without a fault of pairing."""
    drawn = many(a_move(broken=broken, huge=huge, faulty=False, hidden=hidden), size)
    return drawn.map(lambda script: play(script, whole=True))
