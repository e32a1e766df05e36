"""Headless Chromium, for tests that look at reports."""

import atexit
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium import webdriver

REQUIRED = "BAYESIRT_REQUIRE_BROWSER" in os.environ


@cache
def started() -> "webdriver.Chrome":
    """Start it once per process; skip the test if it is not installed and not required."""
    if not REQUIRED:
        pytest.importorskip("selenium", reason="needs the extra slow")
    from selenium import webdriver

    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        if REQUIRED:
            pytest.fail("chromium and chromedriver are required here but not installed")
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    atexit.register(chrome.quit)
    return chrome


def opened(html: str, folder: Path) -> Iterator["webdriver.Chrome"]:
    """Open a document in a new tab, and close the tab afterwards."""
    chrome = started()
    report, before = folder / "report.html", chrome.current_window_handle
    report.write_text(html, "utf-8")
    chrome.switch_to.new_window("tab")
    try:
        chrome.get_log("browser")  # of pages before
        chrome.get(report.as_uri())
        yield chrome
    finally:
        chrome.close()
        chrome.switch_to.window(before)


def unfold(page: "webdriver.Chrome") -> None:
    """Open all folded sections."""
    page.execute_script("for (const x of document.querySelectorAll('details')) x.open = true")


def wrongs_of_names(page: "webdriver.Chrome", names: Sequence[str]) -> list[str]:
    """Return names that are not shown verbatim, foreign scripts, loaded resources and errors."""
    text = page.find_element("tag name", "main").get_attribute("textContent")
    scripts = page.execute_script("return [...document.scripts].map(x => x.outerHTML)")
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(x => x.name)")
    said = [entry["message"] for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    own = [] if len(scripts) == 1 else scripts or ["no script of the report's own"]
    return [*(name for name in names if name not in text), *own, *loaded, *said]


def serious_violations(page: "webdriver.Chrome") -> list[str]:
    """Return the serious and critical accessibility violations that axe-core finds."""
    from axe_core_python.selenium import Axe

    found = Axe().run(page)["violations"]
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
