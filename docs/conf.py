"""Sphinx reads this. ``make docs`` builds the site; ``make_site.py`` prepares its pages."""

from __future__ import annotations

import re
from typing import Any

from tightrope.theory.citations import cited
from tightrope.version import __version__

KINDS = {"class": "class", "exception": "exc", "function": "func"}  # entries, and links to them

project = "tightrope"
author = "the tightrope authors"
copyright = author
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns: list[str] = []
nitpicky = True
highlight_language = "none"  # what is not marked is shell or plain text
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_dmath_allow_space = myst_dmath_allow_digits = False  # "$5 or $10" are sums of money
myst_heading_anchors = 4
nb_execution_mode = "off"  # their outputs are saved in them; the tests run them
nb_render_markdown_format = "myst"
html_math_renderer = "mathml"  # below; MathJax would come from another host

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike", "npt.NDArray": "NDArray"}
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "tightrope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/icon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#00598c",
        "color-brand-content": "#00598c",
        "color-brand-visited": "#00598c",
        "color-api-name": "#00598c",
        "color-api-pre-name": "#00598c",
        "color-bad": "#a3301c",
        "color-good": "#1b6e3c",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fbdf0",
        "color-brand-content": "#6fbdf0",
        "color-brand-visited": "#6fbdf0",
        "color-api-name": "#6fbdf0",
        "color-api-pre-name": "#6fbdf0",
        "color-bad": "#ff9d85",
        "color-good": "#7bd19b",
    },
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def find_public(app: Any, env: Any, node: Any, content: Any) -> Any:
    """A link to a name leads to its entry, wherever it is defined.

    A type in a signature that has no entry is plain text; a docstring may not name one.
    """
    from docutils.nodes import literal

    if node.get("refdomain") != "py":
        return None
    domain, target = env.domains["py"], node["reftarget"]
    known = [name for name in domain.objects if name.split(".")[-1] == target.split(".")[-1]]
    known = [name for name in known if domain.objects[name].objtype in KINDS]
    if not known:
        return None if isinstance(content, literal) else content
    found = max(known, key=lambda name: (target.startswith(name.rpartition(".")[0]), len(name)))
    here, kind = node.get("refdoc", env.docname), KINDS[domain.objects[found].objtype]
    return domain.resolve_xref(env, here, app.builder, kind, found, node, content)


def tidy(app: Any, kind: str, name: str, thing: Any, options: Any, *texts: str | None) -> Any:
    """A signature with the names of aliases, which Sphinx gives as objects inside of unions."""
    alias = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
    return tuple(text and alias.sub(r"\1", text) for text in texts)


def cite(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The paper's numbers in place of its labels, as in the shell."""
    lines[:] = map(cited, lines)


def write_math(writer: Any, node: Any) -> None:
    """Formulas as MathML, which browsers show themselves."""
    from docutils.nodes import SkipNode, math_block
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.util.logging import getLogger

    try:
        made = str(tex2mathml(node.astext(), as_block=isinstance(node, math_block)))
    except MathError as error:
        getLogger(__name__).warning("%s: %s", node.astext(), error, location=node)
        made = ""
    if isinstance(node, math_block):
        made = f'<div class="formula">{made}</div>'
    writer.body.append(made)
    raise SkipNode


def label_cells(app: Any, tree: Any, page: str) -> None:
    """Cells of wide tables get their column's title, which narrow screens show."""
    from docutils import nodes

    for table in tree.findall(nodes.table):
        head = next(table.findall(nodes.thead), None)
        titles = [entry.astext() for entry in head[0]] if head else []
        if len(titles) <= 3:  # these fit a phone
            continue
        for row in (one for body in table.findall(nodes.tbody) for one in body):
            for title, entry in list(zip(titles, row, strict=False))[1:]:
                if title and entry.children:
                    entry.insert(0, nodes.inline("", title, classes=["column"]))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("autodoc-process-signature", tidy)
    app.connect("autodoc-process-docstring", cite)
    app.connect("missing-reference", find_public)
    app.connect("doctree-resolved", label_cells)
