"""Print where Playwright installs its Chromium: ``python .ci/chromium.py``."""

from playwright.sync_api import sync_playwright

with sync_playwright() as playing:
    print(playing.chromium.executable_path)
