"""The rules of the user that a session keeps word for word."""

from collections.abc import Callable, Iterator

from tidegate.core.errors import BadInput, GiveUp
from tidegate.core.events import ViewEdited
from tidegate.core.ledger.lines import LedgerLine
from tidegate.core.ledger.writer import PIN, held_rules, without_rule
from tidegate.core.messages import Message, user_message
from tidegate.core.plan import count_token_change
from tidegate.session.policy_runner import PolicyRunner
from tidegate.wire.parsing import repair_unicode

_MAX_PIN_CHARS = 1_000


class SessionRules:
    """The user's rules that apply in a session: `session.rules`. Iterating yields each with the id of its message."""

    def __init__(self, runner: PolicyRunner, add_message: Callable[[Message], list[str]]) -> None:
        self._runner = runner
        self._add_message = add_message

    def __iter__(self) -> Iterator[LedgerLine]:
        return iter(held_rules(self._runner.live.view))

    def add(self, text: str) -> str:
        """Pin a rule: it stays in the view and is never summarized. Return its message id."""
        text = " ".join(repair_unicode(text).split())
        if not 0 < len(text) <= _MAX_PIN_CHARS:
            raise BadInput(
                f"The rule has {len(text):,} characters.", f"Pin a sentence or two, at most {_MAX_PIN_CHARS:,}."
            )
        return self._add_message(user_message(text, PIN))[0]

    def remove(self, text: str) -> bool:
        """Remove the rule with this text. False if no such rule applies. `history.undo` restores it.

        It is removed from the ledger and the pins, and messages added so far do not establish it again.
        """
        self._runner.live.history.refresh()
        view = self._runner.live.view
        rule = next((rule for rule in self if rule.text == text), None)
        if rule is None:
            return False
        edits = without_rule(view, rule, self._runner.budget)
        before, why = view.tokens, f"the user removed a rule of {rule.ident}"
        failed = self._runner.append_edits(
            ViewEdited("remove_rule", "manual", "", why, before, before + count_token_change(view, edits), edits)
        )
        if failed is not None:
            raise GiveUp(f"The rule was not removed: {failed}.", "Try again; nothing was changed.")
        return True
