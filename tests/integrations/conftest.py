"""The tests of an adapter need its framework: `make test-integrations` runs each where that is installed.

deepagents brings LangChain with it, but not the checkpointer that the tests of LangChain need. The environment of a
framework has neither the gateway nor all SDKs.
"""

from importlib.util import find_spec
from pathlib import Path

FRAMEWORKS = {
    "test_agent_framework.py": "agent_framework",
    "test_deepagents.py": "deepagents",
    "test_google_adk.py": "google.adk",
    "test_inspect_ai.py": "inspect_ai",
    "test_langchain.py": "langgraph.checkpoint.sqlite",
    "test_mcp_server.py": "mcp",
    "test_openai_agents.py": "agents",
    "test_pydantic_ai.py": "pydantic_ai",
    "test_strands.py": "strands",
}
WITHOUT_FRAMEWORK = {
    "test_recall_paths.py": ("httptools", "mcp"),
    "test_summarizers.py": ("anthropic", "google.genai", "openai"),
}


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


collect_ignore = [name for name, package in FRAMEWORKS.items() if not is_installed(package)]
collect_ignore += [name for name, packages in WITHOUT_FRAMEWORK.items() if not all(map(is_installed, packages))]
assert set(FRAMEWORKS) <= {path.name for path in Path(__file__).parent.glob("test_*.py")} | set(collect_ignore)
