"""The report, opened in headless Chromium as its reader would."""

from collections.abc import Iterator

import pytest
from browser import opened
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from bayesirt.report import render_report
from bayesirt.run import Run


@pytest.fixture(scope="module")
def page(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    yield from opened(render_report(small_run), tmp_path_factory.mktemp("report"))


def column(page: webdriver.Chrome, title: str) -> list[str]:
    heads = [h.text.strip(" ▲▼") for h in page.find_elements(By.CSS_SELECTOR, "thead th")]
    place = heads.index(title) + 1
    cells = page.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({place})")
    return [c.get_attribute("data-value") or c.text for c in cells]


def button(page: webdriver.Chrome, title: str):
    return page.find_element(By.XPATH, f"//th/button[text()='{title}']")


def test_a_click_sorts_and_a_second_click_turns_the_order(page):
    before = [float(v) for v in column(page, "Accuracy")]
    button(page, "Accuracy").click()
    assert [float(v) for v in column(page, "Accuracy")] == sorted(before)
    button(page, "Accuracy").click()
    assert [float(v) for v in column(page, "Accuracy")] == sorted(before, reverse=True)


def test_the_keyboard_sorts_too_and_screen_readers_are_told(page):
    head = button(page, "Subject")
    head.send_keys(Keys.ENTER)
    names = column(page, "Subject")
    assert names == sorted(names, key=lambda name: int(name.removeprefix("subject ")))
    assert head.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"


def test_every_picture_has_a_name(page):
    pictures = page.find_elements(By.CSS_SELECTOR, "svg")
    assert len(pictures) == 3
    assert all(p.get_attribute("aria-label") and p.size["height"] > 100 for p in pictures)


def test_nothing_is_loaded_and_nothing_goes_wrong(page):
    entries = page.execute_script("return performance.getEntriesByType('resource').length")
    assert entries == 0
    assert [e for e in page.get_log("browser") if e["level"] == "SEVERE"] == []
    assert "Content-Security-Policy" in page.page_source


def test_the_policy_stops_foreign_scripts(page):
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        "document.body.append(s);"
    )
    assert page.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in e["message"] for e in page.get_log("browser"))
