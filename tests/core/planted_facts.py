"""Long agent sessions made from a seed, with facts planted at places the seed decides."""

import random
from functools import cache
from typing import NamedTuple

from tests.core.token_texts import hexes, log, python
from tidegate.core.messages import Call, Message, Result, Text, user_message

# Filler that lays down no rule and reports no failure.
WORDS = (
    "river table green market window paper stone garden letter summer bridge corner yellow forest silver basket morning"
    " island pocket winter mirror candle button harbour meadow orange velvet copper tunnel ladder"
).split()


class Planted(NamedTuple):
    messages: list[Message]
    facts: list[str]


def words(pick: random.Random, count: int) -> str:
    return " ".join(pick.choice(WORDS) for _ in range(count))


def path(pick: random.Random) -> str:
    return f"src/{pick.choice(WORDS)}/{pick.choice(WORDS)}_{hexes(pick, 3)}.py"


def step(pick: random.Random, number: int) -> list[Message]:
    """One group of ordinary work: a look, an edit or a run, with the output such things have."""
    name = path(pick)
    ident = f"call_{number}"
    what = pick.choice(["read", "edit", "run", "test"])
    if what == "read":
        call, output = Call(ident, "read_file", f'{{"path": "{name}"}}'), python(pick)[: pick.randint(300, 4000)]
    elif what == "edit":
        call = Call(ident, "edit_file", f'{{"path": "{name}", "old": "x = 1", "new": "x = 2"}}')
        output = f"edited {name}"
    elif what == "run":
        call, output = Call(ident, "bash", '{"command": "tail -50 app.log"}'), log(pick)[: pick.randint(300, 5000)]
    else:
        call = Call(ident, "bash", '{"command": "pytest -q"}')
        output = f"{words(pick, 40)}\n{pick.randint(1, 90)} passed in {pick.randint(1, 60)}s"
    said = Text(f"Next I look at the {words(pick, 8)}.")
    return [Message("assistant", (said, call)), Message("tool", (Result(ident, (Text(output),)),))]


def kinds(pick: random.Random, number: int) -> list[tuple[str, list[Message]]]:
    """A fact of each kind with the messages that bring it in."""
    ident, ident2 = f"fact_{number}", f"fact_{number}_b"
    where, url = path(pick), f"https://wiki.example.org/{pick.choice(WORDS)}/{hexes(pick, 6)}"
    uuid = "-".join(hexes(pick, size) for size in (8, 4, 4, 4, 12))
    port, order = str(pick.randint(20_000, 60_000)), f"ORD-{pick.randint(1000, 9999)}"
    rule = f"Never push to the branch release-{pick.randint(10, 99)} before the {words(pick, 4)}."
    failure = f"LedgerError: account {hexes(pick, 8)} was refused"
    return [
        (where, called(ident, "write_file", f'{{"path": "{where}", "content": "1"}}', "done")),
        (url, [user_message(f"The background is described at {url}, {words(pick, 10)}.")]),
        (uuid, called(ident2, "deploy", "{}", f"created deployment {uuid}\n{words(pick, 30)}")),
        (port, [user_message(f"The staging gateway listens on port {port}. {words(pick, 12)}.")]),
        (order, [Message("assistant", (Text(f"I confirmed that {order} is the order with the wrong total."),))]),
        (rule, [user_message(f"The {words(pick, 30)}.\n\n{rule} The {words(pick, 50)}.")]),
        (failure, called(f"{ident}_c", "bash", '{"command": "make check"}', f"{words(pick, 60)}\n{failure}")),
    ]


def called(ident: str, tool: str, arguments: str, output: str) -> list[Message]:
    result = Message("tool", (Result(ident, (Text(output),)),))
    return [Message("assistant", (Call(ident, tool, arguments),)), result]


@cache
def session(seed: int, steps: int = 120, plants: int = 3) -> Planted:
    pick = random.Random(seed)
    blocks = [step(pick, number) for number in range(steps)]
    for number in range(0, steps, 12):
        blocks[number].insert(0, user_message(f"Please look into the {words(pick, 9)} and tell me why it is slow."))
    facts: list[str] = []
    for number in range(plants):
        for fact, messages in kinds(pick, number):
            facts.append(fact)
            blocks.insert(pick.randrange(len(blocks)), messages)
    return Planted([message for block in blocks for message in block], facts)
