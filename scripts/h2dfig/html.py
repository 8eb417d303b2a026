# SPDX-License-Identifier: Apache-2.0
"""One HTML file per results file: no script, nothing fetched, every figure and its data inside."""
import base64
import html
import json
import re

from . import catalogue, meaning

CSS = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #ccc; --soft: #f4f4f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; --line: #444; --soft: #222; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .7rem .25rem 0; text-align: left;
  vertical-align: top; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; } figure img { width: 100%; height: auto; background: #fff; }
figcaption, .small { font-size: .85rem; } .quoted, .bad { border-left: .3rem solid #D55E00; padding-left: .8rem; }
.good { border-left: .3rem solid #0072B2; padding-left: .8rem; }
details { margin: .8rem 0; } pre { background: var(--soft); padding: .8rem; overflow: auto; max-height: 30rem;
  font-size: .75rem; } code { font-size: .85em; }
a { color: inherit; }
"""


def escape(value):
    return html.escape(str(value), quote=True)


def prose(text):
    """Text for a reader: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def table(columns, rows):
    head = "".join(f"<th scope=\"col\">{escape(c)}</th>" for c in columns)
    body = []
    for row in rows:
        cells = []
        for value in row:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            shown = f"{value:.4g}" if isinstance(value, float) else "" if value is None else value
            cells.append(f"<td{' class=n' if number else ''}>{prose(shown)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def flat(node, prefix=""):
    """Members of an environment as name and value; what is unknown with its reason."""
    for key, value in node.items():
        if key.endswith("_why"):
            continue
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, name + ".")
        elif isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            for i, item in enumerate(value):
                yield from flat(item, f"{name}[{i}].")
        elif value is None:
            yield name, f"unknown: {node.get(key + '_why', 'no reason given')}"
        elif isinstance(value, list):
            yield name, ", ".join(map(str, value))
        else:
            yield name, value


def data_uri(kind, data):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture(figure):
    svg, _ = figure.render()
    csv = figure.csv()
    rows = [[row.get(c) for c in figure.columns] for row in figure.rows]
    shown = table(figure.columns, rows[:400])
    cut = f"<p>The first 400 of {len(rows)} rows.</p>" if len(rows) > 400 else ""
    return f"""<figure id="{escape(figure.name)}">
<img src="{data_uri('image/svg+xml', svg.encode())}" alt="{escape(figure.alt().strip())}">
<figcaption><strong>{escape(figure.title)}.</strong>
<a download="{escape(figure.name)}.csv" href="{data_uri('text/csv', csv.encode())}">Data as CSV</a></figcaption>
<details><summary>The same as a table</summary>{cut}{shown}</details>
</figure>"""


def paragraphs(lines):
    return "".join(f"<p class=\"{kind}\">{prose(text)}</p>" if kind else f"<p>{prose(text)}</p>"
                   for kind, text in lines)


def report(document):
    """The whole page as text."""
    told = meaning.of(document)
    figures = catalogue.figures([document])
    sections = [f"<h2>What was measured</h2>{paragraphs(told.what)}",
                f"<h2>What it means</h2>{paragraphs(told.means)}"]
    if told.columns:
        sections.append(f"<h2>Results</h2>{table(told.columns, told.rows)}")
    sections.append(f"<h2>How sure it is</h2>{paragraphs(told.sure)}")
    if figures:
        sections.append("<h2>Figures</h2>" + "".join(picture(f) for f in figures))
    known = list(flat(document["environment"]))
    short = [line for line in document.machine() if line]
    sections.append(f"<h2>On what</h2><p>{escape(' · '.join(short))}</p>"
                    f"<details><summary>The whole environment ({len(known)} entries)</summary>"
                    f"{table(['what', 'value'], known)}</details>")
    text = json.dumps(document.json, indent=1, ensure_ascii=False)
    if len(text) < 1 << 20:
        sections.append(f"<h2>The document</h2><details><summary>{escape(document.name)}, "
                        f"{len(text)} characters</summary><pre>{escape(text)}</pre></details>")
    foot = "<br>".join(escape(line) for line in document.provenance())
    body = "\n".join(sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{escape(told.title)}</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<h1>{escape(told.title)}</h1>
{paragraphs(told.head)}
{body}
<hr><p class="small">{foot}</p>
</body>
</html>
"""
