"""Small tools for text: a cache with a limit, and tables that are split where they do not fit."""

from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.table import align_table


def test_results_are_cached_until_there_are_too_many() -> None:
    asked: list[str] = []

    def find(text: str) -> int:
        asked.append(text)
        return len(text)

    memo = BoundedMemo(find, longest=3, most=2)
    assert [memo[text] for text in ("a", "bb", "a", "bb")] == [1, 2, 1, 2]
    assert asked == ["a", "bb"]
    assert [memo["long"], memo["long"]] == [4, 4]
    assert asked == ["a", "bb", "long", "long"], "a long text is not cached"
    assert [memo["c"], memo["a"], memo["c"]] == [1, 1, 1]
    assert asked[4:] == ["c", "a"], "it was emptied when it was full"


def test_columns_that_do_not_fit_follow_below_with_the_first_one() -> None:
    rows = [["name", "one", "two"], ["a", "1", "22"], ["sum", "3", "44"]]
    wide = ["name  one  two", "--------------", "a       1   22", "--------------", "sum     3   44"]
    assert align_table(rows, has_total=True) == wide
    split = ["name  one", "---------", "a       1", "sum     3", "", "name  two", "---------", "a      22", "sum    44"]
    assert align_table(rows, width=10) == split
