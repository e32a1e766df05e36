"""Answers of new subjects, read from a harness's logs."""

from pathlib import Path

import harness_data as data
import numpy as np
import pytest

from bayesirt.bank.new_answers import read_answers, read_found_answers
from bayesirt.data.readers.reading import Reading
from bayesirt.errors import ResponseError

ITEMS = ["arc/2", "mul/a", "arc/0", "arc/1"]


def logs(folder: Path, model: str = "acme/large") -> Path:
    data.lm_eval(folder, model, [data.lm_eval_row(k, score) for k, score in enumerate((1, 0, 1))])
    samples = [data.sample("a", "C"), data.sample("b", "I")]
    data.inspect_json(folder / "mul.json", samples, data.inspect_header(model=model))
    return folder


def test_one_subject_is_enough_and_strange_items_are_left_out(tmp_path: Path):
    found, said = read_found_answers(logs(tmp_path), ITEMS, Reading())
    assert list(found) == ["acme/large"]
    answers = found["acme/large"]
    assert np.asarray(answers.item).tolist() == [0, 1, 2, 3]
    assert np.asarray(answers.successes).tolist() == [1, 1, 1, 0]
    assert np.exp(answers.log_latency[1]) == pytest.approx(20)
    assert said is not None
    assert "1 answer: to items that were not calibrated (mul)" in said.to_text()


def test_choices_are_passed_on(tmp_path: Path):
    rows = [data.lm_eval_row(0, 0.0, metrics=["acc", "acc_norm"], acc_norm=1.0)]
    data.lm_eval(tmp_path, "acme/large", rows)
    with pytest.raises(ResponseError, match="--metric"):
        read_answers(tmp_path, ITEMS)
    found = read_answers(tmp_path, ITEMS, metric="acc_norm")
    assert np.asarray(found["acme/large"].successes).tolist() == [1]


def test_logs_of_strange_items_alone_are_refused(tmp_path: Path):
    with pytest.raises(ResponseError, match="only to others, such as 'mul/a'; name other logs"):
        read_answers(logs(tmp_path), ["q1"])


def test_options_of_logs_do_not_go_with_tables(tmp_path: Path):
    path = tmp_path / "r.csv"
    path.write_text("item,score\nq1,1\n")
    with pytest.raises(ResponseError, match="--metric belongs to logs"):
        read_answers(path, ["q1"], metric="acc")
