"""Which tool a result came from."""

from collections.abc import Sequence

from tidegate.core.messages import calls_of
from tidegate.core.view import Item


def caller_names(items: Sequence[Item]) -> dict[str, str]:
    return {call.id: call.name for item in items for call in calls_of(item.message)}
