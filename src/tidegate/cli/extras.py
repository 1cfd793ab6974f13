"""The extras of the package: which one installs what, and how a command says that one is missing."""

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
    "aiohttp": "gateway",
    "httptools": "gateway",
    "uvicorn": "gateway",
    "zstandard": "gateway",
}
"""The extra that installs a package, by the name under which it is imported."""


def list_extras() -> dict[str, bool]:
    """Every extra by name, and whether all its packages are installed."""
    found: dict[str, bool] = {}
    for package, extra in sorted(_EXTRAS.items(), key=lambda item: item[1]):
        found[extra] = found.get(extra, True) and find_spec(package) is not None
    return found


def require_packages(*names: str) -> None:
    """Raise BadInput with the install command if one of these packages is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise _make_missing_package(name)


def describe_missing_package(module: str) -> BadInput | None:
    """The error for a module that could not be imported. None if no extra installs it."""
    package = module.partition(".")[0]
    return _make_missing_package(package) if package in _EXTRAS else None


def _make_missing_package(package: str) -> BadInput:
    what = f"This command needs the package {package}, which is not installed."
    return BadInput(what, f"Run: pip install 'tidegate[{_EXTRAS[package]}]'")
