"""The examples of docs/library.md run."""

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate import DataFolder

PAGE = Path(__file__).parents[1] / "docs" / "library.md"
EXAMPLES = re.compile(r"<!-- run as a test -->\n```python\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not in the source distribution")


async def model(**body: Any) -> dict[str, Any]:
    assert body["messages"][-1]["content"] == "Why is the build slow?"
    return {
        "message": {"role": "assistant", "content": "The cache is cold."},
        "usage": {"prompt_tokens": 20, "completion_tokens": 6},
    }


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLES.findall(PAGE.read_text("utf-8"))
    assert len(examples) == 4
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {"model": model})
    with DataFolder("data") as data, data.open("build-fix") as session:
        assert [item.message.role for item in session.view.items] == ["user", "assistant"]
        assert [request.output_tokens for request in session.history.requests()] == [6]
