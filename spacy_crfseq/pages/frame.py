"""The frame of a page: one document with its stylesheet, sections and tables; what is not `Markup` is escaped.

Shades mean the same in light and dark: the larger the value, the further its colour is from the paper.  `--full`,
`--tint` and `--heat` are the shares of a colour at the largest value: of a mark, of a token and of a cell.  They are
low enough for the ink to be read on it (WCAG AA), which tests check for both schemes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f26; --soft: #59616d; --line: #d5d9df; --grid: #e8eaee;
  --band: #f6f7f9; --s1: #0a66a8; --s2: #c2500a; --s3: #0c7c5c; --s4: #93518f; --s5: #8a6900; --s6: #4a5563;
  --pale: #b7cfe2; --wrong: #b3261e; --edge: rgb(0 0 0 / .3); --full: 1; --tint: .6; --heat: .7; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e6e8ec; --soft: #9aa3af; --line: #3a414b;
  --grid: #282d35; --band: #1b1f26; --s1: #6cb1ea; --s2: #f09257; --s3: #4fc09b; --s4: #d39bd0; --s5: #d4b043;
  --s6: #aab3bf; --pale: #2b4a63; --wrong: #ff9d94; --edge: rgb(170 190 215 / .5); --full: .35; --tint: .4;
  --heat: .45; } } * { box-sizing: border-box; } html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; letter-spacing: -.01em; }
h2 { font-size: 1.125rem; line-height: 1.3; margin: 0 0 .25rem; }
h3 { font-size: .9375rem; line-height: 1.3; margin: 1.5rem 0 .25rem; }
p { margin: .25rem 0 .75rem; max-width: 46rem; } a { color: var(--s1); } code { font-size: .9em; }
header { margin-bottom: 1.5rem; } .about, figcaption, .note { color: var(--soft); font-size: .875rem; }
section { border-top: 1px solid var(--line); padding: 1.25rem 0 .75rem; margin-top: 1rem; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1rem 2.5rem;
  align-items: start; } .columns > * { min-width: 0; } figure { margin: .75rem 0; }
figcaption { margin-bottom: .25rem; max-width: 46rem; }
.scroll { overflow-x: auto; margin: .5rem 0; scrollbar-width: thin; background-repeat: no-repeat;
  background-size: 2rem 100%, 2rem 100%, .75rem 100%, .75rem 100%; background-position: 0 0, 100% 0, 0 0, 100% 0;
  background-attachment: local, local, scroll, scroll; background-image:
  linear-gradient(90deg, var(--paper) 40%, transparent), linear-gradient(270deg, var(--paper) 40%, transparent),
  linear-gradient(90deg, var(--edge), transparent), linear-gradient(270deg, var(--edge), transparent); }
table { border-collapse: collapse; font-size: .875rem; line-height: 1.35; }
th, td { text-align: start; padding: .25rem .75rem; white-space: nowrap; }
th:first-child, td:first-child { padding-inline-start: 0; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); vertical-align: bottom; }
td { border-bottom: 1px solid var(--grid); vertical-align: top; } .number { text-align: end; }
td.prose { white-space: normal; min-width: 14rem; }
.facts { display: flex; flex-wrap: wrap; gap: .75rem 2.25rem; margin: .75rem 0; padding: 0; }
.facts div { min-width: 0; } .facts dt { color: var(--soft); font-size: .8125rem; }
.facts dd { margin: 0; font-size: 1.375rem; line-height: 1.25; font-weight: 600; letter-spacing: -.01em; }
.facts dd small { display: block; font-size: .8125rem; font-weight: 400; letter-spacing: 0; color: var(--soft); }
details > summary { cursor: pointer; color: var(--soft); font-size: .875rem; padding: .25rem 0; }
details:target > summary { color: var(--ink); font-weight: 600; }
details:target::details-content { content-visibility: visible; block-size: auto; }
nav ul { display: flex; flex-wrap: wrap; gap: .125rem 1rem; list-style: none; margin: 0 0 .5rem; padding: 0;
  font-size: .875rem; } nav li.name { color: var(--soft); min-width: 6rem; }
footer { border-top: 1px solid var(--line); margin-top: 1rem; padding-top: .75rem; }
svg.chart { display: block; width: 100%; height: auto; direction: ltr; overflow: visible;
  font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; } svg.chart text { fill: var(--ink); } svg.chart .soft { fill: var(--soft); }
svg.chart .mid { text-anchor: middle; } svg.chart .end { text-anchor: end; }
svg.chart .grid { stroke: var(--grid); stroke-width: 1; } svg.chart .axis { stroke: var(--soft); stroke-width: 1; }
svg.chart .ideal { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
svg.chart .whisker { stroke: var(--ink); stroke-width: 1.25; fill: none; }
svg.chart .curve { fill: none; stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }
svg.chart .dash { stroke-dasharray: 5 3; } svg.chart .hit { fill: transparent; }
svg.chart .faint circle:last-of-type { opacity: 0; } svg.chart .faint:hover circle:last-of-type { opacity: 1; }
svg.chart .whole { fill: var(--pale); } svg.chart .void { fill: var(--band); }
svg.chart .heat { opacity: var(--heat); } svg.chart text.small { font-size: 10px; }
svg.chart .cell:hover rect { stroke: var(--ink); stroke-width: 1.25; } svg.chart a text { text-decoration: underline; }
""" + "".join(
    f"svg.chart .l{i} {{ stroke: var(--s{i}); }}\nsvg.chart .f{i}, svg.chart text.f{i} {{ fill: var(--s{i}); }}\n"
    for i in range(1, 7)
)  # fmt: skip

PAGE = """<!DOCTYPE html>
<html lang="{lang}" dir="{direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{about}
</header>
<main>
{body}
</main>
{note}
</body>
</html>
"""


class Markup(str):
    """A string that is HTML; any other string is text and is escaped."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Return a text as HTML; `Markup` is returned unchanged."""
    return value if isinstance(value, Markup) else Markup(escape(value))


def page(
    title: str, body: str, *, about: str = "", note: str = "", lang: str = "en", direction: str = "ltr", style: str = ""
) -> str:
    """Return a complete document without external requests; the note is its footer."""
    head = {"lang": escape(lang), "direction": escape(direction), "title": escape(title), "style": STYLE + style}
    end = f"<footer>{_about(note)}</footer>" if note else ""
    return PAGE.format(**head, about=_about(about), body=body, note=end)


def section(title: str, body: str, about: str = "", *, anchor: str = "") -> Markup:
    """Return a section of a page with a heading and a sentence on how to read it."""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return Markup(f"<section{name}>\n<h2>{text(title)}</h2>\n{_about(about)}\n{body}\n</section>\n")


def contents(rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> Markup:
    """Return links (text, anchor) to parts of the page, in rows, each with an optional name."""
    lists = []
    for name, links in rows:
        items = [f'<li class="name">{text(name)}</li>'] if name else []
        items += [f'<li><a href="#{escape(anchor)}">{text(words)}</a></li>' for words, anchor in links]
        lists.append(f"<ul>{''.join(items)}</ul>")
    return Markup(f"<nav>{''.join(lists)}</nav>\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> Markup:
    """Return a table that scrolls sideways in a narrow window; `numeric` columns are right-aligned."""
    head = "".join(_cell("th", name, i in numeric) for i, name in enumerate(header))
    cells = ("".join(_cell("td", value, i in numeric) for i, value in enumerate(row)) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return Markup(
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n'
    )


def facts(entries: Sequence[tuple[str, ...]]) -> Markup:
    """Return a row of key figures: name, value, and optionally a note."""
    cells = []
    for name, value, *more in entries:
        note = f"<small>{text(more[0])}</small>" if more else ""
        cells.append(f"<div><dt>{text(name)}</dt><dd>{text(value)}{note}</dd></div>")
    return Markup(f'<dl class="facts">{"".join(cells)}</dl>\n')


def figure(chart: str, caption: str = "") -> Markup:
    """Return a chart (HTML) with a caption above it."""
    words = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return Markup(f"<figure>{words}{chart}</figure>\n")


def columns(*parts: str) -> Markup:
    """Return parts (HTML) side by side if the window is wide enough."""
    return Markup(f'<div class="columns">{"".join(f"<div>{part}</div>" for part in parts)}</div>\n')


def folded(summary: str, body: str, *, anchor: str = "") -> Markup:
    """Return a part (HTML) that opens with a click on its summary."""
    name = f' id="{escape(anchor)}"' if anchor else ""
    return Markup(f"<details{name}><summary>{text(summary)}</summary>\n{body}\n</details>\n")


def _about(words: str) -> str:
    return f'<p class="about">{text(words)}</p>' if words else ""


def _cell(tag: str, value: str, numeric: bool) -> str:
    kind = ' class="number"' if numeric else ""
    return f"<{tag}{kind}>{text(value)}</{tag}>"
