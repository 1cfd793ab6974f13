"""What a shell command does: which of its parts only read, and which files it changes."""

import pytest

from tidegate.core.recognition.shell_commands import effect_of, only_reads


@pytest.mark.parametrize(
    "command",
    [
        "ls build",
        "cat src/a.py | head -3",
        "cd src && git status --short 2>&1 | head",
        "grep -n 'x > y' src/a.py 2>/dev/null; wc -l src/a.py",
        "git diff > /tmp/all.patch",
        "git branch -a",
        "gh pr view 3 --json title",
        "for f in src/*.go; do wc -l $f; done",
        "sed -n '1,40p' src/a.py",
        "claude --help | head -40",
        "cat <<'EOF'\nrm -rf build\nEOF",
        "env GOFLAGS=-mod=mod which go",
        "find . -name '*.go' | xargs grep -l byok",
        "find . -name '*.go' -exec grep -l byok {} +",
    ],
)
def test_a_command_of_which_every_part_reads_only_reads(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "command",
    [
        "ls build && rm -rf build",
        "cat a.py; make",
        "cat a.py | tee b.py",
        "echo done > out.txt",
        "git stash",
        "git branch -D old",
        "gh pr create --draft",
        "gh api -X POST repos/a/b",
        "find . -name '*.pyc' -delete",
        "find . -name '*.pyc' -exec rm {} +",
        "cd src && sed -i s/a/b/ x.py",
        "cat <<'EOF' | sh\nls\nEOF",
        "A=1 pytest -q",
        "for f in src/*.go; do gofmt -w $f; done",
    ],
)
def test_a_command_with_a_part_that_does_more_does_not_only_read(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("sed -i 's/a/b/' src/a.py src/b.py", ["src/a.py (edited)", "src/b.py (edited)"]),
        ("sed -i '' -e 's/x/y/' -e 's/u/v/' f.go", ["f.go (edited)"]),
        ("perl -pi -e 's/x/y/' f.go", ["f.go (edited)"]),
        ("git mv a.py b.py", ["a.py (moved to b.py)", "b.py (moved from a.py)"]),
        ("ls build && rm -rf build", ["build (deleted)"]),
        ("git rm --cached a.py", []),
        ("cat > src/new.py <<'EOF'\nrm old.py > x.txt\nEOF\nls", ["src/new.py (written)"]),
        ("cd src && echo x >> a.txt", ["src/a.txt (edited)"]),
        ("go test ./... 2>&1 | tail -3 > /tmp/log; cat x >/dev/null", []),
        ("git checkout -- a.py", ["a.py (reverted)"]),
        ("python3 - <<'E'\nfrom pathlib import Path\nPath('a/b.py').write_text('x')\nE", ["a/b.py (written)"]),
        ('git commit -m "$(cat <<\'EOF\'\nadd "it" (rm x)\n\nrm y > z\nEOF\n)" && touch a.txt', ["a.txt (created)"]),
        ("mv 'old name.md' \"b.md\"", ["old name.md (moved to b.md)", "b.md (moved from old name.md)"]),
        ("rm \"$TARGET\" `which x`", []),
    ],
)  # fmt: skip
def test_the_files_that_a_command_changes(command: str, changes: list[str]) -> None:
    assert [f"{change.path} ({change.state})" for change in effect_of(command).changes] == changes


@pytest.mark.parametrize("command", ["'", '"$(', "<<", "a <<E", "$(" * 300, "`", "\\", ">", "git", "xargs -I"])
def test_a_broken_command_is_read_to_its_end(command: str) -> None:
    assert effect_of(command).changes == ()


def test_the_sentences_that_a_command_writes_for_people() -> None:
    body = "Replace the forced push by a merge, and say in the ticket what became of it."
    command = f'cd /w && bd create "a title" -d "{body}" 2>&1 | grep "one two three four five six seven eight nine ten"'
    assert effect_of(command).sentences == (body,)
    assert effect_of(f'python3 -c "{body}"').sentences == ()
