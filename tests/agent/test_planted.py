"""Rules and facts said at the beginning of a long session are still there after twenty compactions."""

import re
from functools import cache
from typing import NamedTuple

import pytest

from tidegate import Session, presets
from tidegate.core.events import ViewEdited
from tidegate.core.messages import Call, Message, Result, Text, text_of, user_message
from tidegate.core.outcome import SummaryRequest
from tidegate.session.recall import recall_text

RULES = (
    "Never push to the branch release-41.",
    "From now on answer in short sentences.",
    "Please don't add new dependencies, e.g. requests.",
    "Only use pnpm for the web part.",
    "The public API must stay compatible with version 2.",
    "Verwende niemals globale Variablen.",
    "Ne touche jamais au dossier legacy.",
    "No borres los archivos de auditoría.",
    "不要修改生成的文件。",
    "テストを消さないでください。",
)
COMPACTIONS = 20
WORDS = "river table green market window paper stone garden letter summer bridge corner yellow forest".split()


def facts() -> list[str]:
    found: list[str] = []
    for n in range(10):
        found += [
            f"src/billing/invoice_{n}7.py",
            f"https://wiki.example.org/page/{n}4f2c",
            f"ORD-{4100 + n * 37}",
            f"{20_011 + n * 313}",
            f"9c{n}f41{n}ab7",
        ]
    return found


class Played(NamedTuple):
    session: Session
    seen: str
    compactions: list[ViewEdited]


def words(seed: int, count: int) -> str:
    return " ".join(WORDS[(seed * 7 + place * place + place * seed) % len(WORDS)] for place in range(count))


def planted() -> list[Message]:
    """Five turns with two rules each; of the facts some are said by the user, some are found by a tool."""
    messages: list[Message] = []
    every = facts()
    for turn in range(5):
        path, url, order, port, commit, *others = every[turn * 10 : turn * 10 + 10]
        first, second = RULES[turn * 2 : turn * 2 + 2]
        asked = f"Look at {path} first, {url} tells why. Order {order} waits. {first}\nIt is port {port}.\n- {second}"
        call = Call(f"plant_{turn}", "read_file", f'{{"path": "{others[0]}"}}')
        output = (
            f"see {others[1]}\norder {others[2]} listens on port {others[3]}\ncommit {others[4]}\n{words(turn, 30)}"
        )
        messages += [
            user_message(asked),
            Message("assistant", (Text(f"I look. The commit is {commit}."), call)),
            Message("tool", (Result(call.id, (Text(output),)),)),
            Message("assistant", (Text(f"Done with part {turn}."),)),
        ]
    return messages


def filler(turn: int) -> list[Message]:
    """A turn of ordinary work, with names and numbers of its own."""
    call = Call(f"work_{turn}", "bash", f'{{"command": "grep -n item_{turn} src/part_{turn % 9}/mod_{turn}.py"}}')
    output = "\n".join(
        f"{line}: item_{turn}_{line} = {turn * 977 + line * 31}  # {words(line, 6)}" for line in range(18)
    )
    where = f"src/part_{turn % 9}/mod_{turn}.py"
    return [
        user_message(f"Now look for item_{turn} in {where}, ticket WORK-{turn + 300}; {words(turn, 30)}."),
        Message("assistant", (Text(f"I search. {words(turn + 1, 20)}."), call)),
        Message("tool", (Result(call.id, (Text(output),)),)),
        Message("assistant", (Text(f"Found it at line {turn % 18}. {words(turn + 2, 60)}."),)),
    ]


def forgetful(_: SummaryRequest) -> str:
    """A summarizer that keeps nothing: whatever survives, survives without it."""
    return "We worked on several parts of the project, step by step, and found what was asked for."


SUMMARIZERS = {"digest": None, "forgetful": forgetful}


@cache
def played(summarizer: str) -> Played:
    policy = presets.load("default")
    summarize = SUMMARIZERS[summarizer]
    session = Session(policy=policy, window=8_000, count="chars/4", system="You are careful.", clock=lambda: 0.0)
    todo, turn = planted(), 0
    done: list[ViewEdited] = []
    while len(done) < COMPACTIONS and turn < 400:
        for message in todo:
            if message.role == "assistant":
                session.prepare(summarize)
            session.add(message)
        turn += 1
        todo = filler(turn)
        edits = [event.payload for event in session.log.read() if isinstance(event.payload, ViewEdited)]
        done = [edit for edit in edits if edit.stage in ("sweep", "summarize", "guard")]
    session.add(user_message("And now?"))
    request = session.prepare(summarize)
    assert request.tokens <= session.budget.capacity
    return Played(session, "\n".join(text_of(item.message) for item in session.view.items), done)


def recalled(session: Session, seen: str) -> str:
    """Everything that the calls printed in the view bring back: an id, or a range read on to its end."""
    found: list[str] = []
    for what in sorted(set(re.findall(r"\bm\d+\.\.m\d+\b|\b[me]\d+(?:\.\d+)?\b", seen))):
        answer = recall_text(session.log, what)
        found.append(answer.text)
        while answer.next_query:
            answer = recall_text(session.log, answer.next_query, offset=answer.next_offset)
            found.append(answer.text)
    return "\n".join(found)


@pytest.mark.parametrize("summarizer", SUMMARIZERS)
def test_twenty_compactions_were_made_and_each_was_checked(summarizer: str) -> None:
    done = played(summarizer).compactions
    assert len(done) >= COMPACTIONS
    said = re.compile(r"of \d+ facts?, [^;]+|no facts to keep were found|\d+ messages? shortened")
    clauses = [said.search(edit.why) for edit in done]
    assert all(clauses)
    tallies = [list(map(int, re.findall(r"\d+", clause[0]))) for clause in clauses if clause and "facts," in clause[0]]
    assert tallies
    assert all(checked == sum(others) for checked, *others in tallies)


@pytest.mark.parametrize("summarizer", SUMMARIZERS)
def test_every_rule_is_in_the_view_word_for_word(summarizer: str) -> None:
    seen = played(summarizer).seen
    assert [rule for rule in RULES if rule not in seen] == []


@pytest.mark.parametrize("summarizer", SUMMARIZERS)
def test_every_fact_is_present_or_recalled_by_a_printed_call(summarizer: str) -> None:
    session, seen, _ = played(summarizer)
    back = recalled(session, seen)
    assert len(facts()) == 50
    assert [fact for fact in facts() if fact not in seen and fact not in back] == []


@pytest.mark.parametrize("ledger", [True, False])
def test_a_summary_that_forgets_loses_facts_but_no_rules_without_the_ledger(ledger: bool) -> None:
    """If it lost no facts either, the tests above would prove nothing."""
    session = Session(
        policy=presets.load("default", {} if ledger else {"ledger": 0}),
        window=8_000,
        count="chars/4",
        clock=lambda: 0.0,
    )
    for message in (*planted(), *filler(1), *filler(2)):
        session.add(message)
    session.compact(SUMMARIZERS["forgetful"])
    seen = "\n".join(text_of(item.message) for item in session.view.items)
    assert [rule for rule in RULES if rule not in seen] == []
    assert ledger or [fact for fact in facts() if fact not in seen]


@pytest.mark.parametrize("summarizer", SUMMARIZERS)
def test_the_ledger_keeps_to_its_share(summarizer: str) -> None:
    session, _, _ = played(summarizer)
    held = [item for item in session.view.items if item.message.kind == "ledger"]
    share = session.policy.settings["ledger"]
    assert isinstance(share, float)
    assert 0 < sum(item.tokens for item in held) <= session.budget.room * share
