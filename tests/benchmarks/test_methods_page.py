"""docs/methods.md is what the files of the methods say, and they say what a reader needs."""

import inspect
import re

import pytest

from benchmarks import methods_page
from fedcore import plugins

EVERY = [(kind, name) for kind in methods_page.KINDS for name in plugins.names(kind)]
PLAIN = {("sampler", name) for name in ("proportional", "uniform", "uniform-by-round")}


def test_the_page_is_not_stale():
    written = methods_page.PAGE.read_text(encoding="utf-8")
    assert written == methods_page.page(), "run python -m benchmarks.methods_page"


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_section_says_what_where_from_and_with_which_defaults(kind, name):
    module = plugins.load(kind, name)
    section = methods_page.section(kind, name)
    if (kind, name) not in PLAIN:
        assert re.search(r"^Source: .*", section, re.M)
    if kind == "strategy":
        assert re.search(r" (←|=) |^As `", section, re.M), "no equation, and as no other"
    shown = section.rsplit("\n\n", 1)[1]
    for option in set(inspect.signature(module.build).parameters) - plugins.TOLD:
        assert f"`{option}`" in shown or f"`--{option.replace('_', '-')}`" in shown


def test_a_section_by_hand():
    section = methods_page.section("strategy", "fedbuff")
    assert section.startswith("### FedBuff\n\n`fedbuff`. The server keeps K clients busy")
    assert "```\nΔ_i = w_i - w^v" in section
    assert "Source: Nguyen et al." in section
    assert "B is `buffer`, η_g `global_rate`" in section
    own = "`local` fedavg, `buffer` 10, `global_rate` 1, `refill_at_once` true"
    assert section.endswith(f"Own options: {own}.\n")


def test_what_is_given_is_no_option():
    section = methods_page.section("strategy", "fedcore-buff")
    assert "`local`" not in section.rsplit("\n\n", 1)[1]
    assert "`server_rate` 1," in methods_page.section("strategy", "fedavgm")
    assert "`server_rate` 0.1," in methods_page.section("strategy", "fedadam")
