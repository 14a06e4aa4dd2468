"""The drawn steps: what reads what, and boxes that no arrow runs behind."""

from __future__ import annotations

import re

from entity_transformers.report.dag import draw_dag, link_steps, place_steps
from entity_transformers.study.steps import METHOD, STEPS


def test_links_reach_what_each_step_reads_and_no_more() -> None:
    links = link_steps(METHOD)

    def reach(name: str) -> set[str]:
        return links[name].union(*(reach(other) for other in links[name]))

    for name in METHOD:
        reads = set(METHOD) - {name} if STEPS[name].summary else {*STEPS[name].reads} & {*METHOD}
        assert links[name] <= reads <= reach(name)
        for link in links[name]:  # none that another way gives
            assert not any(link in reach(other) for other in links[name] - {link})
    assert links["lm"] == {"corpus"}
    assert "lm" not in links["report"]


def test_boxes_stand_apart_and_to_the_right_of_what_they_read() -> None:
    for steps in (METHOD, ("corpus", "lm", "perplexity", "report"), tuple(STEPS)):
        links = link_steps(steps)
        places = place_steps(links)
        assert len(set(places.values())) == len(steps)
        for name, found in links.items():
            assert all(places[other][0] < places[name][0] for other in found)
            for other in found:  # the arrow runs level in its target's row
                between = range(places[other][0] + 1, places[name][0])
                assert not {(column, places[name][1]) for column in between} & {*places.values()}


def test_the_drawing_names_links_and_marks() -> None:
    svg = draw_dag(("corpus", "lm", "perplexity", "report"), {"lm"}, {"perplexity"})
    assert re.findall(r">(\w+)</text>", svg) == ["corpus", "lm", "perplexity", "report"]
    assert svg.count('<a href="#step-lm">') == svg.count("<a ") == 1
    assert svg.count('class="absent"') == 1
    assert svg.count("<path d=") == 4  # three arrows, and their head
    assert draw_dag((), (), ()) == ""
