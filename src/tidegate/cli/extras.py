"""The extras of the package: which one installs what, and how a command says that one is missing."""

import argparse
from importlib.util import find_spec

from tidegate.core.errors import BadInput

_EXTRAS = {
    "pyte": "agent",
    "rich": "chat",
    "textual": "chat",
    "markdown_it": "chat",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "optuna": "tune",
    "psycopg": "postgres",
    "distributed": "cluster",
    "fsspec": "cluster",
    "opentelemetry": "otel",
    "xllamacpp": "local",
    "httptools": "gateway",
    "uvicorn": "gateway",
    "zstandard": "gateway",
}
"""The extra that installs a package, by the name under which it is imported."""


def list_extras() -> dict[str, bool]:
    """Every extra by name, and whether all its packages are installed."""
    extras: dict[str, bool] = {}
    for package, extra in sorted(_EXTRAS.items(), key=lambda item: item[1]):
        extras[extra] = extras.get(extra, True) and find_spec(package) is not None
    return extras


def require_packages(*names: str) -> None:
    """Raise BadInput with the install command if some of these packages are not installed. It names all of them."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise _make_missing_packages(missing)


def list_model_packages(options: argparse.Namespace) -> list[str]:
    """The packages of the model that a new session of `chat` or `run` gets: one on this machine needs some."""
    from tidegate.agent.config.resolved_config import resolve_model_target
    from tidegate.cli.launch import make_launch_options

    launch = make_launch_options(options)
    is_continued = bool(options.session or getattr(options, "last", False))
    target = resolve_model_target(launch.load_config().config, launch.environment)
    return ["xllamacpp"] if target.is_embedded and not is_continued else []


def describe_missing_package(module: str) -> BadInput | None:
    """The error for a module that could not be imported. None if no extra installs it."""
    package = module.partition(".")[0]
    return _make_missing_packages([package]) if package in _EXTRAS else None


def _make_missing_packages(packages: list[str]) -> BadInput:
    extras = ",".join(dict.fromkeys(_EXTRAS[package] for package in packages))
    noun, verb = ("package", "is") if len(packages) == 1 else ("packages", "are")
    what = f"This command needs the {noun} {', '.join(packages)}, which {verb} not installed."
    return BadInput(what, f"Run: pip install 'tidegate[{extras}]'")
