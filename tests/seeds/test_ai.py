"""The promises of the preset `ai`: settings, limits, visibility, tool output."""

import hashlib

import pytest

from tests.seeds.talk import (
    Edge,
    Json,
    Preset,
    Scribe,
    asks,
    calls,
    flat,
    names,
    only,
    opened,
    paired,
    passage,
    replies,
    result,
    rules,
    said,
    stages,
    turns,
)
from tidegate import BadPolicy, Call, Message, Policy, Result, Session, SessionStorage, Text


@pytest.mark.seed("AI-01", change={"keep_recent": 6})
@pytest.mark.seed("AI-01", change={"tool_summary_strategy": "heuristic"})
def test_the_settings_are_those_of_the_document(preset: Preset) -> None:
    settings = preset("ai").settings
    wanted = {
        "max_messages": 50,
        "max_tokens": 8_000,
        "keep_recent": 5,
        "keep_recent_tokens": 20_000,
        "reserve_tokens": 16_384,
        "tool_call_cutoff": 10,
        "tool_summary_strategy": "llm",
        "auto_compact": True,
    }
    assert {name: settings[name] for name in wanted} == wanted
    for strategy in ("llm", "heuristic", "off"):
        assert preset("ai", tool_summary_strategy=strategy).settings
    with pytest.raises(BadPolicy, match="strategy"):
        preset("ai", tool_summary_strategy="magic")


# --- when -------------------------------------------------------------------------------------------------------------


def sized(policy: Policy, tokens: int, *, window: int | None) -> Session:
    """A session whose messages are so many tokens by the document's estimate, 4 characters each and no more."""
    session = opened(policy, window=window, system="")
    left = tokens - 40 * 100 - 1_000
    session.add(*turns(1, 20, ask=400, reply=400), asks("ask-21", 4_000), replies("reply-21", 4 * left))
    return session


@pytest.mark.seed("AI-02", change={"auto_compact": True})
def test_without_auto_compact_it_never_starts(preset: Preset) -> None:
    policy = preset("ai", auto_compact=False, reserve_tokens=2_000)
    for window in (10_000, None):
        session = sized(policy, 8_200, window=window)
        session.add(*turns(22, 40, ask=40, reply=40))
        session.run_rules("turn_end", Scribe())
        assert stages(session) == []


@pytest.mark.seed("AI-02", change={"reserve_tokens": 1_900})
@pytest.mark.seed("AI-02", without=("auto_compact",))
def test_it_starts_at_the_limit_whatever_the_number_of_messages(preset: Preset) -> None:
    policy = preset("ai", reserve_tokens=2_000, max_messages=10)
    for tokens, acts in ((7_999, False), (8_000, True)):
        session = sized(policy, tokens, window=10_000)
        assert session.view.message_count == 42
        session.run_rules("turn_end", Scribe())
        assert rules(session) == ["auto_compact"] * acts


@pytest.mark.seed("AI-02", change={"max_messages": 100})
@pytest.mark.seed("AI-02", change={"max_tokens": 8_000})
def test_without_a_limit_the_number_of_messages_decides(preset: Preset) -> None:
    for none in (None, 0):
        policy = preset("ai", max_tokens=none)
        for count, acts in ((24, False), (25, False), (26, True)):
            session = opened(policy, window=None, system="")
            session.add(*turns(1, count, ask=400, reply=4_000))
            assert session.tokens > 20_000, "whatever the tokens are"
            session.run_rules("turn_end", Scribe())
            assert rules(session) == ["auto_compact"] * acts, (none, count)


@pytest.mark.seed("AI-03", change={"max_tokens": 9_000})
def test_the_limit_of_an_unknown_window_is_max_tokens(preset: Preset) -> None:
    for tokens, acts in ((7_999, False), (8_000, True)):
        session = sized(preset("ai"), tokens, window=None)
        session.run_rules("turn_end", Scribe())
        assert rules(session) == ["auto_compact"] * acts
    session = sized(preset("ai"), 12_000, window=100_000)
    session.run_rules("turn_end", Scribe())
    assert rules(session) == [], "a known window: max_tokens does not count"


@pytest.mark.seed("AI-03", change={"reserve_tokens": 20_000})
def test_the_limit_of_a_known_window_is_what_the_reserve_leaves(preset: Preset) -> None:
    for tokens, acts in ((83_615, False), (83_616, True)):
        session = sized(preset("ai"), tokens, window=100_000)
        session.run_rules("turn_end", Scribe())
        assert rules(session) == ["auto_compact"] * acts


@pytest.mark.seed("AI-03", change={"keep_recent_tokens": 1_000})
def test_what_is_kept_is_at_most_half_of_the_limit(preset: Preset) -> None:
    """Of 20,000 tokens to keep, a limit of 8,000 allows 4,000."""
    for window in (10_000, None):
        session = opened(preset("ai", reserve_tokens=2_000), window=window, system="")
        session.add(*turns(1, 40, ask=400, reply=400))
        session.run_rules("turn_end", Scribe())
        request = session.render_request()
        recent = sum(len(text) for text in flat(request).split("\n") if text.startswith(("<ask", "<reply"))) / 4
        assert 3_500 <= recent <= 4_000


# --- what the model sees ----------------------------------------------------------------------------------------------


@pytest.mark.seed("AI-04", change={"tool_summary_strategy": "off"})
def test_visibility_and_kinds(preset: Preset) -> None:
    session = opened(preset("ai", tool_call_cutoff=1), wire="anthropic")
    session.add(asks("ask-1"))
    size = session.tokens
    session.add(Message("assistant", (Text(passage("hidden", 4_000)),), agent_visible=False))
    assert session.tokens == size, "not counted"
    session.add(
        Message("user", (Text(passage("internal")),), user_visible=False), Message("user", (Text(passage("plain")),))
    )
    session.add(Message("assistant", (Call("a", "read"), Call("b", "read"))))
    session.add(result("a", passage("a", 2_000)), result("b", passage("b", 2_000)))
    request = session.prepare(Scribe("what a said"))
    assert names(request) == ["ask-1", "internal", "plain", "b"], (
        "not sent; unset is visible; the user's view is another"
    )
    assert passage("hidden", 4_000) in said(session)
    assert {item.message.kind for item in session.view.items} == {
        *("", "tool_result", "tool_result_archived", "tool_summary")
    }
    assert {"tool_result", "tool_result_archived", "tool_summary"} <= session.explain().tokens_by_kind.keys()


@pytest.mark.seed("AI-04", change={"tool_summary_strategy": "off"})
def test_an_invisible_result_leaves_a_stub_for_its_call(preset: Preset) -> None:
    session = opened(preset("ai", tool_call_cutoff=2))
    hidden = Message("tool", (Result("a", (Text(passage("a", 4_000)),)),), kind="tool_result", agent_visible=False)
    session.add(asks("ask-1"), calls("a", "b", "c", "d"), hidden, *(result(each, passage(each, 900)) for each in "bcd"))
    assert session.tokens < 1_000
    request = session.prepare(Scribe())
    assert paired(request) == [("a", "b", "c", "d")]
    assert "a" not in names(request)
    assert names(request, "b") == [], "three visible results and a cutoff of two: the oldest visible one goes"
    assert names(request, "c") == ["c"]


# --- tool output ------------------------------------------------------------------------------------------------------


def admitted(policy: Policy, text: str, *, error: bool = False, effects: Edge | None = None) -> list[str]:
    """The parts of a tool result as the model gets it, error results too."""
    session = opened(policy, window=400_000, wire="anthropic", log=SessionStorage(effects=effects or Edge()))
    use = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    answer: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": error}
    session.add(asks("ask-1"), {"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]})
    block = only(session.prepare().messages[-1]["content"])
    assert bool(block.get("is_error")) == error
    content = block["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def cut(policy: Policy, text: str, *, error: bool = False) -> tuple[str, str]:
    """What is left of a text that is too long, and the notice behind it."""
    parts = admitted(policy, text, error=error)
    assert len(parts) == 2, "nothing was cut"
    return parts[0], parts[1]


@pytest.mark.seed("AI-05", change={"max_lines": 10**6})
@pytest.mark.seed("AI-05", change={"truncate_mode": "head"})
def test_long_output_is_cut_by_lines(preset: Preset) -> None:
    lines = [f"line {number}" for number in range(1, 2_501)]
    for error in (False, True):
        assert admitted(preset("ai"), "\n".join(lines[:2_000]), error=error) == ["\n".join(lines[:2_000])]
        text, notice = cut(preset("ai"), "\n".join(lines), error=error)
        kept = text.split("\n")
        assert len(kept) == 2_000
        marker = only([place for place, line in enumerate(kept) if not line.startswith("line ")])
        assert kept[:marker] == lines[:marker]
        assert kept[marker + 1 :] == lines[marker - 1_999 :]
        assert 990 < marker < 1_010
        assert "501 lines" in kept[marker]
        assert "2,500 lines" in notice, "figures of the cut follow"


@pytest.mark.seed("AI-11", change={"truncate_mode": "head"})
def test_a_gap_of_few_lines_is_marked(preset: Preset) -> None:
    """No line is left for a marker of its own."""
    lines = [f"line {number}" for number in range(1, 2_501)]
    for limit, shown in ((2, ["line 1 [...]", "line 2500"]), (3, ["line 1", "line 2 [...]", "line 2500"])):
        text, _ = cut(preset("ai", max_lines=limit), "\n".join(lines))
        assert text.split("\n") == shown


@pytest.mark.seed("AI-05", change={"truncate_mode": "head_tail"})
def test_head_keeps_the_beginning_only(preset: Preset) -> None:
    text, notice = cut(preset("ai", truncate_mode="head"), passage("out", 30_000, lines=2_500))
    assert passage("out", 30_000, lines=2_500).startswith(text[:20_000])
    assert "</out>" not in text
    assert "2,500 lines" in notice


@pytest.mark.seed("AI-05", change={"max_bytes": 10**6})
def test_long_output_is_cut_by_bytes(preset: Preset) -> None:
    whole = "\n".join("水泵" * 20 for _ in range(600))
    text, notice = cut(preset("ai"), whole)
    assert len(whole) < 50 * 1024 < len(whole.encode())
    assert 50_000 < len(text.encode()) <= 50 * 1024
    assert "bytes" in notice
    at_limit = "x" * 50 * 1024
    assert admitted(preset("ai"), at_limit) == [at_limit]


@pytest.mark.seed("AI-05", change={"max_chars": 10**6})
def test_long_output_is_cut_by_lines_then_characters_then_bytes(preset: Preset) -> None:
    policy = preset("ai", max_lines=1_000, max_chars=20_000, max_bytes=15_000)
    text, notice = cut(policy, passage("out", 60_000, lines=3_000))
    assert len(text.encode()) <= 15_000
    assert text.startswith("<out>")
    assert text.endswith("</out>")
    cuts = [notice.index(word) for word in ("lines", "characters", "bytes")]
    assert cuts == sorted(cuts)
    text, notice = cut(preset("ai", max_chars=20_000), passage("out", 30_000))
    assert 19_000 < len(text) <= 20_000
    assert "characters" in notice


@pytest.mark.seed("AI-05", change={"large_output_threshold": 10**6})
def test_huge_output_goes_to_a_file(preset: Preset) -> None:
    for error in (False, True):
        edge = Edge()
        whole = passage("out", 204_801, lines=50)
        shown = "\n".join(admitted(preset("ai"), whole, error=error, effects=edge))
        spill = only(edge.spilled)
        assert spill.text == whole
        assert spill.sha256 == hashlib.sha256(whole.encode()).hexdigest()
        assert spill.path in shown
        assert spill.sha256 in shown
        assert len(shown) < 1_000
        assert not spill.path.startswith(("/", "..")), "under the session's folder"
        edge = Edge()
        admitted(preset("ai"), passage("out", 204_800, lines=50), error=error, effects=edge)
        assert edge.carried == [], "200 Ki itself is cut, not spilled"
