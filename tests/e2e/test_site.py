"""``make docs``: the site is built without a warning, holds together and fetches nothing."""

import os
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
HERE = (ROOT / ".venv-docs" / "bin" / "mkdocs", Path(sys.executable).with_name("mkdocs"))
TOOL = next((str(tool) for tool in HERE if tool.exists()), shutil.which("mkdocs"))
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src"}


class Page(HTMLParser):
    """Where a page leads to, what it is made of, and the places in it that have a name."""

    def __init__(self, text):
        super().__init__()
        self.links, self.parts, self.names = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if (address := given.get(FETCHED.get(tag, ""))) and given.get("rel") != "canonical":
            self.parts.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if TOOL is None:
        pytest.skip("mkdocs is not installed; 'make docs' makes an environment that has it")
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [TOOL, "build", "--strict", "--site-dir", out],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = (page for page in out.rglob("*.html") if page.name != "404.html")  # of servers alone
    return {page: Page(page.read_text()) for page in pages}


def test_every_link_leads_somewhere(site):
    looked_at = 0
    for page, content in site.items():
        for link in content.links:
            address, anchor = urldefrag(link)
            if "://" in address or address.startswith("mailto:"):
                continue
            target = (page.parent / unquote(address)).resolve() if address else page
            assert target.exists(), f"{page.name} links to {link}"
            if anchor and target in site:
                assert unquote(anchor) in site[target].names, f"{page.name} links to {link}"
            looked_at += 1
    assert looked_at > 1000


def test_nothing_is_fetched_from_elsewhere(site):
    for page, content in site.items():
        for part in content.parts:
            if part.startswith("data:"):
                continue
            assert "//" not in part, f"{page.name} fetches {part}"
            target = page.parent / urldefrag(part).url.partition("?")[0]
            assert target.exists(), f"{page.name} has no {part}"


def test_what_docstrings_and_comments_say_is_there(site):
    text = {page.name: page.read_text() for page in site if page.parent.name == "api"}
    assert "stragglers" in text["simulate.html"]
    assert "percentage of clients that miss the deadline" in text["simulate.html"]
    assert (
        text["coresets.html"].count("relative <code>gradient_error</code> of the weighted sum") == 1
    )
    assert "Samples that it was asked to process" in text["results.html"]  # a field's comment
    assert "seconds that answers are waited for" in text["flower.html"].replace(
        "Seconds", "seconds"
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    tools = runpy.run_path(str(ROOT / "tests" / "report" / "page" / "conftest.py"))
    tools["executable"]()
    made = tools["Browser"](tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_and_fetches_nothing(site, browser, width):
    for name in ("index.html", "simulate.html", "tutorial.ipynb.html"):
        browser.open(next(page for page in site if page.name == name), width=width)
        assert all(one.startswith(("file:", "data:")) for one in browser.requests())
        # Search needs a worker, which browsers start on pages of servers alone.
        assert not [one for one in browser.complaints() if "worker.js" not in one]
        assert browser.run("document.documentElement.scrollWidth") <= width
        shown = "getComputedStyle(document.body).backgroundColor"
        light = browser.run(shown)
        browser.run("document.querySelector('[data-bs-theme-value=dark]').click()")
        assert browser.run(shown) != light
        browser.run("document.querySelector('[data-bs-theme-value=light]').click()")
        assert browser.run(shown) == light


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious_on_it(site, browser, dark):
    where = os.environ.get("FEDCORE_AXE", ROOT / ".axe/node_modules/axe-core/axe.min.js")
    if not Path(where).exists():
        pytest.skip(f"axe is not here: no {where}; 'make browser' brings it")
    for name in ("simulate.html", "results.html", "tutorial.ipynb.html"):
        page = next(page for page in site if page.name == name)
        browser.open(page, width=390 if dark else 1280, dark=dark)
        browser.run(Path(where).read_text() + "; 0")
        found = browser.run(
            "axe.run(document).then((found) => found.violations.map((one) => "
            "[one.impact, one.id, one.nodes[0].html]))"
        )
        assert not [one for one in found if one[0] in ("serious", "critical")]
