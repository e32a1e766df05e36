"""The site's pages open and search without errors, from a server and as files."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from chromium import started
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Build the site."""
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def chrome() -> Iterator[webdriver.Chrome]:
    """Yield the browser that all tests share, and restore its window size afterwards."""
    browser = started()
    size = browser.get_window_size()
    browser.get_log("browser")  # drops messages of earlier pages
    yield browser
    browser.set_window_size(size["width"], size["height"])


def test_pages_open_without_an_error_and_load_nothing_from_elsewhere(site, address, chrome):
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        chrome.get(address + page)
        assert chrome.get_log("browser") == [], page
        loaded = "return performance.getEntriesByType('resource').map(x => x.name)"
        assert [x for x in chrome.execute_script(loaded) if not x.startswith(address)] == []


@pytest.mark.parametrize("served", [True, False], ids=["served", "opened as files"])
def test_search_finds_a_page(site, address, chrome, served: bool):
    chrome.set_window_size(1400, 900)
    chrome.get((address if served else f"{site.as_uri()}/") + "guide/rank.html")
    chrome.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]").send_keys("regress")
    results = WebDriverWait(chrome, 10).until(
        lambda page: page.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    )
    assert any("gate" in link.get_attribute("href") for link in results)
    assert chrome.get_log("browser") == []
