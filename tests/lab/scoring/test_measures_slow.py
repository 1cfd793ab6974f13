"""The measures against an implementation that knows nothing of theirs, on generated sessions and any requests."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.scoring import slow
from tests.scale import scaled
from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import extract_signals
from tidegate.presets import load
from tidegate.proof.session_generator import generate_session

Json = dict[str, Any]
RULER = UnitCounter(CharsPerToken(4))

NAMES = """
src/shop/cart.py /home/a/work/src/shop/cart.py cart.py shop/cart.py a// ~/notes/x.md C:/data/in.csv file:/etc/hosts
12345 112345 2024 1200 user-17-b 3f9ac01d os.path.join get_total getTotal https://example.org/a?b=1 me@example.org ..
python3 /dev/null déjà_vu1 x.REDACTED.y1 'quoted-name' 9f1b3c2d-0000-4000-8000-0123456789ab
""".split()
LINES = (
    "    return sum(item.price for item in self.items)",
    "total = compute_total(cart, currency='EUR')",
    "short line",
    "raise ValueError('an empty cart has no total')",
)
GLUE = (" ", "\n", "/", "x", ", ", "_", "\\", '"', ": ")
text = st.lists(st.sampled_from((*NAMES, *LINES, *GLUE, *GLUE)), max_size=12).map("".join)
arguments = st.one_of(
    st.fixed_dictionaries({"path": text, "timeout": st.integers(1000, 99999), "id": st.integers(1000, 99999)}),
    st.fixed_dictionaries({"old_string": st.lists(st.sampled_from(LINES), max_size=3).map("\n".join), "cwd": text}),
    st.fixed_dictionaries({"input": st.lists(st.sampled_from([f"-{x}" for x in LINES]), max_size=3).map("\n".join)}),
    st.fixed_dictionaries({"parts": st.lists(text, max_size=3), "on": st.booleans()}),
).map(json.dumps)


@st.composite
def sessions(draw: st.DrawFn) -> list[Json]:
    said: list[Json] = [{"role": "system", "content": "be brief"}] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 4))):
        said.append({"role": "user", "content": draw(text) * draw(st.sampled_from((1, 1, 9)))})
        for step in range(draw(st.integers(0, 2))):
            calls = draw(
                st.lists(st.tuples(st.sampled_from(("read", "apply_patch")), arguments), min_size=1, max_size=2)
            )
            ids = [f"{turn}.{step}.{number}" for number in range(len(calls))]
            made = [
                {"id": ident, "type": "function", "function": {"name": name, "arguments": given}}
                for ident, (name, given) in zip(ids, calls, strict=True)
            ]
            said.append({"role": "assistant", "content": draw(st.none() | text), "tool_calls": made})
            said += [{"role": "tool", "tool_call_id": ident, "content": draw(text)} for ident in ids]
        said.append({"role": "assistant", "content": draw(text)})
    return said


@st.composite
def played(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """A session and requests for it: sound ones, and ones that no policy would make."""
    said = draw(sessions())
    requests: list[Json] = []
    for at, message in enumerate(said):
        if message["role"] != "assistant":
            continue
        what = draw(st.sampled_from(("whole", "tail", "edited", "odd", "error")))
        if what == "error":
            requests.append({"at": at, "error": "too small"})
            continue
        messages = [dict(each) for each in said[:at]]
        if what == "tail":
            messages = messages[-draw(st.integers(1, 4)) :]
        if what == "edited" and messages:
            messages[draw(st.integers(0, len(messages) - 1))]["content"] = draw(text)
        if what == "odd":
            messages = draw(st.lists(st.sampled_from(messages), max_size=5)) if messages else []
        requests.append({"at": at, "messages": messages})
    return said, requests


def gauged(said: list[Json], requests: list[Json], window: int, common: frozenset[str] = frozenset()) -> SessionFigures:
    task = ScoringTask(extract_signals(said, RULER), said, RULER, window, common)
    gauge = RequestScorer(task, InputBill(()))
    for each in requests:
        gauge.add_request(ContenderRequest(each["at"], each.get("messages", ()), each.get("error", "")))
    figures = gauge.finish()
    figures.unmanaged = compute_unmanaged_cost(task, InputBill(()))
    return figures


@settings(max_examples=scaled(25))
@given(sessions())
def test_what_a_session_needs(said: list[Json]) -> None:
    found = extract_signals(said, RULER)
    references = [(need.message_index, need.name, need.text, need.tokens_back) for need in found.references]
    assert references == slow.references(said)
    assert [(need.message_index, need.text, need.tokens_back) for need in found.anchors] == slow.anchors(said)
    for need in (*found.references, *found.anchors):
        assert need.text in slow.page(said[need.last_seen_index])


@settings(max_examples=scaled(25))
@given(played(), st.integers(5, 120), st.frozensets(st.sampled_from(("12345", "cart.py", "src/shop/cart.py"))))
def test_every_measure_of_any_requests(
    case: tuple[list[Json], list[Json]], window: int, common: frozenset[str]
) -> None:
    said, requests = case
    mine = gauged(said, requests, window, common).compute_measures()
    theirs = slow.measures(said, requests, window, sorted(common))
    for key, value in theirs.items():
        assert mine[key] == pytest.approx(value), key


@pytest.mark.parametrize(
    "preset", ["default", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("ai", "cowagent"))]
)
def test_every_measure_of_a_policy(preset: str) -> None:
    """Real requests: most messages stay the same objects, some move, some are written anew."""
    said = [dict(each) for each in generate_session(3, seed=3)]
    window = 3_000
    task = ScoringTask(extract_signals(said, RULER), said, RULER, window)
    gauge = RequestScorer(task, InputBill(()))
    requests: list[Json] = []

    def sink(asked: ContenderRequest) -> None:
        gauge.add_request(asked)
        requests.append({"at": asked.message_index, "messages": json.loads(json.dumps(list(asked.messages)))})

    replay_session(
        "it",
        [RecordedLine(at, each) for at, each in enumerate(said)],
        ReplaySetup(load(preset), window, "chars/4"),
        on_request=sink,
    )
    figures = gauge.finish()
    figures.unmanaged = compute_unmanaged_cost(task, InputBill(()))
    mine, theirs = figures.compute_measures(), slow.measures(said, requests, window)
    assert figures.requests_beyond_window > 5
    assert figures.far_references.total > 1
    for key, value in theirs.items():
        assert mine[key] == pytest.approx(value), key
