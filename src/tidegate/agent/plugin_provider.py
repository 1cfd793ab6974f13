"""Providers of other packages: a function `(ProviderTarget) -> Provider`, named like the provider of a model.

`PluginProvider` lets nothing out of such a provider but deltas, one reply and ProviderErrors.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.models.errors.classification import ProviderError
from tidegate.models.provider import Delta, Provider, Reply
from tidegate.plugins import Plugin, describe_failure
from tidegate.wire.answers import parse_reply
from tidegate.wire.registry import DIALECTS

_DELTA_KINDS = ("text", "thinking", "call")


class PluginProvider:
    """A provider of another package. Every error and every wrong value becomes a ProviderError with its name."""

    def __init__(self, plugin: Plugin, provider: Provider) -> None:
        self._plugin = plugin
        self._provider = provider
        self.model = provider.model
        self.wire = provider.wire

    async def stream(self, request: bytes, /) -> AsyncGenerator[Delta | Reply, None]:
        try:
            async with aclosing(self._provider.stream(request)) as stream:
                async for each in stream:
                    self._check(each)
                    yield each
                    if isinstance(each, Reply):
                        return
        except ProviderError:
            raise
        except Exception as failure:
            raise self._make_error(f"failed: {describe_failure(failure)}") from failure
        raise self._make_error("ended without a reply")

    async def close(self) -> None:
        try:
            await self._provider.close()
        except Exception as failure:
            raise self._plugin.make_error(f"did not close: {describe_failure(failure)}") from failure

    def _check(self, each: object) -> None:
        if isinstance(each, Reply):
            if not isinstance(each.usage, dict):
                raise self._make_error(f"sent a reply whose usage is a {type(each.usage).__name__}, not a dict")
            try:
                messages = parse_reply(self.wire, each)
            except Exception as bad:
                raise self._make_error(f"sent a reply that is not valid in {self.wire}: {bad}") from bad
            if not messages:
                raise self._make_error("sent a reply without a message")
        elif not (isinstance(each, Delta) and each.kind in _DELTA_KINDS and isinstance(each.text, str)):
            raise self._make_error(f"sent a {type(each).__name__} that is neither a Delta nor a Reply")

    def _make_error(self, problem: str) -> ProviderError:
        return ProviderError("unknown", self._plugin.make_error(problem).args[0])


def load_provider_plugin(plugin: Plugin) -> Callable[[ProviderTarget], object]:
    """Import a provider's function. Raise BadInput if it is not one."""
    make = plugin.load()
    if not callable(make):
        raise plugin.make_error(
            f"is a {type(make).__name__}: a provider plugin is a function (ProviderTarget) -> Provider"
        )
    return make


def open_plugin_provider(plugin: Plugin, target: ProviderTarget) -> Provider:
    """Make the provider of a plugin. Raise BadInput if that fails or it is not a provider."""
    try:
        provider = load_provider_plugin(plugin)(target)
        problem = _find_provider_problem(provider)
    except Exception as failure:
        raise plugin.make_error(f"did not open: {describe_failure(failure)}") from failure
    if problem:
        raise plugin.make_error(problem)
    return PluginProvider(plugin, cast(Provider, provider))


def _find_provider_problem(provider: object) -> str:
    for name in ("stream", "close"):
        if not callable(getattr(provider, name, None)):
            return f"made a {type(provider).__name__}, which has no method {name}"
    model, wire = getattr(provider, "model", None), getattr(provider, "wire", None)
    if not isinstance(model, str) or not model:
        return "has no model: a provider has the attribute model, a text"
    return "" if wire in DIALECTS else f"speaks the dialect {wire!r}, which is not one of {', '.join(DIALECTS)}"
