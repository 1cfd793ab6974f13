"""When a sweep pays: the prices of the model, and the growth of the history, decide how much of it is held."""

import json
import math
import re

import pytest

from tidegate import Session, presets
from tidegate.core.budget import find_payback_size
from tidegate.core.events import ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, text_of, user_message
from tidegate.core.sweep.cost_model import CachePrices
from tidegate.models.catalog import ModelInfo
from tidegate.models.pricing import TokenRates

PAGE = "\n".join(f"    part.total_{line} = compute(part.value_{line}, part.count_{line})" for line in range(16))


def one_turn(session: Session, turn: int) -> None:
    session.add(user_message(f"Now part {turn}."))
    session.prepare()
    call = Call(f"r{turn}", "read", json.dumps({"path": f"src/part_{turn}.py"}))
    page = Result(call.id, (Text(PAGE.replace("part", f"part_{turn}")),))
    session.add(Message("assistant", (call,)), Message("tool", (page,)))
    session.prepare()
    session.add(Message("assistant", (Text(f"Part {turn} is done."),)))


def sweeps(session: Session) -> list[ViewEdited]:
    found = [event.payload for event in session.log.read()]
    return [each for each in found if isinstance(each, ViewEdited) and each.stage == "sweep"]


def find_size(read: float, write: float = 1.25, growth: float = 700.0) -> float:
    return find_payback_size(CachePrices(read, write), growth, 0.63)


def test_the_cheaper_reading_is_the_later_a_sweep_pays() -> None:
    sizes = [find_size(read) for read in (0.1, 0.05, 0.025)]
    assert [size // 10_000 for size in sizes] == [8, 16, 32]
    assert find_size(0.0) == math.inf
    assert find_size(0.1, write=1.0) < sizes[0], "writing it again is cheaper"
    assert find_size(0.1, growth=1_400) == pytest.approx(2 * sizes[0])


@pytest.mark.parametrize(("read", "growth"), [(0.1, 700.0), (0.025, 700.0), (0.5, 200.0)])
def test_when_a_sweep_pays_no_other_moment_costs_less_for_a_call(read: float, growth: float) -> None:
    """The rule against a simulation that counts every call of a cycle."""
    prices, leaves = CachePrices(read, 1.25), 0.63
    best = find_payback_size(prices, growth, leaves)
    left = int(leaves * best)

    def cost_of_call(calls: int) -> float:
        reading = sum(prices.read * growth * call for call in range(calls))  # of what came since the sweep
        repeated = growth * (prices.write + 0.25 * prices.output)  # the call made again, which also reads `left`
        return (reading + prices.again * left + prices.read * left + repeated) / calls

    calls = round((best - left) / growth)
    costs = {each: cost_of_call(each) for each in range(max(1, calls // 3), calls * 3)}
    cheapest = min(costs, key=lambda each: costs[each])
    assert abs(cheapest - calls) <= 2


def priced_session(*rates: TokenRates, window: int = 40_000, hold: int = 8_000) -> Session:
    policy = presets.load("default", {"hold": hold})
    prices = {"": ModelInfo(prices=rates)}
    return Session(policy=policy, window=window, count="chars/4", clock=lambda: 0.0, prices=prices)


def test_a_sweep_before_the_room_is_full_comes_when_it_pays() -> None:
    session = priced_session(TokenRates(input=1.0, output=5.0, cached=0.1, written=1.25))
    for turn in range(120):
        one_turn(session, turn)
        if sweeps(session):
            break
    held, room = session.budget.held_room, session.budget.room
    assert 8_000 < held < room
    (made,) = sweeps(session)
    assert 0.9 * held < made.tokens_before < room
    assert made.tokens_after <= 0.66 * held
    assert re.search(r"of the 1\d,\d00 tokens that are worth holding at the model's prices", made.why)
    assert any(line.startswith("A sweep comes at ") for line in session.budget.explain())
    assert session.explain().next_sweep is not None


@pytest.mark.parametrize(
    ("rates", "held"),
    [
        ((TokenRates(1.0, 5.0, 0.0, 1.25),), 35_888),  # reading costs nothing, so only the room counts
        ((TokenRates(1.0, 5.0, 0.001, 1.25), TokenRates(2.0, 10.0, 0.002, 2.5, above=20_000)), 19_900),
        ((TokenRates(1.0, 5.0),), 8_000),  # without a cache every call is dear, but so much is always held
    ],
)
def test_what_is_held_follows_the_prices(rates: tuple[TokenRates, ...], held: int) -> None:
    session = priced_session(*rates)
    for turn in range(5):
        one_turn(session, turn)
    assert session.budget.held_room == held


def test_without_prices_only_the_room_limits_the_history() -> None:
    session = Session(policy=presets.load("default", {"hold": 1_000}), window=40_000, count="chars/4")
    one_turn(session, 0)
    assert session.budget.held_room == session.budget.room


def test_prices_do_not_shorten_a_new_result_or_words_of_the_user() -> None:
    session = priced_session(TokenRates(1.0, 5.0), hold=8_000)
    asked = "\n".join(f"Point {number}: keep the value {number * 7919}." for number in range(300))  # 2,600 tokens
    session.add(user_message(asked))
    for turn in range(20):
        one_turn(session, turn)
    printed = "\n".join(f"line {number} is {number * 31}" for number in range(1_500))
    session.add(Message("assistant", (Call("big", "read", "{}"),)), Message("tool", (Result("big", (Text(printed),)),)))
    session.prepare()
    assert sweeps(session)
    assert {asked, printed} <= {text_of(item.message) for item in session.view.items}
