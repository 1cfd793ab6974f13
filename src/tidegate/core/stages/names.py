"""Which tool a result came from."""

from tidegate.core.messages import calls_of
from tidegate.core.view import View


def caller_names(view: View) -> dict[str, str]:
    return {call.id: call.name for item in view.items for call in calls_of(item.message)}
