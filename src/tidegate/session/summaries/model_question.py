"""Questions to the model of a conversation: a whole request instead of a text."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from tidegate.core.messages import Message
from tidegate.wire.dialect import Dialect
from tidegate.wire.request import RenderedRequest


class ModelQuestion(NamedTuple):
    """A question to the model of a conversation: a whole request in the form of its provider.

    `body` are the keyword arguments of the provider's SDK, `to_bytes()` is the body of its HTTP API. Its answer has at
    most `max_tokens`; calls in it are not run. `compacts`: it asks for a block in place of messages, by the option of
    the provider's `CompactionForm` in the body.
    """

    request: RenderedRequest
    model: str
    dialect_name: str
    max_tokens: int
    compacts: bool = False

    @property
    def body(self) -> dict[str, Any]:
        return self.request.body()

    def to_bytes(self) -> bytes:
        return self.request.to_bytes()


class ModelAnswer(NamedTuple):
    """The text of an answer, and the usage that the provider reported, in its own form.

    To a question that `compacts` it is the text of the block, and `block` is the block's JSON.
    """

    text: str
    usage: Any = None
    block: str = ""


AskModel = Callable[[ModelQuestion], str | ModelAnswer | Awaitable[str | ModelAnswer | None] | None]
"""Puts a question to a model and returns the answer. It may be sync or async."""


class CompactingModel:
    """An `AskModel` that also takes questions that ask for a block in place of messages (`ModelQuestion.compacts`)."""

    def __init__(self, ask: AskModel) -> None:
        self._ask = ask

    def __call__(self, question: ModelQuestion) -> str | ModelAnswer | Awaitable[str | ModelAnswer | None] | None:
        return self._ask(question)


def read_block(dialect: Dialect, answer: Sequence[Message]) -> ModelAnswer:
    """The block of an answer; without one, or with something else beside it, an empty answer.

    "The response is still a 200 with empty `content`" if there is no summary:
    https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand
    """
    form = dialect.compaction
    block = form.read(answer[0]) if form is not None and len(answer) == 1 else None
    return ModelAnswer("") if block is None else ModelAnswer(block.text, block=block.block)
