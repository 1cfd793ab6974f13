"""A policy at several values of one setting: how it is written, and who is measured for it."""

from pathlib import Path

import pytest

from tidegate.core.errors import BadInput, BadPolicy
from tidegate.lab.comparison.contenders import load_contender_policy, make_policy_contender
from tidegate.lab.comparison.cost_curve import CurvePoint, parse_curve
from tidegate.presets import load

OWN = f"{load('default').settings['fidelity']:g}"


def test_a_point_for_each_value_in_the_order_given() -> None:
    curve = parse_curve("fidelity=7, 0.25 ,3", [])
    assert (curve.policy, curve.setting) == ("default", "fidelity")
    assert [point.value for point in curve.points] == ["7", "0.25", "3"]
    assert [point.contender_key for point in curve.points] == [each.key for each in curve.extra_contenders]
    assert [load_contender_policy(each).settings["fidelity"] for each in curve.extra_contenders] == [7, 0.25, 3]
    assert len({each.fingerprint for each in curve.extra_contenders}) == 3


def test_the_policys_own_value_is_the_policy_itself() -> None:
    default, other = make_policy_contender("default"), make_policy_contender("ai")
    curve = parse_curve(f"default:fidelity={OWN}0,9", [other, default])
    assert curve.points == (CurvePoint(f"{OWN}0", "default"), CurvePoint("9", "default fidelity=9"))
    assert [each.key for each in curve.extra_contenders] == ["default fidelity=9"]
    alone = parse_curve(f"fidelity={OWN}", [other])
    assert [each.fingerprint for each in alone.extra_contenders] == [default.fingerprint], "so the cache serves both"


def test_a_policy_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a:b.yaml"
    rule = "{stage: shrink_to, when: {pressure: '> 0.95'}, share: $share}"
    path.write_text(f"name: mine\nsettings:\n  share: 0.5\nmoments:\n  before_call:\n    - {rule}\n")
    curve = parse_curve(f"{path}:share=0.2,0.5", [make_policy_contender(str(path))])
    assert curve.policy == "a:b"
    assert [point.contender_key for point in curve.points] == ["a:b share=0.2", "a:b"]


@pytest.mark.parametrize("text", ["", "fidelity", "fidelity=", "fidelity=1,,2", "fidelity=1,1", "=1", "default:=1"])
def test_what_is_no_curve(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_curve(text, [])
    assert "fidelity=0.2,0.4,0.6" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "why"),
    [("fidelty=1", "unknown setting"), ("fidelity=much", "expected float"), ("nobody:fidelity=1", "nobody")],
)
def test_what_is_no_setting_of_the_policy(text: str, why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        parse_curve(text, [])
