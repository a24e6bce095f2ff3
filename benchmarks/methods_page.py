"""docs/methods.md from the files of the methods: ``python -m benchmarks.methods_page``.

A section is a file's docstring, then that of its ``build``, which says which option is which
symbol, then the options with their defaults, read from its signature. Indented paragraphs are
equations. A test fails when the page is stale.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from fedcore import plugins
from fedcore.config import option_fields

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
KINDS = {"strategy": "Strategies", "sampler": "Samplers"}
HEAD = """# Methods

What each strategy (`--strategies NAME,...`) and sampler (`--selection NAME`) computes, where it
is from, and its options. Written by `python -m benchmarks.methods_page` out of the files
themselves; each is held to its formulas by the test of its name.

- Own options of a method are set with `--method KEY=VALUE`, and go to every method of the
  comparison that has them.
- `local` names the strategy by whose plan clients work: with `--method local=partial`, slow
  clients of SCAFFOLD train fewer epochs.
- `--server-optimiser momentum`, `adam`, `yogi` or `adagrad` puts a server optimiser around every
  strategy of the comparison: what its merge would add to the model is then a gradient. The options
  are those of FedAvgM, FedAdam, FedYogi and FedAdagrad.
- w is the global model, t its version, which is the number of merges that made it, w^v the model of
  version v, w_i what client i answers, m_i its samples, c_i samples it processes per second, τ the
  deadline, E the epochs asked for, η the local step size. In SCAFFOLD, c and c_i are gradients.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for kind, title in KINDS.items():
        parts.append(f"## {title}\n")
        parts += [section(kind, name) for name in plugins.names(kind)]
    return "\n".join(parts)


def section(kind: str, name: str) -> str:
    """One method: its paragraphs, its equations, its options."""
    module = plugins.load(kind, name)
    first, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    title, _, sentence = first.partition(": ")
    sentence = sentence[:1].upper() + sentence[1:]
    told = [f"### {title}\n\n`{name}`. {sentence}", *paragraphs(rest)]
    told += paragraphs(inspect.getdoc(underlying(module.build)) or "")
    return "\n\n".join([*told, options(module.build)]) + "\n"


def underlying(build: object) -> object:
    """The function of a ``build`` that is one with some arguments given."""
    return build.func if isinstance(build, functools.partial) else build


def paragraphs(text: str) -> Iterator[str]:
    """Markdown of a docstring: what is indented is an equation."""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("    "):
            yield f"```\n{inspect.cleandoc(paragraph)}\n```"
        elif paragraph:
            yield paragraph.replace("``", "`")


def options(build: object) -> str:
    """Options and defaults: a method's own, then those of every comparison."""
    assert callable(build)
    known = option_fields()
    own, common = [], []
    for name, parameter in inspect.signature(build).parameters.items():
        if name in plugins.TOLD:
            continue
        if name in known:
            common.append(f"`--{name.replace('_', '-')}`")
        else:
            default = parameter.default
            shown = f"{default:g}" if isinstance(default, int | float) else str(default)
            own.append(f"`{name}` {str(default).lower() if isinstance(default, bool) else shown}")
    lines = [f"Own options: {', '.join(own)}." if own else "No options of its own."]
    if common:
        lines.append(f"It also goes by {', '.join(common)}.")
    return " ".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
