"""Text that the agent went on to work with, on sessions small enough to count by hand.

A message of a session is as long as its text, and a token is four characters.
"""

import json
from typing import Any

import pytest

from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.session_figures import SessionFigures
from tidegate.lab.scoring.signals import extract_signals

RULER = UnitCounter(CharsPerToken(4))
WINDOW = 1_000
Json = dict[str, Any]

FILE = "\n".join(f"     {number}\tvalue_{number} = compute_the_value({number})" for number in range(1, 9))
BLOCK = "value_3 = compute_the_value(3)\n    value_4 = compute_the_value(4)\nvalue_5 = compute_the_value(5)"
FAR, NEAR = "x" * 4_200, "y" * 400


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def call(name: str, **arguments: object) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def result(text: str) -> Json:
    return {"role": "tool", "tool_call_id": "c", "content": text}


def scored(messages: list[Json], *sent: list[Json] | None, window: int = WINDOW) -> SessionFigures:
    """The figures if the last answers had these requests, and earlier ones the whole history. None: it failed."""
    task = ScoringTask(extract_signals(messages, RULER), messages, RULER, window)
    scorer = RequestScorer(task, InputBill(()))
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    given = [*(messages[:at] for at in answers[: -len(sent)]), *sent]
    for at, request in zip(answers, given, strict=True):
        scorer.add_request(ContenderRequest(at, request or [], error="" if request is not None else "gave up"))
    figures = scorer.finish()
    figures.unmanaged = compute_unmanaged_cost(task, InputBill(()))
    return figures


def measured(messages: list[Json], *sent: list[Json] | None, window: int = WINDOW) -> dict[str, float | None]:
    return scored(messages, *sent, window=window).compute_measures()


READ = [user("Go."), call("read", path="a.py"), result(FILE)]


@pytest.mark.parametrize(
    ("between", "key", "other"), [(FAR, "far_block", "near_block"), (NEAR, "near_block", "far_block")]
)
def test_an_edited_block_must_be_whole_and_in_one_piece(between: str, key: str, other: str) -> None:
    edit = call("edit", path="a.py", old_string=BLOCK, new_string="")
    session = [user("z" * 4_000), *READ, user(between), edit]
    indented = result("\n".join(f"   {line.strip()}" for line in BLOCK.split("\n")))
    assert measured(session, [user("Go."), indented])[key] == 1.0
    lines = BLOCK.split("\n")
    assert measured(session, [user(lines[0]), user("\n".join(lines[1:]))])[key] == 0.0
    assert measured(session, [user(f"{lines[0]}\nanother line\n{lines[1]}\n{lines[2]}")])[key] == 0.0
    assert measured(session, None)[key] == 0.0
    assert measured(session, [indented])[other] is None


def test_a_hunk_of_a_patch_is_a_block() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n" + "\n".join(
        [
            " value_3 = compute_the_value(3)",
            "-value_4 = compute_the_value(4)",
            " value_5 = compute_the_value(5)",
            "+new",
        ]
    )
    session = [user("z" * 4_000), *READ, user(FAR), call("apply_patch", input=patch)]
    assert measured(session, [result(FILE)])["far_block"] == 1.0
    assert measured(session, [user("nothing")])["far_block"] == 0.0


@pytest.mark.parametrize("old", ["one line of an edit that is long enough to be counted" * 2, "a\nb\nc"])
def test_a_short_old_text_is_no_block(old: str) -> None:
    session = [user("z" * 4_000 + "\n" + old), user(FAR), call("edit", old_string=old)]
    assert measured(session, [user("nothing")])["far_block"] is None


def test_a_reread_is_avoidable_with_nine_tenths_of_its_lines() -> None:
    lines = [f"this is the line with number {number:02}" for number in range(20)]
    read, again = call("read", path="a.py"), call("bash", command="cat a.py | head -50")
    session = [user("Go."), read, result("\n".join(lines)), user(FAR), again, result("\n".join(lines))]
    most, fewer = measured(session, [user("\n".join(lines[:18]))]), measured(session, [user("\n".join(lines[:17]))])
    assert (most["reread_avoidable"], most["reread_lines"]) == (1.0, 0.9)
    assert (fewer["reread_avoidable"], fewer["reread_lines"]) == (0.0, 0.85)
    near = [user("z" * 4_000), read, result("\n".join(lines)), user(NEAR), again, result("\n".join(lines))]
    assert measured(near, [user("Go.")])["reread_avoidable"] is None


def test_another_call_or_another_result_is_no_reread() -> None:
    lines = "\n".join(f"this is the line with number {number:02}" for number in range(6))
    for command, second in (("make test", lines.replace("line", "row")), ("make all", lines)):
        session = [user("Go."), call("bash", command="make test"), result(lines), user(FAR)]
        session += [call("bash", command=command), result(second)]
        assert measured(session, [user("nothing")])["reread_avoidable"] is None
    session = [user("Go."), call("bash", command="make test"), result(lines), user(FAR)]
    session += [call("bash", command="make test"), result(lines)]
    assert measured(session, [user("nothing")])["reread_avoidable"] == 0.0


def test_a_line_that_is_written_again() -> None:
    line = "the port of the database is 5432"
    session = [user(f"  12\t{line}\nshort one"), user(FAR), said(f"As said:\n{line}\nshort one")]
    assert measured(session, [user(f"> {line}, he said")])["far_lines"] == 1.0
    assert measured(session, [user(line[:-1])])["far_lines"] == 0.0
    assert scored(session, [user(line)]).texts.far_lines.total == 1
    near = [user("z" * 4_200), user(line), user(NEAR), said(line)]
    assert measured(near, [user("nothing")])["far_lines"] is None


def test_a_reference_needs_what_stood_beside_it() -> None:
    session = [
        user("The error is in src/parser/lexer.py near the top"),
        user(FAR),
        call("read", path="src/parser/lexer.py"),
    ]
    bare_list = scored(session, [user("files: src/parser/lexer.py, other.py")])
    assert bare_list.far_references.value == 1.0
    assert measured(session, [user("files: src/parser/lexer.py, other.py")])["refs_in_context"] == 0.0
    assert measured(session, [user("error is in src/parser/lexer.py")])["refs_in_context"] == 1.0
    assert measured(session, [user("see src/parser/lexer.py near the to")])["refs_in_context"] == 1.0
    assert measured(session, [user("error is in src/parser/lexer.pyc")])["refs_in_context"] == 0.0


RULES = "You must never push to main. The sky is blue today."
LONG = "<doc>" + "w " * 1_100 + "\nAlways run the linter first.\n"


def test_rules_are_asked_of_every_tenth_request() -> None:
    turns = [message for number in range(12) for message in (said(f"Step {number}."), user(f"And {number}?"))]
    session = [user(RULES), user(LONG), user(FAR), *turns[:-1]]
    figures = scored(session, *([[user("nothing")]] * 12)).texts
    assert (figures.typed_rules.kept, figures.typed_rules.total) == (0, 1)
    assert (figures.deep_rules.kept, figures.deep_rules.total) == (0, 1)
    kept = [[user("nothing")]] * 9 + [[user("You  must never\npush to main. Always run the linter first.")]]
    figures = scored(session, *kept, *([[user("nothing")]] * 2)).texts
    assert (figures.typed_rules.kept, figures.deep_rules.kept) == (1, 1)


def test_nothing_is_asked_before_the_window_is_full() -> None:
    session = [user("z" * 3_000), *READ, call("edit", old_string=BLOCK)]
    assert measured(session, [user("nothing")])["near_block"] is None


def test_a_request_that_is_never_made_holds_nothing() -> None:
    edit = call("edit", old_string=BLOCK)
    session = [user("z" * 4_000), *READ, user(NEAR), edit]
    task = ScoringTask(extract_signals(session, RULER), session, RULER, WINDOW)
    figures = RequestScorer(task, InputBill(())).finish()
    assert (figures.texts.near_block.kept, figures.texts.near_block.total) == (0, 1)


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_the_four_ways_to_charge() -> None:
    """Requests of 2,000, 3,000 and 3,500 tokens; the user speaks before the first and the third."""
    session = [user("a" * 8_000), said("b" * 2_000), result("c" * 2_000), said("d" * 400), user("e" * 1_600), said("f")]
    whole = [session[:at] for at in (1, 3, 5)]
    values = measured(session, *whole, window=10_000)
    assert [values[key] for key in ("cost", "cost_cold", "cost_automatic", "sent")] == [1.0] * 4
    figures = scored(session, session[:1], [session[0], session[2]], [session[4]], window=10_000)
    # 2,000 new; 2,000 shared and 500 new; 400 new.
    assert figures.costs.warm == pytest.approx(2_000 * 1.25 + 2_000 * 0.1 + 500 * 1.25 + 400 * 1.25)
    assert figures.costs.cold == figures.costs.warm
    assert figures.costs.automatic == pytest.approx(2_000 + 1_920 * 0.1 + 580 + 400)
    full = figures.unmanaged.costs
    assert full.warm == pytest.approx(2_000 * 1.25 + (2_000 * 0.1 + 1_000 * 1.25) + (3_000 * 0.1 + 500 * 1.25))
    assert full.cold == pytest.approx(2_000 * 1.25 + (2_000 * 0.1 + 1_000 * 1.25) + 3_500 * 1.25)
    assert full.automatic == pytest.approx(2_000 + (1_920 * 0.1 + 1_080) + (2_944 * 0.1 + 556))
    values = figures.compute_measures()
    assert values["cost_cold"] == pytest.approx(figures.costs.cold / full.cold)
    assert values["cost_automatic"] == pytest.approx(figures.costs.automatic / full.automatic)
    assert values["sent"] == pytest.approx((2_000 + 2_500 + 400) / (2_000 + 3_000 + 3_500))
