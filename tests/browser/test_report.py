"""The report of a run in headless Chromium."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from chromium import opened, serious_violations, unfold
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from sketches import pictures_by

from bayesirt.ranking.finished_run import Run
from bayesirt.ranking.separation import separate_neighbours
from bayesirt.ranking.topic_rankings import TopicRankings, gains_by_topic
from bayesirt.report.html import render_report
from bayesirt.report.page import svg


@pytest.fixture(scope="module")
def page(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with pictures_by(svg):
        report = render_report(small_run)
    yield from opened(report, tmp_path_factory.mktemp("report"))


def column(page: webdriver.Chrome, title: str) -> list[str]:
    table = page.find_element(By.CSS_SELECTOR, "table")
    heads = [h.text.strip(" ▲▼") for h in table.find_elements(By.CSS_SELECTOR, "thead th")]
    place = heads.index(title) + 1
    cells = table.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({place})")
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
    unfold(page)
    pictures = page.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(pictures) == 7
    assert all(p.get_attribute("aria-label") and p.size["height"] > 100 for p in pictures)


def test_every_row_draws_its_interval_on_one_axis(page):
    bars = page.find_elements(By.CSS_SELECTOR, "td .bar")
    assert len(bars) == 30
    cells = page.find_elements(By.CSS_SELECTOR, "td.drawn")
    values = [float(cell.get_attribute("data-value")) for cell in cells]
    places = [float(bar.find_element(By.TAG_NAME, "circle").get_attribute("cx")) for bar in bars]
    line = np.polynomial.Polynomial.fit(values, places, 1)
    assert np.abs(line(np.array(values)) - places).max() < 0.1
    assert len({bar.find_element(By.CSS_SELECTOR, ".grid").get_attribute("d") for bar in bars}) == 1
    assert all(bar.get_attribute("aria-label") for bar in bars)


def test_a_link_into_what_is_folded_opens_it(page):
    page.execute_script("for (const x of document.querySelectorAll('details')) x.open = false")
    heading = page.find_element(By.ID, "point")
    assert not heading.is_displayed()
    page.execute_script("location.hash = '#point'")
    assert heading.is_displayed()


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


def test_a_box_filters_and_says_how_many(page):
    box = page.find_element(By.CSS_SELECTOR, ".pages input")
    box.send_keys("subject 2")
    table = page.find_element(By.CSS_SELECTOR, "table")
    rows = [r for r in table.find_elements(By.CSS_SELECTOR, "tbody tr") if r.is_displayed()]
    names = [row.find_element(By.CSS_SELECTOR, ".name").text for row in rows]
    assert names
    assert all("subject 2" in name for name in names)
    assert page.find_element(By.CSS_SELECTOR, ".pages [role=status]").text.endswith(str(len(names)))
    box.send_keys("nobody")
    assert page.find_element(By.CSS_SELECTOR, ".pages [role=status]").text == "none found"
    box.clear()
    box.send_keys(Keys.SPACE)
    assert len([r for r in table.find_elements(By.CSS_SELECTOR, "tr") if r.is_displayed()]) == 31


def test_contents_lead_to_every_section(page):
    targets = [
        link.get_attribute("href").split("#")[1]
        for link in page.find_elements(By.CSS_SELECTOR, "nav a")
    ]
    sections = [h.get_attribute("id") for h in page.find_elements(By.CSS_SELECTOR, "h2")]
    assert targets == sections


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_people_with_other_eyes_and_hands_can_read_it(page, scheme: str):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert serious_violations(page) == []


def test_paper_is_white_without_buttons_and_wide_enough(page):
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [dark]})
    paper = {"width": 718, "height": 1046, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
    try:
        background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"
        for selector in ("nav", ".pages", ".take", "figure .take", ".screen"):
            assert not page.find_element(By.CSS_SELECTOR, selector).is_displayed()
        assert page.execute_script("return document.documentElement.scrollWidth") <= 718
        heights = [p.size["height"] for p in page.find_elements(By.CSS_SELECTOR, "figure svg")]
        assert all(100 < height < 700 for height in heights)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def taken(page: webdriver.Chrome, selector: str) -> str:
    """Click a button that offers a file, and return the file's text."""
    return page.execute_async_script(
        "const [selector, done] = arguments; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then(done); return make(blob); };"
        "document.querySelector(selector).click(); URL.createObjectURL = make;",
        selector,
    )


def test_the_leaderboard_is_taken_along_as_shown(page, small_run: Run):
    page.refresh()
    table = pd.read_csv(io.StringIO(taken(page, ".take")))
    summary = small_run.ranking.summary
    assert list(table["Subject"]) == list(summary["subject"])
    for end in ("", "_low", "_high"):
        shown = table[f"Ability{end.replace('_', ' ')}"]
        np.testing.assert_allclose(shown, summary[f"ability{end}"], atol=0.0051)
    assert list(table["Rank high"]) == list(summary["rank_high"])
    button(page, "Accuracy").click()
    page.find_element(By.CSS_SELECTOR, ".pages input").send_keys("subject 2")
    table = pd.read_csv(io.StringIO(taken(page, ".take")))
    shares = [float(share.removesuffix("%")) for share in table["Accuracy"]]
    assert 1 < len(table) < 30
    assert shares == sorted(shares)
    page.refresh()


def test_names_that_are_formulas_are_taken_along_as_text(small_run: Run, tmp_path: Path):
    hostile = render_report(small_run).replace(
        "<bdi>subject 1</bdi>", "<bdi>=1+1,&#34;x&#34;</bdi>"
    )
    page = next(pages := opened(hostile, tmp_path))
    assert '\'=1+1,"x"' in set(pd.read_csv(io.StringIO(taken(page, ".take")))["Subject"])
    assert next(pages, None) is None


def test_pictures_are_taken_along_in_their_colours(page):
    pictures = page.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(page.find_elements(By.CSS_SELECTOR, "figure .take")) == len(pictures)
    root = ElementTree.fromstring(taken(page, "figure .take"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"width", "height"} <= root.attrib.keys()
    assert "--accent:#0b5394" in root.attrib["style"]


def test_one_topic_is_shown_and_all_are_printed(small_run: Run, tmp_path: Path):
    rng, ranking = np.random.default_rng(0), small_run.ranking
    names = list(ranking.summary["subject"])
    theta = {topic: rng.normal(size=(100, 30)) for topic in ("law", "verse")}
    gains = gains_by_topic(theta, dict.fromkeys(theta, names))
    both = dict.fromkeys(theta, ranking), dict.fromkeys(theta, 20)
    topics = TopicRankings("topic", *both, gains, ("2 items have no topic.",))
    page = next(pages := opened(render_report(replace(small_run, topics=topics)), tmp_path))
    parts = page.find_elements(By.CSS_SELECTOR, ".choice section")
    assert [part.is_displayed() for part in parts] == [True, False]
    Select(page.find_element(By.CSS_SELECTOR, ".choice select")).select_by_visible_text("verse")
    assert [part.is_displayed() for part in parts] == [False, True]
    taken_along = pd.read_csv(io.StringIO(taken(page, ".choice section:not([hidden]) .take")))
    assert "Against other topics low" in taken_along
    test_contents_lead_to_every_section(page)
    assert serious_violations(page) == []
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert all(part.is_displayed() for part in parts)
    assert [e for e in page.get_log("browser") if e["level"] == "SEVERE"] == []
    assert next(pages, None) is None


def test_long_tables_have_pages(small_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ranking, n = small_run.ranking, 240
    summary = pd.concat([ranking.summary] * 8, ignore_index=True)
    apart = separate_neighbours(small_run.posterior, ranking)
    monkeypatch.setattr("bayesirt.report.html.separate_neighbours", lambda *_: apart)
    monkeypatch.setattr("bayesirt.report.html.in_report", lambda *_: "")
    run = replace(small_run, ranking=replace(ranking, summary=summary))
    page = next(pages := opened(render_report(run), tmp_path))
    table, bar = (page.find_element(By.CSS_SELECTOR, x) for x in ("table", ".pages"))
    back, on = bar.find_elements(By.TAG_NAME, "button")

    def there() -> tuple[int, str]:
        rows = [r for r in table.find_elements(By.CSS_SELECTOR, "tbody tr") if r.is_displayed()]
        return len(rows), bar.find_element(By.CSS_SELECTOR, "[role=status]").text

    assert there() == (100, "1 to 100 of 240")
    assert not back.is_enabled()
    on.click()
    on.click()
    assert there() == (40, "201 to 240 of 240")
    assert not on.is_enabled()
    button(page, "Accuracy").click()
    assert there() == (100, "1 to 100 of 240")
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert there()[0] == n
    page.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert there()[0] == 100
    assert [e for e in page.get_log("browser") if e["level"] == "SEVERE"] == []
    assert next(pages, None) is None
