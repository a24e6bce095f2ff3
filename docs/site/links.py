"""Hooks of mkdocs: what a page links to anywhere in the repository is on the site; colours of code.

A Markdown file becomes a page, another file a page with its text, a folder a page with its list.
So pages link as they do in the repository, nothing needs an address of it, and a link to a file
that is not there fails ``make docs``.
"""

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pygments.formatters import HtmlFormatter

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,}).*?^\1`*$", re.M | re.S)
CODE = "assets/code-{}.css"
STYLES = {"light": "default", "dark": "github-dark"}  # of code, by the theme's two modes
LANGUAGES = {".py": "python", ".toml": "toml", ".csv": "text", ".json": "json"}
HOME, TUTORIAL = "README.md", "examples/tutorial.ipynb"

places: dict[str, str] = {}  # path in the repository -> path among the pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for the README, the decisions, and whatever pages link to outside of docs/."""
    root = Path(config.config_file_path).parent
    docs = Path(config.docs_dir).relative_to(root).as_posix()
    places.clear()
    for file in files.documentation_pages():
        places[f"{docs}/{file.src_uri}"] = file.src_uri
    waiting = [HOME, TUTORIAL, f"{docs}/adr", *places]
    while waiting:
        path = waiting.pop()
        if path not in places:
            places[path] = _place(path, root, docs)
            generated = File.generated(config, places[path], content=_text(root / path))
            files.append(generated)
        for target in LINK.findall(_without_code(_text(root / path))):
            linked = _resolved(path, target)
            outside = linked and not (linked.startswith(f"{docs}/") and (root / linked).is_file())
            if outside and linked not in places and (root / linked).exists():
                waiting.append(linked)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    origin = next((path for path, place in places.items() if place == page.file.src_uri), None)
    if origin is None:
        return markdown

    def turned(found: re.Match[str]) -> str:
        target = _resolved(origin, found[1])
        # What lies in docs/ and is no page, a picture say, keeps its place there.
        place = places.get(target, target.removeprefix("docs/") if target else "")
        if not target or (target not in places and not target.startswith("docs/")):
            return found[0]
        here = os.path.relpath(place, Path(page.file.src_uri).parent)
        anchor = urldefrag(found[1]).fragment
        return f"]({here}{'#' + anchor if anchor else ''})"

    pieces, end = [], 0
    for fence in FENCE.finditer(markdown):
        pieces += [LINK.sub(turned, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, LINK.sub(turned, markdown[end:])])


def on_page_content(html: str, **_: Any) -> str:
    """Let those who use the keyboard scroll what is wider than the page."""
    return re.sub(r"<(pre|table)>", r'<\1 tabindex="0">', html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the colours of code, which the theme switches with the mode and would fetch."""
    links = [
        f'<link id="hljs-{mode}" rel="stylesheet" href="{get_relative_url(place, page.url)}">'
        for mode, place in ((mode, CODE.format(mode)) for mode in STYLES)
    ]
    return output.replace("</head>", "".join([*links, "</head>"]), 1)


def on_post_build(config: MkDocsConfig) -> None:
    """Write these colours."""
    for mode, style in STYLES.items():
        rules = HtmlFormatter(style=style).get_style_defs(".highlight")
        (Path(config.site_dir) / CODE.format(mode)).write_text(rules, "utf-8")


def _without_code(text: str) -> str:
    return FENCE.sub("", text)


def _resolved(path: str, target: str) -> str:
    """Where a link of a file leads to in the repository; '' where it leads out of it."""
    address = urldefrag(target).url
    if not address or "://" in address or address.startswith(("mailto:", "/")):
        return ""
    linked = os.path.normpath(Path(path).parent / address)
    return "" if linked.startswith("..") else Path(linked).as_posix()


def _place(path: str, root: Path, docs: str) -> str:
    if path == HOME:
        return "index.md"
    if path.startswith(f"{docs}/"):
        return f"{path.removeprefix(f'{docs}/')}/index.md"
    if (root / path).is_dir():
        return f"repository/{path}/index.md"
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _text(path: Path) -> str:
    """The page of a file or folder, with its links as they are in the repository."""
    if path.is_dir():
        hidden = ("__pycache__", ".egg-info")
        inside = sorted(one for one in path.rglob("*") if one.is_file())
        shown = [one for one in inside if not any(part in str(one) for part in hidden)]
        title = "Decisions" if path.name == "adr" else path.name
        lines = [f"- [{_title(one, path)}]({path.name}/{one.relative_to(path)})" for one in shown]
        return "\n".join([f"# {title}", "", *lines, ""])
    if path.suffix == ".ipynb":
        return _notebook(json.loads(path.read_text("utf-8")))
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path.name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def _title(path: Path, folder: Path) -> str:
    first = path.read_text("utf-8").partition("\n")[0] if path.suffix == ".md" else ""
    return first.removeprefix("# ") or f"`{path.relative_to(folder).as_posix()}`"


def _notebook(book: dict[str, Any]) -> str:
    """A notebook as text, its cells and what they printed."""
    parts = []
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                encoded = "".join(data["image/png"]).replace("\n", "")
                parts.append(
                    f'<img alt="what the cell draws" src="data:image/png;base64,{encoded}">'
                )
                continue
            text = output.get("text") or data.get("text/plain") or ""
            parts.append(f"```text\n{''.join(text).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
