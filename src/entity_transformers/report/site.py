"""index.html over all studies of a repository: what was run, the verdicts, links to the pages."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from entity_transformers.report.glossary import GPT2E, QUESTION
from entity_transformers.report.page import MARKS, open_template, read_part
from entity_transformers.report.readme import Listed


def render_site(studies: Mapping[str, Listed], pages: Mapping[str, str]) -> str:
    """``pages``: by study where its page is, from where the index is. Nothing on the index is
    fetched from elsewhere.
    """
    return open_template("index.html").render(
        style=Markup(read_part("style.css")),
        script=Markup(read_part("page.js")),
        about=(GPT2E, QUESTION),
        studies=sorted(studies.items()),
        pages=pages,
        waiting=[(name, study) for name, study in sorted(studies.items()) if name not in pages],
        marks=list(MARKS),
    )
