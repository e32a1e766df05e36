"""The report of an item bank in headless Chromium."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from chromium import opened, wrongs_of_names
from profile_data import HOSTILE
from selenium import webdriver
from selenium.webdriver.common.by import By

from bayesirt.bank.alarms import Alarm
from bayesirt.bank.item_bank import ItemBank
from bayesirt.bank.review import BankReview
from bayesirt.bank.step import BankItems, BankStep
from bayesirt.estimators.fixed_items import KnownItems
from bayesirt.report.bank_html import render_bank_report

DRAWN = True
BENCHMARKS = (*HOSTILE[:3], "maths")
N_EACH, N_SCORED = 30, 60


def made_bank() -> ItemBank:
    rng = np.random.default_rng(0)
    n = N_EACH * len(BENCHMARKS)
    a, d = rng.normal(0.5, 0.5, (n, 2)), rng.normal(0, 1, n)
    labels = tuple(np.repeat(np.array(BENCHMARKS, object), N_EACH))
    names = tuple(f"{label} {j}" for j, label in enumerate(labels))
    weights = np.where(np.arange(n) % 5, np.nan, 5 / N_EACH)
    items = BankItems(KnownItems(names, a, d, np.zeros((n, 3, 3))), labels, weights)
    scores = [
        pd.DataFrame(
            {
                "subject": f"{HOSTILE[k % 5]} {k}",
                "benchmark": list(BENCHMARKS),
                "accuracy": 0.5,
                "low": 0.4,
                "high": 0.6,
            }
        )
        for k in range(N_SCORED)
    ]
    steps = (BankStep("score", scores=table, source={"name": "<b>.csv"}) for table in scores)
    return ItemBank(2, (BankStep("create", items), *steps))


def made_review(bank: ItemBank) -> BankReview:
    anchors = list(bank.anchor_items)
    n, p = len(anchors), np.linspace(0.0001, 1, len(anchors))
    columns = {"n_recent": 60, "observed": 0.9, "expected": 0.5, "drift": 0.4}
    table = pd.DataFrame({"item": anchors, "benchmark": "maths"}).assign(**columns)
    table = table.assign(low=0.3, high=np.linspace(0.4, 0.5, n), p=p, alarm=p < 0.05)
    benchmarks = pd.DataFrame({"benchmark": BENCHMARKS, "n_items": N_EACH, "n_anchors": 6})
    benchmarks = benchmarks.assign(n_alarms=[1, 0, 0, 0], n_reference=[np.nan, 90, 300, 120])
    benchmarks = benchmarks.assign(best_accuracy=[0.5, np.nan, 0.97, 0.8], drift_p=0.5)
    alarm = Alarm("anchor", BENCHMARKS[0], anchors[0], f"{anchors[0]} may have leaked.")
    return BankReview(table, benchmarks, 60, (alarm,))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    bank = made_bank()
    html = render_bank_report(bank, made_review(bank))
    yield from opened(html, tmp_path_factory.mktemp("report"))


def below(page: webdriver.Chrome, heading: str):
    return page.find_element(By.XPATH, f"//h2[text()='{heading}']/following::table[1]")


def values(of, place: int) -> list[float]:
    cells = of.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({place})")
    return [float(cell.get_attribute("data-value")) for cell in cells]


def test_the_alarm_comes_first(page):
    assert page.find_element(By.CSS_SELECTOR, ".verdict.unsound").text.startswith("1 alarm")
    (alarm,) = page.find_elements(By.CSS_SELECTOR, "main > ul > li")
    assert alarm.text.endswith("may have leaked.")


def test_what_is_not_known_is_said_and_sorts_last_among_the_best(page):
    table = below(page, "Benchmarks")
    assert "unknown" in table.text
    button = table.find_elements(By.CSS_SELECTOR, "th button")[4]
    button.click()
    button.click()
    assert values(table, 5) == pytest.approx([97, 80, 50, -1])


def test_anchors_stand_by_their_p_and_alarms_are_bold(page):
    table = below(page, "Do anchors still hold?")
    found = values(table, 7)
    assert found == sorted(found)
    strong = table.find_elements(By.CSS_SELECTOR, "strong")
    assert len(strong) == sum(p < 0.05 for p in found) > 0


def test_many_scores_are_folded_away_and_every_picture_has_a_name(page):
    assert not page.find_element(By.CSS_SELECTOR, "details").get_attribute("open")
    rows = page.find_elements(By.CSS_SELECTOR, "details tbody tr")
    assert len(rows) == N_SCORED * len(BENCHMARKS)
    pictures = page.find_elements(By.CSS_SELECTOR, "svg")
    assert len(pictures) == 2
    assert all(p.get_attribute("aria-label") and p.size["height"] > 100 for p in pictures)
    assert "The last 40 of 60 subjects." in page.find_element(By.TAG_NAME, "main").text


def test_hostile_names_are_text_and_nothing_is_loaded(page):
    assert wrongs_of_names(page, HOSTILE[:4]) == []


def test_a_bank_that_scored_nobody_says_so():
    bank = made_bank()
    review = made_review(bank)
    bare = ItemBank(2, bank.steps[:1])
    unseen = review.anchors.assign(n_recent=0)
    html = render_bank_report(bare, BankReview(unseen, review.benchmarks, 0, ()))
    assert "No subject has been scored yet." in html
    assert "Do anchors still hold?" not in html
