"""Recovery: adapt a session to the limits of its provider, and to content that it refuses."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate.core.edits import Replace
from tidegate.core.errors import BadInput
from tidegate.core.events import ViewEdited
from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.core.notes import RequestWeighed, SignaturesRefused
from tidegate.core.plan import Decision
from tidegate.core.view import View
from tidegate.session.policy_runner import PolicyRunner
from tidegate.session.summaries.drivers import run_steps

_REFUSED_SHARES: Final = (0.95, 0.6)
"""A refusal without a number: the window holds at most this share of the refused request. The second is for the last
retry.
"""
_OMITTED_IMAGE: Final = Text("[image left out: the provider did not take it]")


class Recovery:
    """Adapts a session to what its provider reports or refuses: `session.recovery`."""

    def __init__(self, runner: PolicyRunner, lower_output: Callable[[int], bool]) -> None:
        self._runner = runner
        self._live = runner.live
        self._lower_output = lower_output

    def set_window(self, tokens: int | None) -> None:
        """Set the context window, for example after asking the server for it. None: it is not known any more."""
        if tokens is not None and tokens <= 0:
            raise BadInput(f"The window is {tokens} tokens.", "Give a positive number.")
        self._runner.known_window = tokens

    @property
    def refusals(self) -> int:
        """How often the request that was prepared last was refused for its length, and made smaller."""
        return self._runner.refusals

    def learn_limits(self, window: int | None, tokens: int | None = None) -> None:
        """Take over the window and the request's token count from a provider's refusal, as far as it states them."""
        if window and (self._runner.known_window is None or window < self._runner.known_window):
            self._runner.known_window = window
        if tokens:
            head, counted = self._live.last_request
            self._live.append(RequestWeighed(head, counted, self._live.model, tokens).pack())

    def limit_window(self, tokens: int | None) -> None:
        """Use at most this much of the window, as long as refusals say so. None lifts the limit."""
        self._runner.learned_window = tokens

    def estimate_refused_window(self) -> int:
        """The window to assume after the last request was refused for its length by a provider that names no number."""
        share = _REFUSED_SHARES[min(self.refusals, len(_REFUSED_SHARES) - 1)]
        request = int(self._runner.tokens * share)
        reserve = min(self._runner.budget.reserve, request // 3)  # in a smaller window it is a quarter at most
        return request + max(reserve, self._runner.kept_output)

    def keep_output(self) -> None:
        """Keep room for all of the output that a host asks for: the provider counts it as a part of the window."""
        self._runner.keeps_output = True

    def shrink(self) -> list[Decision]:
        """Everything `overflowed` does except rendering the request."""
        decisions = run_steps(self._runner.shrink_steps(), None, self._runner.note_summary_failure)
        self._live.remember_request()
        return decisions

    def take_back(self, edits: int) -> None:
        """Undo the newest edits, after a smaller request was refused as well."""
        for _ in range(edits):
            self._live.history.undo()

    def lower_output(self, most: int) -> bool:
        """Ask for at most `most` tokens of output from now on. False if no more than that was asked for."""
        return self._lower_output(most)

    def omit_images(self) -> int:
        """Replace the images in the view with a short text. Return how many. `history.undo` restores them."""
        view = self._live.view
        removal = _plan_image_removal(view, self._runner.budget.count)
        if removal.edits:
            before, why = view.tokens, f"the provider did not take {removal.images} images"
            self._runner.append_edits(
                ViewEdited("media", "overflow", "", why, before, before + removal.token_change, removal.edits)
            )
        return removal.images

    def discard_signed_reasoning(self) -> None:
        """Stop sending the reasoning signed so far, because the provider no longer accepts it."""
        why = "signed thinking so far is left out from now on, because the provider refused or would refuse it"
        self._live.append(SignaturesRefused(why).pack())


class _ImageRemoval(NamedTuple):
    """The edits that replace every image of a view with a short text, and how many tokens they add (usually < 0)."""

    edits: tuple[Replace, ...]
    images: int
    token_change: int


def _plan_image_removal(view: View, count: Callable[[Message], int]) -> _ImageRemoval:
    """Replace the images of a view. The log keeps them, and undo restores them."""
    edits: list[Replace] = []
    images = change = 0
    for item in view.items:
        found = _count_images(item.message.parts)
        if found:
            parts = tuple(map(_replace_images, item.message.parts))
            tokens = count(Message(item.message.role, parts))
            edits.append(Replace(item.message.id, parts, tokens))
            images, change = images + found, change + tokens - item.tokens
    return _ImageRemoval(tuple(edits), images, change)


def _count_images(parts: tuple[Part, ...]) -> int:
    return sum(_count_images(part.parts) if isinstance(part, Result) else isinstance(part, Image) for part in parts)


def _replace_images(part: Part) -> Part:
    if isinstance(part, Result):
        inner = tuple(_OMITTED_IMAGE if isinstance(each, Image) else each for each in part.parts)
        return Result(part.call_id, inner, part.error)
    return _OMITTED_IMAGE if isinstance(part, Image) else part
