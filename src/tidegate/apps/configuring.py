"""Which configuration a command runs with, and `tidegate config`, which shows it."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.agent.brains import EMBEDDED, KNOWN
from tidegate.agent.chosen import Config, effective
from tidegate.agent.config import Brain, PolicyChoice
from tidegate.agent.config_file import files_of, read_config
from tidegate.agent.trust import check_trust, trust
from tidegate.apps.choices import FAILED, OK
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.expression import quoted
from tidegate.wire.tools import dialect_for

_MAKERS = {"anthropic": "anthropic", "gemini": "gemini", "deepseek": "deepseek", "mistral": "mistral"}


class Chosen(NamedTuple):
    """`specialists` are the agents for the tool `task`; `problems` say which of them cannot be used."""

    config: Config
    specialists: list[Config]
    problems: list[str]


def config_command(options: argparse.Namespace) -> int:
    if options.trust:
        agreed = trust(files_of(Path.cwd(), os.environ))
        print("This folder's tidegate.yaml is trusted as it is now." if agreed else "There is no tidegate.yaml here.")
        return OK if agreed else FAILED
    settings = effective(chosen(options).config, os.environ)
    if options.json:
        rows = [each._asdict() for each in settings]
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
        return OK
    wide = max(len(each.name) for each in settings)
    for each in settings:
        print(f"{each.name:{wide}}  {each.value}  ({each.source})")
    return OK


def chosen(options: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Chosen:
    environment = os.environ if environment is None else environment
    files = files_of(Path.cwd(), environment, asked=options.config)
    check_trust(files)
    config = read_config(files, environment, agent=options.agent)
    specialists: list[Config] = []
    problems: list[str] = []
    for each in config.settings.agents:
        if each.role in ("specialist", "worker") and each.id != config.agent.id:
            try:
                specialists.append(read_config(files, environment, agent=each.id))
            except TidegateError as bad:
                problems.append(f"The agent {each.id} cannot be given tasks: {bad}")
    return Chosen(overridden(config, model=options.model, policy=options.policy), specialists, problems)


def overridden(config: Config, *, model: str = "", policy: str = "") -> Config:
    """The command line over the files. A policy comes without the settings that were meant for another."""
    sources = dict(config.sources)
    settings, agent = config.settings, config.agent
    if policy:
        sources = {path: said for path, said in sources.items() if not path.startswith("policy.")}
        sources["policy.name"] = "--policy"
        settings = msgspec.structs.replace(settings, policy=PolicyChoice(policy))
    if model:
        path = f"agents.{agent.id}.brain"
        brain = brain_of(model, agent.brain, KNOWN.keys() | settings.providers.keys())
        if brain.provider != agent.brain.provider:
            sources = {each: said for each, said in sources.items() if not each.startswith(f"{path}.config")}
            sources[f"{path}.provider"] = "--model"
        sources[f"{path}.model"] = "--model"
        agent = msgspec.structs.replace(agent, brain=brain)
    return msgspec.structs.replace(config, settings=settings, agent=agent, sources=sources)


def brain_of(model: str, brain: Brain, providers: frozenset[str] | set[str]) -> Brain:
    """`PROVIDER/MODEL`, or a model of the configured provider, or one whose name tells who made it."""
    provider, slash, name = model.partition("/")
    if not slash or provider not in providers:
        provider, name = brain.provider or _maker(model), model
    if provider == brain.provider:
        return msgspec.structs.replace(brain, model=name)
    return Brain(
        provider, name, context=brain.context, temperature=brain.temperature, top_p=brain.top_p, timeout=brain.timeout
    )


def _maker(model: str) -> str:
    if model.endswith(".gguf"):
        return EMBEDDED
    if model.lower().startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return "openai"
    maker = _MAKERS.get(dialect_for("", model).name)
    if maker is None:
        raise BadInput(
            f"Nothing says who serves the model {quoted(model)}.", f"Say PROVIDER/MODEL; known: {', '.join(KNOWN)}."
        )
    return maker
