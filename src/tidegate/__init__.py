"""tidegate keeps an LLM agent's context window from overflowing.

Every message is kept in an append-only log. The model sees a view, computed from the log, that fits the window and is
valid for the provider. Start with `Session`; ARCHITECTURE.md explains how it works.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.core.budget import Budget as Budget
    from tidegate.core.edits import Drop as Drop
    from tidegate.core.edits import Edit as Edit
    from tidegate.core.edits import Insert as Insert
    from tidegate.core.edits import Replace as Replace
    from tidegate.core.errors import BadEdit as BadEdit
    from tidegate.core.errors import BadInput as BadInput
    from tidegate.core.errors import BadPolicy as BadPolicy
    from tidegate.core.errors import BadRequest as BadRequest
    from tidegate.core.errors import GiveUp as GiveUp
    from tidegate.core.errors import NotKept as NotKept
    from tidegate.core.errors import TidegateError as TidegateError
    from tidegate.core.errors import TooSmall as TooSmall
    from tidegate.core.messages import Call as Call
    from tidegate.core.messages import Image as Image
    from tidegate.core.messages import MarkedText as MarkedText
    from tidegate.core.messages import Message as Message
    from tidegate.core.messages import Result as Result
    from tidegate.core.messages import Text as Text
    from tidegate.core.messages import Thinking as Thinking
    from tidegate.core.messages import Tool as Tool
    from tidegate.core.outcome import Flush as Flush
    from tidegate.core.outcome import Outcome as Outcome
    from tidegate.core.outcome import Spill as Spill
    from tidegate.core.outcome import SummaryRequest as SummaryRequest
    from tidegate.core.plan import Decision as Decision
    from tidegate.core.policy.policy import Policy as Policy
    from tidegate.core.view import Item as Item
    from tidegate.core.view import View as View
    from tidegate.datafolder.data_folder import DataFolder as DataFolder
    from tidegate.integrations.sdk_clients import managed as managed
    from tidegate.presets import load as load
    from tidegate.session.explanation import Explanation as Explanation
    from tidegate.session.request import Request as Request
    from tidegate.session.session import Session as Session
    from tidegate.session.storage import SessionStorage as SessionStorage
    from tidegate.store.log import Log as Log
    from tidegate.store.log import MemoryLog as MemoryLog
    from tidegate.store.open import open_store as open_store
    from tidegate.store.session_log import KeptLog as KeptLog

__version__ = "0.1.0"

_HOMES = {
    "core.budget": ("Budget",),
    "core.edits": ("Drop", "Edit", "Insert", "Replace"),
    "core.errors": ("BadEdit", "BadInput", "BadPolicy", "BadRequest", "GiveUp", "NotKept", "TidegateError", "TooSmall"),
    "core.messages": ("Call", "Image", "MarkedText", "Message", "Result", "Text", "Thinking", "Tool"),
    "core.outcome": ("Flush", "Outcome", "Spill", "SummaryRequest"),
    "core.plan": ("Decision",),
    "core.policy.policy": ("Policy",),
    "core.view": ("Item", "View"),
    "datafolder.data_folder": ("DataFolder",),
    "integrations.sdk_clients": ("managed",),
    "presets": ("load",),
    "session.explanation": ("Explanation",),
    "session.request": ("Request",),
    "session.session": ("Session",),
    "session.storage": ("SessionStorage",),
    "store.session_log": ("KeptLog",),
    "store.log": ("Log", "MemoryLog"),
    "store.open": ("open_store",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:
    """Import the module of a name when the name is first used, so that importing tidegate is cheap."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    return getattr(import_module(f"tidegate.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
