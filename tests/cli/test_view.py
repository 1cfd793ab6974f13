"""`tidegate view`, from its command line to the file."""

from pathlib import Path

import pytest

from tests.cli.calling import run_command
from tests.web.sample_sessions import SECRET
from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder
from tidegate.store.errors import SessionNotFound


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = DataFolder(tmp_path / "data")
    with data.open("Build Fix", "gpt-4o") as session:
        session.add({"role": "user", "content": f"the password is password={SECRET}"})
        session.prepare()
        session.add({"role": "assistant", "content": "thank you"})
        session.record({"prompt_tokens": 40, "completion_tokens": 4})
    data.close()
    return tmp_path / "data"


def view(*arguments: object) -> int:
    return run_command("view", *arguments)


def test_a_file_is_written_for_its_owner_only(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert view("Build Fix", "--data", folder) == 0
    (file,) = tmp_path.glob("*.html")
    assert file.name.startswith("build-fix")
    assert file.stat().st_mode & 0o777 == 0o600
    said = capsys.readouterr().out
    assert said.startswith(f"{file.name}: ")
    assert "Secrets that are masked: 1." in said
    assert SECRET not in file.read_text("utf-8")
    assert view("Build Fix", "--out", tmp_path / "other.html", "--data", folder, "--window", 5000) == 0
    assert "5,000" in (tmp_path / "other.html").read_text("utf-8")


def test_the_users_own_prices_hold(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "tidegate"
    home.mkdir(parents=True)
    (home / "tidegate.yaml").write_text("models:\n  gpt-4o:\n    input: 1000000\n    output: 0\n", "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent))
    monkeypatch.chdir(tmp_path)
    assert view("Build Fix", "--out", "page.html", "--data", folder) == 0
    assert "<dd>$40.0000</dd>" in (tmp_path / "page.html").read_text("utf-8")


def test_what_cannot_be_shown_or_written_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound, match="There is no session"):
        view("other", "--data", folder, "--out", tmp_path / "a.html")
    with pytest.raises(BadInput, match="cannot be written"):
        view("Build Fix", "--data", folder, "--out", tmp_path / "none" / "a.html")
    with pytest.raises(BadInput, match="no data folder"):
        view("Build Fix", "--data", tmp_path / "none", "--out", tmp_path / "a.html")
    with pytest.raises(SystemExit):
        view("Build Fix", "--window", "-3")
