"""The site of ``make docs``: what must be on it, held without building it; tests/e2e builds it."""

import re
from pathlib import Path

import fedcore

ROOT = Path(__file__).parents[1]
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
API = {page.name: page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")}


def test_every_public_name_has_its_place_in_the_api():
    documented = re.findall(r"^::: fedcore\.(\w+)$", "\n".join(API.values()), flags=re.M)
    values = {"SIT_OUT", "__version__"}  # not classes, not functions
    public = {*fedcore.__all__, "CoresetSelector"} - values
    assert sorted(documented) == sorted({*public, "errors"})


def test_every_page_is_in_the_navigation():
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("*.md")]
    pages += [f"api/{name}" for name in API]
    named = re.findall(r"[\w/-]+\.md$", NAVIGATION, flags=re.M)
    missing = sorted(set(pages) - set(named))
    assert not missing, f"{missing} are in no section of mkdocs.yml"


def test_no_page_keeps_the_marks_of_a_conflict():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    for page in pages:
        assert not re.search(r"^(<{7}|>{7}|={7}$)", page.read_text(), flags=re.M), page
