"""The report of ability profiles in headless Chromium."""

from collections.abc import Iterator

import pytest
from chromium import opened, wrongs_of_names
from profile_data import HOSTILE, fake_profile_run
from selenium import webdriver
from selenium.webdriver.common.by import By

from bayesirt.report.profile_html import render_profile_report

DRAWN = True


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    run = fake_profile_run(14, 5, n_new=7, subjects=HOSTILE, abilities=HOSTILE[:3])
    yield from opened(render_profile_report(run), tmp_path_factory.mktemp("report"))


def table(page: webdriver.Chrome, caption: str):
    """Return the first table in a region with that label, or after a heading with that text."""
    path = f"//div[@aria-label='{caption}']//table | //h2[text()='{caption}']/following::table[1]"
    return page.find_element(By.XPATH, path)


def values(of, place: int) -> list[float]:
    cells = of.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({place})")
    return [float(cell.get_attribute("data-value")) for cell in cells]


def test_coverage_sorts_by_reliability(page):
    coverage = table(page, "How well the data measure abilities")
    before = values(coverage, 5)
    button = coverage.find_elements(By.CSS_SELECTOR, "th button")[4]
    button.click()
    assert values(coverage, 5) == sorted(before)
    button.click()
    assert values(coverage, 5) == sorted(before, reverse=True)


def test_a_sorted_table_leaves_the_others_as_they_are(page):
    scores = table(page, "Items that nobody has answered")
    before = values(scores, 2)
    assert before == sorted(before, reverse=True)
    table(page, "How well the data measure abilities").find_element(
        By.CSS_SELECTOR, "th button"
    ).click()
    assert values(scores, 2) == before


def test_every_ranked_ability_has_a_ranking_and_every_picture_a_name(page):
    standings = table(page, "How well the data measure abilities").find_elements(
        By.CSS_SELECTOR, "tbody td:last-child"
    )
    ranked = sum(cell.text != "rests on the prior" for cell in standings)
    assert 0 < ranked < 5
    assert len(page.find_elements(By.XPATH, "//div[contains(@aria-label, 'Ranking by')]")) == ranked
    pictures = page.find_elements(By.CSS_SELECTOR, "svg")
    assert len(pictures) == 4
    assert all(p.get_attribute("aria-label") and p.size["height"] > 100 for p in pictures)


def test_hostile_names_are_text_and_nothing_is_loaded(page):
    assert wrongs_of_names(page, HOSTILE[:4]) == []
