"""The budget: how many tokens of history fit, as one visible subtraction.

    window - reserve (for the answer) - fixed (system prompt + tools + framing) = room

The window is in the provider's tokens. Our own count may be off by a constant factor, `scale`, which is learned from
the provider's usage reports. The room is in our own tokens, the unit that stages count in.

Less than fits may be worth holding, because every call reads the history again (`find_payback_size`).
"""

import math
from typing import NamedTuple

from tidegate.core.errors import TooSmall
from tidegate.core.messages import Message
from tidegate.core.sweep.cost_model import ASSUMED_PRICES, CachePrices, Holding
from tidegate.core.tokens.counting import REQUEST_OVERHEAD, TokenCounter, count_message
from tidegate.core.view import View

UNKNOWN_WINDOW = 32_768
"""The window, in tokens, assumed for a model of which nothing is known. Nearly every model in use holds more."""
MAX_MEASURED_WINDOW = 2**53
"""A window that every possible request fits, to measure one that was sent already."""
MIN_ROOM = 128
"""Tokens. With less room the newest user message could not be shown, even clipped."""


_USER_SHARE = 0.3  # of the room, if that much can be held
_LARGEST_USER_SHARE = 0.45  # of what is held: what a sweep leaves has room for work, too
_ANSWER_SHARE = 0.25  # of a history: what the model wrote (26% in 85 recorded sessions)
_LARGE_FIXED_SHARE = 0.5  # of the window: a larger fixed part leaves too little for the history


class Budget(NamedTuple):
    """With `held_limit` tokens of history a sweep has paid for itself; None if only the room limits the history."""

    window: int | None
    reserve: int
    fixed: int
    scale: float
    counter: TokenCounter
    thinking: bool = False
    fallback_limit: int | None = None
    notes: tuple[str, ...] = ()
    prices: CachePrices = ASSUMED_PRICES
    held_limit: int | None = None

    @property
    def capacity(self) -> int:
        """The largest request, in the provider's tokens.

        Without a window it is the policy's fallback limit, or what the reserve leaves of `UNKNOWN_WINDOW`.
        """
        if self.window is None and self.fallback_limit is not None:
            return self.fallback_limit
        return (self.window or UNKNOWN_WINDOW) - self.reserve

    @property
    def is_limit_unknown(self) -> bool:
        """Whether neither a window nor a fallback limit is known: triggers then see no limit, the guard still does."""
        return self.window is None and self.fallback_limit is None

    @property
    def limit(self) -> int:
        """The largest request, in our own tokens."""
        return math.floor(self.capacity / self.scale)

    @property
    def room(self) -> int:
        """The largest history, in our own tokens."""
        return self.limit - self.fixed

    @property
    def held_room(self) -> int:
        """The largest history that is worth what reading it costs, in our own tokens: at most the room."""
        return self.room if self.held_limit is None else min(self.room, max(self.held_limit, MIN_ROOM))

    @property
    def user_room(self) -> int:
        """The most that old messages of the user take after a sweep. Prices alone hardly ever shorten them."""
        return int(min(self.room * _USER_SHARE, self.held_room * _LARGEST_USER_SHARE))

    def count(self, message: Message) -> int:
        """Count the tokens of a message."""
        return count_message(message, self.counter, thinking=self.thinking)

    def explain(self) -> list[str]:
        """How the room is computed, as sentences."""
        if self.window is None:
            fallback = (
                f"a request is kept below {self.capacity:,} tokens"
                if self.fallback_limit is None
                else f"the policy's fallback of {self.fallback_limit:,} tokens holds"
            )
            return [f"window unknown: {fallback}; set a window to have one", *self.notes]
        usable, ratio = f"{self.window:,} - {self.reserve:,}", ""
        if self.scale != 1.0:
            usable = f"({usable}) / {self.scale:.3f}"
            ratio = f" The provider counts {self.scale:.3f} tokens for each token counted here."
        return [
            f"The history has room for {self.room:,} tokens: {usable} - {self.fixed:,}. That is the window without the"
            f" reserve for the answer and without the system prompt and tools.{ratio}",
            *self._explain_held_room(),
            *self.notes,
        ]

    def _explain_held_room(self) -> list[str]:
        if self.held_room == self.room:
            return []
        return [
            f"A sweep comes at {self.held_room:,} tokens: reading what has come since the last one has then cost as"
            f" much as the sweep does ({self.prices})."
        ]


def make_budget(  # noqa: PLR0913 - keyword arguments
    view: View,
    *,
    window: int | None,
    reserve: int,
    counter: TokenCounter,
    model: str = "",
    thinking: bool = False,
    cap: int | None = None,
    max_output: int = 0,
    prices: CachePrices = ASSUMED_PRICES,
) -> Budget:
    """The budget for this view. TooSmall, with the numbers, if the fixed part leaves no room.

    `cap` is the policy's limit if there is no window. `max_output` is what the answer may need that the request asks
    for: servers refuse a request that does not fit together with it.
    """
    scale = view.scale_by_model.get(model, 1.0)
    fixed = view.fixed_tokens + REQUEST_OVERHEAD
    notes: list[str] = []
    if window is not None and window <= 0:
        raise TooSmall(f"The window is {window} tokens.", "Give a positive number of tokens.")
    size = window or cap or UNKNOWN_WINDOW
    least = math.ceil((fixed + MIN_ROOM) * scale)
    if least > size:
        raise TooSmall(
            f"The fixed part does not leave room: system prompt {view.system_tokens:,} + tools {view.tools_tokens:,}"
            f" + framing {REQUEST_OVERHEAD} + least history {MIN_ROOM} tokens, against a window of {size:,}."
            f" {least:,} tokens are the least.",
            "Use a model with a larger window, shorten the system prompt or offer fewer tools."
            if window is not None
            else "The window of the model is not known: set it.",
        )
    lowered = min(reserve, size // 4)
    if lowered < reserve and window is not None:
        notes.append(f"The reserve is lowered from {reserve:,} to {lowered:,} tokens: at most a quarter of the window.")
    if max_output > lowered:
        lowered = max_output
        notes.append(f"The reserve is {lowered:,} tokens, because of the answer that the request asks for.")
    if lowered > size - least:
        notes.append(
            f"The reserve is lowered to {size - least:,} tokens: system prompt and tools need the rest of the window."
        )
        lowered = size - least
    if fixed * scale > size * _LARGE_FIXED_SHARE:
        notes.append(
            f"System prompt and tools take {fixed * scale / size:.0%} of the window: it is too small for this client."
            " Use a model with a larger window, shorten the system prompt or offer fewer tools."
        )
    return Budget(
        window, lowered, fixed, scale, counter, thinking, cap if window is None else None, tuple(notes), prices
    )


def find_payback_size(prices: CachePrices, growth: float, leaves: float) -> float:
    """The size of the history, in tokens, at which a sweep to the share `leaves` has paid for itself.

    The history grows by `growth` tokens a call.
    """
    # Reading what came in n calls costs read * growth * n * n / 2. A sweep that leaves L tokens writes them again and
    # has one call made again, because of something that left: it reads L, and writes what a call adds. At the size T
    # both are equal:  read * (T - L)**2 / (2 * growth) = (write - read) * L + read * L + call,  with L = leaves * T.
    if prices.read <= 0:
        return math.inf
    call = growth * (prices.write + _ANSWER_SHARE * prices.output)
    scale = 2 * growth / prices.read
    square, half = (1 - leaves) ** 2, scale * prices.write * leaves / 2
    return (half + math.sqrt(half * half + square * scale * call)) / square if square else math.inf


def limit_held(view: View, budget: Budget, holding: Holding | None) -> Budget:
    """The same budget with the size at which a sweep pays. Without known prices only the room limits the history.

    A step in the price for long prompts is not crossed: beyond it, every token costs more, and a sweep pays back within
    a few calls.
    """
    prices = budget.prices
    if holding is None or not prices.known:
        return budget
    growth = view.total_tokens_said / max(1, view.reply_count)
    size = find_payback_size(prices, max(1.0, growth), holding.leaves)
    if prices.step:
        size = min(size, prices.step / budget.scale - budget.fixed)
    size = max(size, holding.least)
    return budget._replace(held_limit=int(size) // 100 * 100) if size < budget.room else budget


def note_assumed_window(budget: Budget) -> Budget:
    """The same budget, with a note that its window is a guess."""
    if budget.window is None:
        return budget
    guess = f"window unknown: {budget.window:,} tokens are assumed; set a window if the model holds more or less"
    return budget._replace(notes=(guess, *budget.notes))


def describe_unknown_window(model: str, budget: Budget) -> str:
    """The warning about a model whose window is not known."""
    return (
        f"The context window of the model {model!r} is not known. Requests are kept below {budget.capacity:,} tokens"
        " until you set its window or an error of the provider names it."
    )


def count_excess(view: View, budget: Budget) -> int:
    """By how many of our own tokens the history is over its room; 0 if it fits."""
    capacity, scale = budget.capacity, budget.scale
    over = measure_request(view, budget) - capacity
    beyond_room = _count_read_tokens(view) + budget.fixed - math.floor(capacity / scale)
    return max(beyond_room, math.ceil(over / scale)) if over > 0 or beyond_room > 0 else 0


def measure_request(view: View, budget: Budget) -> int:
    """The size of the next request, in the provider's tokens. Everything that compares with the window uses it.

    It is the last report plus the messages since, if no edit came in between; else our own count, scaled.
    """
    usage = view.usage
    if usage is None:
        return math.ceil((budget.fixed + view.tokens) * budget.scale)
    return usage.input_tokens + math.ceil(view.tokens_since_report * budget.scale)


class RequestSizes(NamedTuple):
    """What triggers compare: the next request and the history in it, and how large both may be.

    `request` and `capacity` are in the provider's tokens, the others in our own. `is_limited`: a limit is known.
    """

    request: int
    history: int
    capacity: int
    room: int
    held_room: int
    is_limited: bool


def measure_sizes(view: View, budget: Budget) -> RequestSizes:
    return RequestSizes(
        measure_request(view, budget),
        _count_read_tokens(view),
        budget.capacity,
        budget.room,
        budget.held_room,
        not budget.is_limit_unknown,
    )


def _count_read_tokens(view: View) -> int:
    """The tokens of the messages, without those that the provider itself leaves out."""
    return view.tokens - view.cleared_tokens


def measure_by_meter(view: View, budget: Budget) -> int:
    """The size of the next request by the policy's own estimator, for its triggers only."""
    usage = view.usage
    if usage is None:
        return view.fixed_tokens + view.metered
    return usage.input_tokens + view.metered_since_report


def priced_now(view: View, budget: Budget, now: float) -> Budget:
    """The budget with prices for a cold cache if the lifetime of the provider's cache has passed.

    A last reply in the future counts as passed, because a clock is or was wrong.
    """
    prices = budget.prices
    if not view.reply_count or 0 <= now - view.last_reply_time <= prices.lifetime:
        return budget
    return budget._replace(prices=prices._replace(cold=True))
