"""The story of the tour: a bug fix of 300 steps with a rule, a fact and a decision that matter much later.

What the user and the agent say is written here; files, searches, logs and test runs come from the sample project. A
step is one answer of the agent with the results of its calls.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tidegate.proof.sample_project import FailingTest
from tidegate.proof.session_generator import SessionAuthor, ToolUse

_Json = dict[str, object]

STEPS: Final = 300
RULE_STEP: Final = 3
FACT_STEP: Final = 60
CHOICE_STEP: Final = 150
RULE_NEEDED_STEP: Final = 280
RECALL_STEP: Final = 283
_EDIT_EVERY: Final = 25
SYSTEM_PROMPT: Final = (
    "You are a coding agent in the repository of a web shop. Look before you change something: read the file, run its"
    " tests, make the smallest edit, run the tests again. The tool `recall` reads back what left this request."
)
RULE: Final = "Never change files under src/gateway without asking me first."
ORDER: Final = "A-77413"
"""What the fact is about: it is named once in the whole session, by a log."""
RECALL_QUERY: Final = "refund order rounded twice"
_FACT: Final = f"02:14:09 ERROR   billing.refund refund order={ORDER} 19.995 rounded twice: 20.00, then 20.01"
_OPTIONS: Final = (
    "The cause: amounts are rounded for each line and again for the order. Option A rounds in each line only, and the"
    " invoices keep their layout. Option B rounds once, at the end, and the invoices get one more column. Which one?"
)
CHOICE: Final = "Option B. Amounts stay Decimal, and no new dependency."
INVENTED: Final = "`src/billing/rounding_v2.py` has the same bug"
"""A mistake that the scripted model puts into its first note: this file does not exist."""


class BugFix:
    """Writes the story step by step. `ids` are the ids that the session gave to the messages that matter later."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self._author = SessionAuthor(rng)
        self._failure = self._pick_place()
        self._edits: list[tuple[str, str]] = []
        self.ids: dict[str, str] = {}
        self.test_order = ""
        """The order in the regression test, read from what recall returned."""

    @property
    def task(self) -> str:
        name, path = self._failure.function_name, self._failure.path
        return f"Refunds are a few cents off since release 4.12: {name} in {path} rounds wrongly. Fix it everywhere."

    def write_user_message(self, step: int) -> str:
        """What the user says before a step; empty if nothing."""
        return {
            1: self.task,
            RULE_STEP: f"Good. A rule from now on: {RULE}",
            CHOICE_STEP: CHOICE,
            RULE_NEEDED_STEP + 1: "Yes, that one file. Add a regression test with the order from the log.",
        }.get(step, "")

    def write_step(self, step: int, recall: Callable[[str], str]) -> Iterator[_Json]:
        """Yield the agent's answer and the results of its calls. `recall` runs the tool of that name."""
        project, write_group = self._author.project, self._author.write_group
        if step == RULE_STEP - 1:
            yield _answer("I trace every place that rounds an amount, and then propose a fix.")
        elif step == FACT_STEP:
            text = f"{project.write_log()}\n{_FACT}\n{project.write_log()}"
            yield from write_group(
                "What did the refunds log?", ToolUse("shell", {"command": "cat log/refunds.log"}, text)
            )
        elif step == CHOICE_STEP - 1:
            yield _answer(_OPTIONS)
        elif step == RULE_NEEDED_STEP:
            yield _answer(
                "All places but one round once now. The last one is src/gateway/coupon.py, and your rule says to ask"
                " before I change files under src/gateway. May I?"
            )
        elif step == RECALL_STEP:
            text = recall(RECALL_QUERY)
            match = re.search(r"order=(\S+)", text)
            self.test_order = match[1] if match else ""
            yield from write_group("Which order was it?", ToolUse("recall", {"query": RECALL_QUERY}, text))
        elif step == RECALL_STEP + 1:
            new = f'def test_refund_rounds_once():\n    assert refund("{self.test_order}") == Decimal("20.00")'
            use = ToolUse("edit_file", {"path": "tests/billing/test_refund.py", "new": new}, "edited 1 place")
            yield from write_group("The regression test.", use)
        elif step == STEPS:
            yield _answer("Done: every amount is rounded once, at the end, and the regression test passes.")
        elif step % _EDIT_EVERY == 0:
            yield from self._fix_place()
        else:
            yield from self._author.write_step(self._failure)

    def _fix_place(self) -> Iterator[_Json]:
        failure = self._pick_place()
        use = ToolUse("edit_file", self._author.project.edit_file(failure), f"edited {failure.path}: 1 place")
        self._edits.append((failure.path, failure.function_name))
        yield from self._author.write_group(f"{failure.function_name} rounds twice as well.", use)

    def _pick_place(self) -> FailingTest:
        while True:
            failure = self._author.project.pick_failure()
            if not failure.path.startswith("src/gateway/"):
                return failure

    def write_note(self) -> str:
        """Answer like a model that is asked for a state note: with ids, passages, and one mistake in the first note."""
        ids = self.ids
        goal = [f'- user: "{self.task}" [{ids["task"]}]']
        state = [f"- `{name}` in `{path}` was edited" for path, name in self._edits]
        state.append("- remaining: the other places that round an amount, then the regression test")
        rules = [f'- user: "{RULE}" [{ids["rule"]}]'] if "rule" in ids else []
        decisions = [f'- user: "{CHOICE}" [{ids["choice"]}]'] if "choice" in ids else []
        facts = [] if "note" in ids else [f"- {INVENTED}"]
        passages = [{"why": "the function that is fixed", "find": f"def {self._failure.function_name}(", "after": 6}]
        sections = {
            "Goal and open orders": goal, "State": state, "Decisions": decisions, "Facts": facts, "Rules": rules,
        }  # fmt: skip
        texts = [f"## {title}\n" + "\n".join(lines) for title, lines in sections.items() if lines]
        return "\n\n".join([*texts, f"## Passages\n```json\n{json.dumps(passages)}\n```"])


def _answer(text: str) -> _Json:
    return {"role": "assistant", "content": text}


def name_scene(step: int, message: Mapping[str, object]) -> str:
    """The name under which `BugFix.ids` keeps the id of a message; empty if none needs it."""
    if message["role"] == "user":
        return {1: "task", RULE_STEP: "rule", CHOICE_STEP: "choice"}.get(step, "")
    return "fact" if step == FACT_STEP and message["role"] == "tool" else ""
