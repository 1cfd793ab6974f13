"""How an agent is opened, and opened anew: a change of model, policy or configuration in mid-session is a new opening
of the same session. Nothing of it need be changed in place, so nothing can be left half changed.

    opening = Opening(files_of(Path.cwd(), os.environ), os.environ, name="build-fix")
    read = opening.read()
    async with open_agent(read.config, specialists=read.specialists, data=data, name=opening.name, ...) as agent:
        answer = await registry().answer("/model gpt-5", place_of(agent, data, opening))
    opening = opening.after(answer.act)
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidegate.agent.config.files import ConfigFiles, read_config_sources, resolve_config
from tidegate.agent.config.provider_target import EMBEDDED_PROVIDER, KNOWN_PROVIDERS
from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import BrainSettings, PolicySettings
from tidegate.agent.config.trust import check_trust
from tidegate.core.config.values import quote_value
from tidegate.core.errors import BadInput, TidegateError
from tidegate.wire.registry import find_dialect_of_model


class LoadedConfig(NamedTuple):
    """`specialists` are the agents for the tool `task`; `problems` say which of them cannot be used."""

    config: ResolvedConfig
    specialists: list[ResolvedConfig]
    problems: list[str]


class LaunchOptions(NamedTuple):
    """`model` and `policy` stand over what the files say; `agent` is the id of one of theirs, else the first.

    `restore`: the session is opened as after a restart; where only its model or its settings changed, it is not.
    """

    files: ConfigFiles
    environment: Mapping[str, str]
    session_name: str = ""
    agent: str = ""
    model: str = ""
    policy: str = ""
    restore: bool = True

    def load_config(self) -> LoadedConfig:
        """The configuration as its files are now."""
        sources = read_config_sources(self.files)
        check_trust(self.files, sources)
        config = resolve_config(sources, self.environment, agent=self.agent)
        specialists: list[ResolvedConfig] = []
        problems: list[str] = []
        for each in config.settings.agents:
            if each.role in ("specialist", "worker") and each.id != config.agent.id:
                try:
                    specialists.append(resolve_config(sources, self.environment, agent=each.id))
                except TidegateError as bad:
                    problems.append(f"The agent {each.id} cannot be given tasks: {bad}")
        return LoadedConfig(override_config(config, model=self.model, policy=self.policy), specialists, problems)

    def apply_action(self, act: str) -> "LaunchOptions":
        """How to open again after an answer with this act. An empty name is what the files say."""
        verb, _, rest = act.partition(" ")
        if verb == "resume":
            return self._replace(session_name=rest, restore=True)
        if verb == "model":
            return self._replace(model=rest, restore=False)
        if verb == "policy":
            return self._replace(policy=rest, restore=False)
        return self._replace(restore=False) if verb == "reopen" else self


def override_config(config: ResolvedConfig, *, model: str = "", policy: str = "") -> ResolvedConfig:
    """Another model or policy over the files. Settings that were meant for another policy do not come with it."""
    sources = dict(config.sources)
    settings, agent = config.settings, config.agent
    if policy and policy != config.policy_name:
        sources = {path: stands for path, stands in sources.items() if not path.startswith("policy.")}
        sources["policy.name"] = "--policy"
        settings = msgspec.structs.replace(settings, policy=PolicySettings(policy))
    if model:
        path = f"agents.{agent.id}.brain"
        brain = choose_brain(model, agent.brain, KNOWN_PROVIDERS.keys() | settings.providers.keys())
        if brain.provider != agent.brain.provider:
            sources = {each: stands for each, stands in sources.items() if not each.startswith(f"{path}.config")}
            sources[f"{path}.provider"] = "--model"
        sources[f"{path}.model"] = "--model"
        agent = msgspec.structs.replace(agent, brain=brain)
    return msgspec.structs.replace(config, settings=settings, agent=agent, sources=sources)


def choose_brain(model: str, brain: BrainSettings, providers: frozenset[str] | set[str]) -> BrainSettings:
    """`PROVIDER/MODEL`, or a model of the configured provider, or one whose name tells who made it."""
    provider, slash, name = model.partition("/")
    if not slash or provider not in providers:
        provider, name = brain.provider or _guess_provider(model), model
    if provider == brain.provider:
        return msgspec.structs.replace(brain, model=name)
    return BrainSettings(
        provider, name, context=brain.context, temperature=brain.temperature, top_p=brain.top_p, timeout=brain.timeout
    )


def _guess_provider(model: str) -> str:
    if model.endswith(".gguf"):
        return EMBEDDED_PROVIDER
    if model.lower().startswith(("gpt-", "o1", "o3", "o4", "chatgpt-")):
        return "openai"
    dialect = find_dialect_of_model(model)
    if dialect is None or dialect.vendor is None:
        raise BadInput(
            f"Nothing says who serves the model {quote_value(model)}.",
            f"Say PROVIDER/MODEL; known: {', '.join(KNOWN_PROVIDERS)}.",
        )
    return dialect.vendor.name
