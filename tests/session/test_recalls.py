"""What came of recall is told from the log alone: found or not, fetched again, hints that were followed."""

import asyncio
import json

from tidegate import MemoryLog, Session
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import CommandContext
from tidegate.core.edits import Insert
from tidegate.core.events import Event, ViewEdited
from tidegate.core.messages import NOTE, user_message
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.session.recall import recall_text
from tidegate.session.reports.recall_stats import RecallStats, count_recalls

CLEARS = """
moments:
  manual:
    - {stage: clear_results, keep: 0}
"""


class Talk:
    """A session whose results leave when it is told so."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        policy = parse_policy(CLEARS, source="clears.yaml", stages=STAGES)
        self.log = log or MemoryLog()
        self.session = Session("gpt-4o", policy=policy, window=50_000, count="chars/4", log=self.log)
        if log is None:
            self.session.add({"role": "user", "content": "go"})
        self._calls = 0

    def call(self, name: str, result: str, *, error: bool = False, **arguments: object) -> None:
        self._calls += 1
        ident = f"c{self._calls}"
        call = {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        self.session.add({"role": "assistant", "tool_calls": [call]})
        block = {"type": "tool_result", "tool_use_id": ident, "content": result, "is_error": error}
        self.session.add({"role": "user", "content": [block]})

    def clear(self) -> None:
        assert any(decision.acted for decision in self.session.compact())

    @property
    def found(self) -> RecallStats:
        return count_recalls(self.log)


LONG = "def a():\n    return 1\n" * 40


def test_hits_and_misses() -> None:
    talk = Talk()
    for what in ("m1", "m1..m2", "go", "zzyzx", "m999", ""):
        talk.call("recall", recall_text(talk.log, what).text, what=what)
    talk.call("recall", "it failed", error=True, what="m1")
    talk.call("mcp__notes__recall", recall_text(talk.log, "m1").text, what="m1")
    assert talk.found == RecallStats(calls=8, hits=4, misses=4)


def test_what_is_still_there_may_be_asked_for_again() -> None:
    talk = Talk()
    for _ in range(3):
        talk.call("shell", LONG, command="make lint")
    assert talk.found.rereads == 0


def test_the_same_call_with_the_same_result_is_a_reread_once_it_left() -> None:
    talk = Talk()
    talk.call("shell", LONG, command="make lint")
    talk.clear()
    talk.call("shell", LONG, command="make lint")
    talk.call("shell", LONG, command="make lint")
    assert talk.found.rereads == 1, "the second time it was back in view"
    talk.clear()
    talk.call("shell", f"{LONG}and more", command="make lint")
    talk.call("shell", LONG, command="make test")
    assert talk.found.rereads == 1, "another result could not have been recalled, nor another call"


def test_a_file_that_was_read_whole_and_left() -> None:
    talk = Talk()
    talk.call("read", LONG, path="src/a.py")
    talk.clear()
    talk.call("read", "return 1", path="./src/a.py", offset=2, limit=1)
    assert talk.found.rereads == 1
    talk.call("read", LONG, path="lib/a.py")
    assert talk.found.rereads == 1, "another file of the same name"


def test_a_file_that_changed_must_be_read_again() -> None:
    talk = Talk()
    talk.call("read", LONG, path="src/a.py")
    talk.clear()
    talk.call("edit", "done", path="src/a.py", old_string="1", new_string="2")
    talk.call("read", LONG.replace("1", "2"), path="src/a.py")
    assert talk.found.rereads == 0
    talk.clear()
    talk.call("edit", "no such text", error=True, path="src/a.py", old_string="9", new_string="2")
    talk.call("read", LONG.replace("1", "2"), path="src/a.py")
    assert talk.found.rereads == 1, "an edit that failed changed nothing"


def test_a_file_that_was_deleted_must_be_read_again() -> None:
    talk = Talk()
    talk.call("read", LONG, path="src/a.py")
    talk.clear()
    talk.call("delete_file", "done", path="src/a.py")
    talk.call("read", LONG, path="src/a.py")
    assert talk.found.rereads == 0


def test_a_check_that_is_run_again_after_a_change_is_no_reread() -> None:
    talk = Talk()
    talk.call("shell", LONG, command="make lint")
    talk.call("grep", LONG, pattern="x", path="lib")
    talk.clear()
    talk.call("edit", "done", path="src/a.py", old_string="1", new_string="2")
    talk.call("shell", LONG, command="make lint")
    assert talk.found.rereads == 0
    talk.call("grep", LONG, pattern="x", path="lib")
    assert talk.found.rereads == 1, "what was changed is elsewhere"


def test_an_undo_puts_it_back_and_clearing_takes_all() -> None:
    talk = Talk()
    talk.call("read", LONG, path="a.py")
    talk.clear()
    talk.session.history.undo()
    talk.call("read", LONG, path="a.py")
    assert talk.found.rereads == 0
    talk.session.history.clear()
    talk.call("read", LONG, path="a.py")
    assert talk.found.rereads == 1


def test_hints_and_what_came_of_them() -> None:
    log = Talk().log
    for ident in (5, 9):
        note = user_message(f"{HINT_PREFIX}src/{ident}.py (read): recall m{ident}]", NOTE)
        hint = ViewEdited("hint", "turn_start", "", "named", 0, 0, (Insert(note, "m1"),))
        log.append(Event(log.head + 1, 0.0, hint))
    talk = Talk(log)
    talk.call("recall", "## m3 user\n", what="m3")
    assert (talk.found.hints, talk.found.followed) == (2, 0)
    talk.call("recall", "## m2 user\n", what="m2..m6")
    assert (talk.found.hints, talk.found.followed) == (2, 1)


def test_it_is_told_with_the_cost() -> None:
    talk = Talk()
    talk.call("recall", "## m1 user\n\ngo\n", what="m1")
    talk.session.prepare()
    talk.session.record({"prompt_tokens": 30, "completion_tokens": 5})
    told = asyncio.run(create_command_registry().answer("/cost", CommandContext(talk.session))).text
    assert "recalled: 1 found, 0 not; fetched again what could have been recalled: 0 of 1 calls" in told
