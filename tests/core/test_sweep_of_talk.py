"""What a sweep leaves of a talk with short replies, of plans that the agent wrote, and of skills that are over."""

import json

import pytest

from tidegate import Session
from tidegate.core.messages import Call, Message, Result, Text
from tidegate.core.sweep.group_notes import describe_group
from tidegate.core.turns import Group
from tidegate.core.view import Item

FILLER = "The exporter reads rows, groups them by day and writes one file for each. " * 12


def begin() -> Session:
    session = Session(policy="default", window=8_000, wire="openai_chat", count="chars/4")
    say(session, "user", "Let us design the exporter.")
    return session


def say(session: Session, role: str, text: str) -> None:
    if role == "assistant":
        session.prepare()
    session.add({"role": role, "content": text})


def work(session: Session, steps: int, offset: int = 0) -> None:
    for step in range(offset, offset + steps):
        add_call(session, f"c{step}", "read_file", {"path": f"src/part_{step}.py"}, f"value_{step} = {step}\n" * 60)


def add_call(session: Session, ident: str, name: str, arguments: dict[str, str], result: str) -> None:
    session.prepare()
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": ident, "type": "function", "function": function}]
    session.add({"role": "assistant", "content": None, "tool_calls": calls})
    session.add({"role": "tool", "tool_call_id": ident, "content": result})


def last_view(session: Session) -> str:
    assert session.edit_counts["sweep"]
    return json.dumps(session.prepare().messages, ensure_ascii=False)


def test_the_question_of_a_short_reply_stays() -> None:
    session = begin()
    say(session, "assistant", f"{FILLER * 4}\n\nA) one file a day\nB) one file a customer\n\nWhich layout do you want?")
    say(session, "user", "b")
    work(session, 30)
    view = last_view(session)
    assert "B) one file a customer" in view
    assert "Which layout do you want?" in view
    assert FILLER * 3 not in view


@pytest.mark.parametrize(
    ("answer", "reply", "asks"),
    [
        ("Done.\nShall I push?", "yes, but only the branch", True),
        ("I would drop the cache.", "ok", True),
        ("Part 3 is done.", "Now part 4: keep the order.", False),
        ("Shall I push?", "Now write the documentation of all commands, with an example for each.", False),
    ],
)
def test_only_a_reply_that_says_nothing_alone_needs_the_question(answer: str, reply: str, asks: bool) -> None:
    group = Group((Item(Message("assistant", (Text(answer),), id="m2"), 9),))
    line = describe_group(group, Message("user", (Text(reply),), id="m3"))
    assert line == f"- m2 {'asked' if asks else 'answered'}: {answer.replace(chr(10), ' / ' if asks else ' ')}"


PLAN = "# Plan of the exporter\n\n" + "".join(
    f"## Task {number}\n\nStep {number} writes `part_{number}.py`. {FILLER}\n\n" for number in range(1, 15)
)


def test_a_plan_that_the_agent_wrote_is_quoted_with_its_headings() -> None:
    session = begin()
    work(session, 4)
    add_call(session, "old", "write", {"path": "docs/plan.md", "content": PLAN.replace("Plan of", "Draft for")}, "ok")
    add_call(session, "new", "write", {"path": "docs/plan.md", "content": PLAN}, "ok")
    work(session, 30, 10)
    view = last_view(session)
    assert " wrote in plan.md:" in view
    assert "| # Plan of the exporter" in view
    assert "Draft for" not in view


def test_of_a_skill_that_another_one_followed_only_sections_with_rules_stay() -> None:
    skill = (
        "Base directory for this skill: /skills/{}\n\n# {}\n\n" + FILLER * 6 + "\n\n## You must\n\nNever push to {}.\n"
    )
    session = begin()
    say(session, "user", skill.format("old", "Old skill", "main"))
    work(session, 12)
    say(session, "user", skill.format("new", "New skill", "prod"))
    work(session, 16, 20)
    view = last_view(session)
    assert "Never push to main." in view
    assert "lines of this skill; recall m" in view
    assert view.count(FILLER[:60]) < 100
    new = view[view.index("/skills/new") :]
    assert FILLER in new
    assert FILLER not in view[: view.index("/skills/new")]


def test_an_answer_that_names_a_file_is_no_place_to_recall_it_from() -> None:
    session = begin()
    say(session, "assistant", f"You should run deploy.sh first. {FILLER * 4}")
    say(session, "user", "Fine, now go on with the readers of the exporter, all of them.")
    work(session, 40)
    say(session, "assistant", "All readers are done.")
    say(session, "user", "Why does deploy.sh fail?")
    assert session.edit_counts["sweep"]
    assert "can be had back" not in json.dumps(session.prepare().messages)


@pytest.mark.parametrize(
    ("name", "arguments", "result", "outcome"),
    [
        ("TaskCreate", {"subject": "Update docs"}, "Task #3 created successfully: Update docs", "task 3 created"),
        ("TaskUpdate", {"taskId": "3", "status": "completed"}, "Updated task #3 status", "task 3 completed"),
    ],
)
def test_a_task_that_was_made_is_not_done(name: str, arguments: dict[str, str], result: str, outcome: str) -> None:
    call = Message("assistant", (Call("c", name, json.dumps(arguments)),), id="m2")
    answer = Message("tool", (Result("c", (Text(result),)),), id="m3")
    assert describe_group(Group((Item(call, 9), Item(answer, 9)))).endswith(f" -> {outcome}")
