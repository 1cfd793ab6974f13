"""Stages that are not part of tidegate: they may raise, or return anything.

An `ExternalStage` calls such a stage with a copy of the view and checks what it returns. Anything wrong is a
StageFailed, which the plan records as a decision that changed nothing.
"""

import inspect
from collections.abc import Callable
from copy import copy
from typing import Any, get_type_hints

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.edits import Edit
from tidegate.core.outcome import Flush, Outcome, Spill, SummaryRequest
from tidegate.core.view import View

_SIGNATURE = "a stage is a function (view, budget, *, setting=default, ...) that returns an Outcome"
_MAX_FAILURE_CHARS = 300


class StageFailed(Exception):
    """A stage raised an exception or returned something unusable. The text names the stage and its package."""


class ExternalStage:
    """A stage from outside the package. `origin` says where it comes from ("the package redact 1.0")."""

    def __init__(self, name: str, origin: str, run: Callable[..., Any]) -> None:
        self.name = name
        self.origin = origin
        self.run = run

    def __call__(self, view: View, budget: Budget, **settings: Any) -> Outcome:
        try:
            outcome = self.run(_copy_view(view), budget, **settings)
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}".rstrip(": ")[:_MAX_FAILURE_CHARS]
            raise StageFailed(f"the stage {self.name} of {self.origin} failed ({text})") from failure
        problem = find_outcome_problem(outcome)
        if problem:
            raise StageFailed(f"the stage {self.name} of {self.origin} returned {problem}")
        assert isinstance(outcome, Outcome)
        return outcome


def _copy_view(view: View) -> View:
    """A copy of the view, so that a stage that changes it in place changes nothing."""
    own_view = view.copy()
    for name, value in view.fields().items():
        if isinstance(value, list | dict | set):
            setattr(own_view, name, copy(value))
    own_view.items = [copy(item) for item in view.items]
    return own_view


def find_outcome_problem(outcome: object) -> str:
    """What makes a returned value unusable, or ""."""
    if not isinstance(outcome, Outcome):
        if inspect.iscoroutine(outcome):
            outcome.close()
        return f"{type(outcome).__name__}, not an Outcome"
    effects = outcome.effects if isinstance(outcome.effects, tuple) else (outcome.effects,)
    if not all(isinstance(each, Spill | Flush) for each in effects):
        return "an Outcome with an effect that is neither a Spill nor a Flush"
    try:
        _check_fields(outcome.edits, tuple[Edit, ...])
        _check_fields(outcome.requests, tuple[SummaryRequest, ...])
        for effect in effects:
            _check_fields(effect, type(effect))
        _check_fields([outcome.why, outcome.grows], tuple[str, bool])
    except Exception as bad:  # noqa: BLE001 - a value that cannot be encoded and decoded cannot be stored
        return f"an Outcome that cannot be stored ({bad})"
    return ""


def _check_fields(value: object, kind: Any) -> None:
    """Raise if a value cannot be stored in a log and read again as this type."""
    msgspec.json.decode(msgspec.json.encode(value), type=kind)


def find_stage_problem(stage: object, reserved: tuple[str, ...]) -> str:
    """What is wrong with the signature of a stage, or "". A setting must not have a reserved name."""
    if not callable(stage):
        return f"is a {type(stage).__name__}: {_SIGNATURE}"
    if inspect.iscoroutinefunction(stage):
        return f"is asynchronous: {_SIGNATURE}, without waiting for anything"
    try:
        parameters = inspect.signature(stage).parameters.values()
        hints = get_type_hints(stage, include_extras=True)
        settings = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
        for name in settings:
            msgspec.inspect.type_info(hints.get(name, Any))
    except Exception as bad:  # noqa: BLE001 - annotations run code of the plugin
        return f"has a signature that cannot be read ({type(bad).__name__}: {bad})"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional_count = sum(each.kind in positional for each in parameters)
    if positional_count != 2 or positional_count + len(settings) != len(parameters):
        signature = ", ".join(map(str, parameters))
        return f"has the parameters ({signature}): {_SIGNATURE}"
    clash = next((name for name in settings if name in reserved), "")
    return f'has a setting called "{clash}", which is a key of every rule: rename it' if clash else ""
