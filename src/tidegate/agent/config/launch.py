"""The options an agent is opened with, and how they override the configuration files.

A change of model, policy or configuration in mid-session opens the same session again with other options. Nothing is
changed in place, so nothing can be left half changed.

    options = LaunchOptions(locate_config_files(Path.cwd(), os.environ), os.environ, session_name="build-fix")
    loaded = options.load_config()
    async with open_agent(loaded.config, specialists=loaded.specialists, data=data, name=options.session_name) as agent:
        ...
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidegate.agent.config.files import ConfigFiles, read_config_sources, resolve_config
from tidegate.agent.config.provider_target import KNOWN_PROVIDERS, guess_provider
from tidegate.agent.config.resolved_config import ResolvedConfig
from tidegate.agent.config.settings import AgentModel, PolicySettings
from tidegate.agent.config.trust import check_trust
from tidegate.core.config.values import quote_value
from tidegate.core.errors import BadInput, TidegateError
from tidegate.plugins import find_plugin


class LoadedConfig(NamedTuple):
    """A configuration as its files are now.

    `specialists` are the agents that the tool `task` can use; `problems` say which of them cannot be used, and why.
    """

    config: ResolvedConfig
    specialists: list[ResolvedConfig]
    problems: list[str]


class LaunchOptions(NamedTuple):
    """How to open an agent.

    `model` and `policy` override the configuration files if they are not empty. `agent` is the id of an agent in those
    files; "" is the first one. `restore` runs the policy's rules for a restored session; it is False if only the model
    or the settings change. `notice` is shown to the user when the agent is open.
    """

    files: ConfigFiles
    environment: Mapping[str, str]
    session_name: str = ""
    agent: str = ""
    model: str = ""
    policy: str = ""
    restore: bool = True
    notice: str = ""

    def load_config(self) -> LoadedConfig:
        """Read the configuration files and apply `model` and `policy` to them."""
        sources = read_config_sources(self.files)
        check_trust(self.files, sources)
        config = resolve_config(sources, self.environment, agent=self.agent)
        specialists: list[ResolvedConfig] = []
        problems: list[str] = []
        for each in config.settings.agents:
            if each.role in ("specialist", "worker") and each.id != config.agent.id:
                try:
                    specialists.append(resolve_config(sources, self.environment, agent=each.id))
                except TidegateError as error:
                    problems.append(f"The agent {each.id} cannot be given tasks: {error}")
        return LoadedConfig(override_config(config, model=self.model, policy=self.policy), specialists, problems)


def override_config(config: ResolvedConfig, *, model: str = "", policy: str = "") -> ResolvedConfig:
    """Replace the model or the policy of a configuration. Settings of the replaced policy are dropped."""
    sources = dict(config.sources)
    settings, agent, project_policy = config.settings, config.agent, config.project_policy
    if policy and policy != config.policy_name:
        project_policy = False
        sources = {path: source for path, source in sources.items() if not path.startswith("policy.")}
        sources["policy.name"] = "--policy"
        settings = msgspec.structs.replace(settings, policy=PolicySettings(policy))
    if model:
        path = f"agents.{agent.id}.model"
        agent_model = choose_agent_model(model, agent.model, KNOWN_PROVIDERS.keys() | settings.providers.keys())
        if agent_model.provider != agent.model.provider:
            sources = {each: source for each, source in sources.items() if not each.startswith(f"{path}.config")}
            sources[f"{path}.provider"] = "--model"
        sources[f"{path}.model"] = "--model"
        agent = msgspec.structs.replace(agent, model=agent_model)
    return msgspec.structs.replace(
        config, settings=settings, agent=agent, sources=sources, project_policy=project_policy
    )


def choose_agent_model(model: str, current: AgentModel, providers: frozenset[str] | set[str]) -> AgentModel:
    """Return the settings for `PROVIDER/MODEL`, a model of the configured provider, or a model with a known maker."""
    provider, slash, name = model.partition("/")
    if not slash or not (provider in providers or find_plugin("provider", provider)):
        provider, name = current.provider or _require_provider(model), model
    if provider == current.provider:
        return msgspec.structs.replace(current, model=name)
    return AgentModel(
        provider,
        name,
        context=current.context,
        temperature=current.temperature,
        top_p=current.top_p,
        timeout=current.timeout,
    )


def _require_provider(model: str) -> str:
    provider = guess_provider(model)
    if not provider:
        raise BadInput(
            f"The provider of the model {quote_value(model)} is not known.",
            f"Write PROVIDER/MODEL; known providers: {', '.join(KNOWN_PROVIDERS)}.",
        )
    return provider
