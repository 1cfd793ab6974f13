"""The conversation that the pictures show: a small project with a real fault, and a model that speaks from a script.

Only the model's words are written here. The tools are the agent's own: they read these files, change them and run their
tests. Clock and names are fixed, so the same story gives the same pictures.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.models.token_counters import create_counter

SESSION = "cent-short"
CONFIG = """\
agents: [{id: main, model: {provider: openai, model: scripted, max_output: 2000}}]
execution: {state_notes: false}  # the scripted model answers in order
window: 12000
models: {scripted: {input: 2, output: 8, cache_read: 0.2}}
capabilities: {tools: {edit: allow}, allow_commands: [python3 check.py]}
"""
BLOCK = 128
"""Tokens: a provider's cache holds whole blocks."""

PRICES = '''\
"""Prices are whole cents."""


def discounted(cents: int, percent: int) -> int:
    return int(cents * (1 - percent / 100))
'''
ORDERS = '''\
"""What an order costs."""

from shop.prices import discounted


def total(lines: list[tuple[int, int, int]]) -> int:
    """Each line is (cents, percent off, pieces)."""
    return sum(discounted(cents, percent) * pieces for cents, percent, pieces in lines)
'''
TESTS = """\
import unittest

from shop.orders import total
from shop.prices import discounted


class Prices(unittest.TestCase):
    def test_no_discount(self) -> None:
        self.assertEqual(discounted(4999, 0), 4999)

    def test_a_tenth_off(self) -> None:
        self.assertEqual(discounted(2000, 10), 1800)

    def test_an_order(self) -> None:
        self.assertEqual(total([(2800, 30, 2), (2000, 10, 1)]), 5720)
"""
CHECK = '''\
"""Runs the tests and says which failed."""

import sys
import unittest

result = unittest.TestResult()
unittest.defaultTestLoader.discover(".").run(result)
print(f"{result.testsRun} tests, {len(result.failures)} failed")
for test, _ in result.failures:
    print(f"failed: {test.id()}")
sys.exit(bool(result.failures))
'''
OLD = "    return int(cents * (1 - percent / 100))\n"
NEW = "    return cents - (cents * percent + 50) // 100\n"
OLD_TEST = "    def test_an_order("
NEW_TEST = """\
    def test_every_discount_is_exact(self) -> None:
        for cents in range(0, 10000, 100):
            for percent in range(101):
                self.assertEqual(discounted(cents, percent) * 100, cents * (100 - percent))

"""
CHANGED = "# Changes\n- 1.100: a discount is exact to the cent\n"
SUMMARY = """\
## Goal
Find out why orders with a discount are sometimes a cent short.
## Facts
- `discounted` in `shop/prices.py` computes with a float and cuts; 2800 less 30% gives 1959.
- The test `test_an_order` in `test_shop.py` fails for it.
## Rules of the user
- Never touch the invoices.
"""
YEARS = (2023, 2024, 2025)
KINDS = "lamp chair shelf table stool bench mirror basket".split()
MADE_OF = "oak brass linen steel cork glass".split()


class Article(msgspec.Struct, frozen=True):
    number: str
    name: str
    cents: int
    percent: int

    @property
    def short(self) -> bool:
        """Whether the fault takes a cent from it."""
        return int(self.cents * (1 - self.percent / 100)) * 100 < self.cents * (100 - self.percent)


def catalogue() -> Iterator[Article]:
    for place in range(144):
        name = f"{KINDS[place % len(KINDS)]}, {MADE_OF[place % len(MADE_OF)]}"
        yield Article(f"A{1000 + 7 * place}", name, 1900 + place * 700 % 6100, place % 4 * 10)


def invoices(year: int) -> str:
    rows = [
        f"{year}-{1 + n // 9:02d}-{1 + n * 3 % 28:02d};{year}{n:04d};A{1000 + n * 35 % 1001};{1 + n % 4}"
        for n in range(102)
    ]
    return "\n".join(["date;invoice;article;pieces", *rows, ""])


def changes() -> str:
    lines = [
        f"- 1.{n}: {KINDS[n % 8]} and {KINDS[(n + 3) % 8]} of {MADE_OF[n % 6]}, {n % 5} of them new" for n in range(100)
    ]
    return "\n".join(["# Changes", *reversed(lines), ""])


def make_project(folder: Path) -> None:
    rows = [f"{each.number};{each.name};{each.cents};{each.percent}" for each in catalogue()]
    files = {
        "AGENTS.md": "Money is whole cents, never a float.\n",
        "shop/prices.py": PRICES,
        "shop/orders.py": ORDERS,
        "shop/catalogue.csv": "\n".join(["number;name;cents;percent", *rows, ""]),
        **{f"shop/invoices-{year}.csv": invoices(year) for year in YEARS},
        "test_shop.py": TESTS,
        "check.py": CHECK,
        "CHANGES.md": changes(),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


class Clock:
    """Time goes on when the story says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 16, 9, 30, tzinfo=UTC).timestamp()

    def __call__(self) -> float:
        return self.now


class Turn(msgspec.Struct, frozen=True):
    user: str
    answers: tuple[ScriptedAnswer, ...]


def _calls(text: str, *calls: tuple[str, dict[str, object]], thinking: str = "") -> ScriptedAnswer:
    call_parts = [Call("", name, msgspec.json.encode(arguments).decode()) for name, arguments in calls]
    return ScriptedAnswer(text=text, thinking=thinking, calls=tuple(call_parts))


def _read(*names: str) -> list[tuple[str, dict[str, object]]]:
    return [("read", {"path": name}) for name in names]


RUN: tuple[str, dict[str, object]] = ("shell", {"command": "python3 check.py"})


def story() -> list[Turn]:
    hit = [each for each in catalogue() if each.short]
    cause = (
        "`discounted` in `shop/prices.py` computes with a float and then *cuts*: 2800 less 30% is 1959.999…, and"
        " becomes 1959. The third test fails for it."
    )
    return [
        Turn(
            "Orders with a discount are sometimes a cent short. Find out why. Never touch the invoices.",
            (
                _calls("I look at the code and run the tests.", *_read("shop/prices.py", "shop/orders.py"), RUN),
                ScriptedAnswer(text=cause),
            ),
        ),
        Turn(
            "How many articles does it hit?",
            (
                _calls("", *_read("shop/catalogue.csv")),
                ScriptedAnswer(
                    text=f"**{len(hit)} of 144** articles: all with 30% off, where the float is a hair too small."
                ),
            ),
        ),
        Turn(
            "Which ones?",
            (
                _calls("", ("grep", {"pattern": ";30$", "path": "shop/catalogue.csv"})),
                ScriptedAnswer(text="\n".join(f"- `{each.number}` {each.name}: {each.cents} cents" for each in hit)),
            ),
        ),
        Turn("/compact the cause, and what I asked for", (ScriptedAnswer(text=SUMMARY),)),
        Turn(
            "Were they sold in the last three years?",
            (
                *(_calls("", *_read(f"shop/invoices-{year}.csv")) for year in YEARS),
                ScriptedAnswer(text="Yes, in each of them. I have only **read** the invoices."),
            ),
        ),
        Turn(
            "Fix it, with a test for it, and run the tests.",
            (
                _calls(
                    "I read the tests and the list of changes before I change anything.",
                    *_read("test_shop.py", "CHANGES.md"),
                    thinking="Whole cents all the way: no float. A test over every discount.",
                ),
                _calls(
                    "",
                    ("edit", {"path": "shop/prices.py", "old": OLD, "new": NEW}),
                    ("edit", {"path": "test_shop.py", "old": OLD_TEST, "new": NEW_TEST + OLD_TEST}),
                    ("edit", {"path": "CHANGES.md", "old": "# Changes\n", "new": CHANGED}),
                ),
                _calls("", RUN),
                ScriptedAnswer(text=_done(len(hit))),
            ),
        ),
    ]


def _done(hit: int) -> str:
    return f"""\
## Fixed

The discount is computed in **whole cents** now, without a float:

```python
return cents - (cents * percent + 50) // 100
```

| | before | after |
|---|---|---|
| 2800 less 30% | 1959 | 1960 |
| articles a cent short | {hit} | 0 |

All tests pass, with a new one for every discount. The invoices are *untouched*.
"""


class Model(ScriptedProvider):
    """Says what the story says, and reports the usage of a provider with a prompt cache: what it has read before, from
    the beginning on, is cached."""

    def __init__(self, clock: Clock, turns: list[Turn]) -> None:
        self._clock = clock
        self._tokens = create_counter("scripted").count_text
        self._called = 0
        steps = [self._step_of(answer) for turn in turns for answer in turn.answers]
        super().__init__("anthropic", steps)

    def _step_of(self, answer: ScriptedAnswer) -> Callable[[bytes], ScriptedAnswer]:
        return lambda request: self._said(answer, request.decode())

    def _said(self, answer: ScriptedAnswer, request: str) -> ScriptedAnswer:
        self._clock.now += 6
        calls = tuple(
            msgspec.structs.replace(call, id=f"call_{place}")
            for place, call in enumerate(answer.calls, self._called + 1)
        )
        self._called += len(calls)
        words = answer.text + answer.thinking + "".join(call.name + call.arguments for call in calls)
        usage = Usage(self._tokens(request), self._tokens(words), self._cached(request), 0)
        return msgspec.structs.replace(answer, calls=calls, usage=usage)

    def _cached(self, request: str) -> int:
        before = self.requests[-2].decode() if len(self.requests) > 1 else ""
        pairs = zip(before, request, strict=False)
        shared = next(
            (place for place, (one, other) in enumerate(pairs) if one != other), min(len(before), len(request))
        )
        return self._tokens(request[:shared]) // BLOCK * BLOCK
