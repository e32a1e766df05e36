"""What is opened in headless Chromium needs Selenium, which the quick tests do without."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("selenium") else ["test_*.py"]
