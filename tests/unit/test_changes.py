"""Changes of results since an earlier run, counted by hand."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from made_posterior import posterior_of

from bayesirt.data.responses import Responses
from bayesirt.posterior import Posterior
from bayesirt.ranking.new_responses import Changes, changes_since, describe_moves


def responses_of(successes: Mapping[str, Mapping[str, int]]) -> Responses:
    rows = [(s, i, y) for s, answers in successes.items() for i, y in answers.items()]
    frame = pd.DataFrame(rows, columns=["subject", "item", "score"])
    return Responses.from_long(frame, subject="subject", item="item", score="score")


EARLIER = {
    "a": {"p": 1, "q": 0, "r": 1},
    "b": {"p": 1, "q": 1},
    "c": {"p": 0, "q": 1, "r": 0},
}


@pytest.fixture(scope="module")
def earlier() -> Posterior:
    return posterior_of(responses_of(EARLIER))


def test_the_same_answers_in_another_order_are_no_change(earlier: Posterior):
    turned = {s: dict(reversed(answers.items())) for s, answers in reversed(EARLIER.items())}
    found = changes_since(earlier, responses_of(turned))
    assert not found
    assert found == Changes((), (), (), (), 0, 0, 0)
    assert found.to_text() == "Since the last run nothing has changed."


def test_every_kind_of_change_is_counted(earlier: Posterior):
    now = {
        "d": {"s": 1, "p": 0},  # a subject and an item are new
        "b": {"p": 0, "q": 1, "r": 1},  # one answer changed, one is new
        "a": {"p": 1, "r": 1},  # one answer was removed; c was removed completely
        "e": {"q": 1, "r": 0},
    }
    found = changes_since(earlier, responses_of(now))
    assert found == Changes(("d", "e"), ("s",), ("c",), (), 5, 1, 4)
    assert found
    assert found.to_text() == (
        "Since the last run: 2 subjects are new (d, e), 1 item is new (s), 1 subject is gone (c), "
        "5 answers are new, 1 is different, 4 are gone."
    )
    assert found.as_json()["n_gone"] == 4


def test_more_trials_of_the_same_answer_are_a_change():
    def trials(n: int) -> Responses:
        return Responses.from_arrays([[1, 0], [1, 1]], trials=[[1, n], [1, 1]])

    found = changes_since(posterior_of(trials(1)), trials(3))
    assert (found.n_new, found.n_changed, found.n_gone) == (0, 1, 0)


def test_nothing_in_common_is_all_new_and_all_gone(earlier: Posterior):
    found = changes_since(earlier, responses_of({"x": {"u": 1, "v": 0}, "y": {"u": 0, "v": 1}}))
    assert (found.n_new, found.n_changed, found.n_gone) == (4, 0, 8)


def ranking_of(names: str) -> pd.DataFrame:
    ranks = np.arange(1, len(names) + 1)
    table = {"subject": list(names), "rank": ranks, "rank_low": ranks, "rank_high": ranks + 1}
    table["ability"] = -1.0 * ranks
    return pd.DataFrame(table)


def test_moves_leave_new_subjects_and_gone_ones_out():
    assert describe_moves(ranking_of("abcde"), ranking_of("abxde")) == (
        "New: x at rank 3 (3 to 4). Zero is the mean ability of the subjects ranked, which has "
        "changed with them: those that stayed moved by +0.00 on average. The order of the others "
        "is unchanged."
    )
    assert describe_moves(ranking_of("abcd"), ranking_of("dabc")) == (
        "Of the others, 4 of 4 changed places, the farthest move is d (3 up)."
    )
    many = describe_moves(ranking_of("a"), ranking_of("wxyza"))
    assert many.startswith("New: w at rank 1 (1 to 2), x at rank 2 (2 to 3), y at rank 3 (3 to 4)")
    assert "and 1 more." in many
    assert "those that stayed moved by -4.00 on average" in many


def test_hostile_names_stay_in_their_line():
    text = Changes(("a\nb\x1b[31m",), (), (), (), 1, 0, 0).to_text()
    assert "\n" not in text
    assert "\x1b" not in text
