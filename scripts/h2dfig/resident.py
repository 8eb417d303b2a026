# SPDX-License-Identifier: Apache-2.0
"""Figure 3: what a load keeps in memory: anonymous pages, file pages and swap, over time."""
import re
import statistics

from . import ratios, style
from .documents import number

SERIES = ["document", "group", "path", "block", "time_ms", "rss_anon_mib", "rss_file_mib", "rss_shmem_mib",
          "swap_mib"]
PEAKS = ["document", "group", "path", "status", "peak_rss_anon_mib", "peak_rss_file_mib"]
KINDS = (("rss_anon", "anonymous", style.VERMILION, "//"), ("rss_file", "file", style.SKY, ""),
         ("rss_shmem", "shared", style.GREEN, ".."))
PHASES = ((style.ORANGE, "////"), (style.PURPLE, ""), (style.BLUE, "...."), (style.GREY, ""), (style.BLACK, "xxxx"))
STRIP = 0.08  # of a panel's height, at its top, above all that is memory
MIB = 1 << 20


def _middle(cell):
    """The sample whose time is the median one, of those that hold a series."""
    good = [s for s in cell["samples"] if s["status"] == "ok" and s.get("memory")
            and len(s["memory"]["series"]["time_ns"]) > 1]
    if not good:
        return None
    middle = statistics.median_low(number(s["load_ns"]) for s in good)
    return next(s for s in good if number(s["load_ns"]) == middle)


def _series_rows(document, cell, sample):
    series = sample["memory"]["series"]
    for i, time_ns in enumerate(series["time_ns"]):
        row = {"document": document.name, "group": ratios.group(cell["key"]),
               "path": ratios.label(cell["key"]), "block": sample["block"], "time_ms": time_ns / 1e6}
        for kind in ("rss_anon", "rss_file", "rss_shmem", "swap"):
            row[f"{kind}_mib"] = number(series[f"{kind}_bytes"][i]) / MIB
        yield row


def _phase_style(names, name):
    return PHASES[names.index(name) % len(PHASES)]


def _draw_panel(axis, rows, sample, size_mib, title, phases):
    times = [row["time_ms"] for row in rows]
    axis.stackplot(times, [[row[f"{kind}_mib"] for row in rows] for kind, *_ in KINDS],
                   colors=[colour for _, _, colour, _ in KINDS], linewidth=0)
    for (_, _, _, hatch), area in zip(KINDS, axis.collections):
        area.set_hatch(hatch)
        area.set_edgecolor("white")
    if any(row["swap_mib"] for row in rows):
        axis.plot(times, [row["swap_mib"] for row in rows], color=style.BLACK, linestyle=":", linewidth=1.2)
    axis.axhline(size_mib, color=style.BLACK, linestyle="--", linewidth=0.8)
    for phase in sample["phases"]:
        colour, hatch = _phase_style(phases, phase["name"])
        axis.axvspan(phase["begin_ns"] / 1e6, phase["end_ns"] / 1e6, ymin=1 - STRIP, facecolor=colour, hatch=hatch,
                     edgecolor="white", linewidth=0, zorder=5)
    axis.set_title(title, fontsize=8)
    axis.tick_params(labelsize=7)


def _legend(figure, table, phases):
    """Only what is drawn, below the title: a row of what the panels hold and rows of what the strips do."""
    def area(colour, hatch, label):
        return style.plt.Rectangle((0, 0), 1, 1, facecolor=colour, hatch=hatch, edgecolor="white", label=label)

    def words(text):
        return style.plt.Line2D([], [], linestyle="none", label=text)

    held = [area(c, h, label) for kind, label, c, h in KINDS if any(row[f"{kind}_mib"] for row in table)]
    held.append(style.plt.Line2D([], [], color=style.BLACK, linestyle="--", label="checkpoint's size"))
    if any(row["swap_mib"] for row in table):
        held.append(style.plt.Line2D([], [], color=style.BLACK, linestyle=":", label="swap"))
    rows = [[words("memory:"), *held]]
    strips = [area(*_phase_style(phases, name), name) for name in phases]
    for i in range(0, len(strips), 5):
        rows.append([words("" if i else "strip at the top, phase:"), *strips[i:i + 5]])
    columns = max(map(len, rows))
    # A legend is filled column by column. Its title keeps the line of the figure's title free.
    handles = [row[i] if i < len(row) else words("") for i in range(columns) for row in rows]
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, title=" ")


def _series_figure(document, name, cells):
    drawn, others = [], []
    for cell in cells:
        sample = _middle(cell)
        if sample:
            drawn.append((cell, sample, list(_series_rows(document, cell, sample))))
        elif cell["status"] != "skipped":
            others.append(f"{ratios.label(cell['key'])} ({style.status_words(cell['status'])})")
    if not drawn:
        return None
    sizes = {c["name"]: number(c["size_bytes"]) / MIB for c in document["checkpoints"]}
    table = [row for _, _, rows in drawn for row in rows]
    phases = list(dict.fromkeys(phase["name"] for _, sample, _ in drawn for phase in sample["phases"]))
    highest = max([sizes[cell["key"]["checkpoint"]] for cell, _, _ in drawn]
                  + [max(row["swap_mib"], sum(row[f"{kind}_mib"] for kind, *_ in KINDS)) for row in table])
    title = f"Resident set: {name}"
    says = "Areas over time, of the sample with the median time. " + " ".join(
        f"{ratios.label(cell['key'])}: at most {max(r['rss_anon_mib'] for r in rows):.0f} MiB anonymous and "
        f"{max(r['rss_file_mib'] for r in rows):.0f} MiB of the file." for cell, _, rows in drawn)
    if phases:
        says += f" A strip at the top shows the phases {', '.join(phases)}, where a loader tells them."
    if others:
        says += f" Not drawn: {', '.join(others)}."

    def draw():
        columns = min(4, len(drawn))
        lines = -(-len(drawn) // columns)
        figure, axes = style.canvas(1.5 + 1.7 * lines, lines, columns, sharey=True)
        for axis in axes.flat[len(drawn):]:
            axis.set_visible(False)
        for axis, (cell, sample, rows) in zip(axes.flat, drawn):
            _draw_panel(axis, rows, sample, sizes[cell["key"]["checkpoint"]], ratios.label(cell["key"]), phases)
        axes.flat[0].set_ylim(0, 1.05 * highest / (1 - STRIP))
        for axis in axes[:, 0]:
            axis.set_ylabel("MiB", fontsize=8)
        for axis in list(axes.flat)[max(0, len(drawn) - columns):len(drawn)]:
            axis.set_xlabel("ms from the start", fontsize=7)
        _legend(figure, table, phases)
        return figure

    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return style.Figure(f"resident-{slug}", title, [document], SERIES, table, draw, says,
                        f"Not drawn: {', '.join(others)}." if others else "")


def _peak_rows(document):
    if document.schema == "h2d.load":
        memory = document["memory"]
        if memory.get("peak_rss_anon_bytes") is None:
            return
        yield {"document": document.name, "group": document["device"]["name"],
               "path": document["path"]["used"], "status": "ok",
               "peak_rss_anon_mib": number(memory["peak_rss_anon_bytes"]) / MIB,
               "peak_rss_file_mib": number(memory["peak_rss_file_bytes"]) / MIB}
    for row in document.get("resident_peaks", []) if document.schema == "h2d.reference" else []:
        yield {"document": document.name, "group": f"{row['model']}, {row['cache']}, {row['kernel']}",
               "path": row["path"], "status": "ok", "peak_rss_anon_mib": row["peak_rss_anon_mib"],
               "peak_rss_file_mib": row["peak_rss_file_mib"]}


def _peak_figure(documents):
    table = [row for document in documents for row in _peak_rows(document)]
    if not table:
        return None
    title = "Peak resident set of the loading process"
    says = "Bars from zero. " + " ".join(
        f"{r['group']}, {r['path']}: {r['peak_rss_anon_mib']:.0f} MiB anonymous, "
        + (f"{r['peak_rss_file_mib']:.0f} MiB of the file." if r["peak_rss_file_mib"] is not None
           else "file pages not known.") for r in table)

    def draw():
        figure, ((axis,),) = style.canvas(1.3 + 0.3 * len(table))
        places = range(len(table))
        anon = [row["peak_rss_anon_mib"] for row in table]
        axis.barh(places, anon, color=style.VERMILION, hatch="//", edgecolor="white", label="anonymous")
        axis.barh(places, [row["peak_rss_file_mib"] or 0 for row in table], left=anon, color=style.SKY,
                  edgecolor="white", label="file")
        for y, row in zip(places, table):
            text = f"{row['peak_rss_anon_mib']:.0f} + "
            text += "not known" if row["peak_rss_file_mib"] is None else f"{row['peak_rss_file_mib']:.0f}"
            axis.annotate(text, (row["peak_rss_anon_mib"] + (row["peak_rss_file_mib"] or 0), y), xytext=(4, 0),
                          textcoords="offset points", va="center", fontsize=7)
        axis.set_yticks(places, [f"{row['group']}: {row['path']}" for row in table], fontsize=7)
        axis.set_ylim(len(table) - 0.5, -0.5)
        axis.margins(x=0.15)
        axis.set_xlim(left=0)
        axis.set_xlabel("MiB at the peak of each kind (the two peaks need not be at one time)")
        figure.legend(loc="outside upper right", ncols=2)
        return figure

    return style.Figure("resident-peaks", title, documents, PEAKS, table, draw, says)


def figures(documents):
    """One figure per group of a campaign's cells, and one of peaks where only those are known."""
    found = []
    for document in documents:
        if document.schema != "h2d.bench":
            continue
        groups = {}
        for cell in document["cells"]:
            groups.setdefault(ratios.group(cell["key"]), []).append(cell)
        found += [_series_figure(document, name, cells) for name, cells in groups.items()]
    found.append(_peak_figure([d for d in documents if d.schema != "h2d.bench"]))
    return [figure for figure in found if figure]
