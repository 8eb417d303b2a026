# SPDX-License-Identifier: Apache-2.0
"""h2d against other loaders on the same files: paired by block, with the interval of the median."""
import random
import statistics

import matplotlib.ticker as ticker

from . import ratios, style, verdicts
from .documents import number

COLUMNS = ["document", "group", "peer", "version", "status", "reason", "h2d_path", "chosen", "n_count",
           "ratio", "ci_low", "ci_high", "min", "max", "peer_median_s", "h2d_median_s", "verdict", "samples"]
RESAMPLES = 2000
COLOURS = {"h2d is faster": style.BLUE, "the other is faster": style.VERMILION}


def interval(values):
    """95 % of the medians of resamples; the same for the same values."""
    if len(values) < 2:
        return min(values), max(values)
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def _times(cell):
    return {s["block"]: number(s["load_ns"]) for s in cell["samples"] if s["status"] == "ok"}


def _group(key):
    return ratios.group(key)


def _compared(row, peer, ours):
    """The row filled in with the pairs of two cells."""
    a, b = _times(peer), _times(ours)
    samples = [a[block] / b[block] for block in sorted(a.keys() & b.keys())]
    if not samples:
        return row | {"reason": "no block holds both"}
    low, high = verdicts.interval(*interval(samples), len(samples))
    row |= {"n_count": len(samples), "ratio": statistics.median(samples), "ci_low": low, "ci_high": high}
    verdict = verdicts.verdict(row, "h2d is faster", "the other is faster", "no difference shown")
    return row | {"min": min(samples), "max": max(samples), "verdict": verdict,
                  "peer_median_s": statistics.median(a.values()) / 1e9,
                  "h2d_median_s": statistics.median(b.values()) / 1e9,
                  "samples": " ".join(f"{s:.6g}" for s in samples)}


def rows(document):
    """Every other loader against h2d's default and against the path that came out fastest."""
    if document.schema != "h2d.bench":
        return []
    table = []
    cells = document["cells"]
    for peer in (c for c in cells if c["key"]["loader"] != "h2d"):
        group = _group(peer["key"])
        version = next((s["adapter"]["version"] for s in peer["samples"] if s.get("adapter")), None)
        row = {"document": document.name, "group": group, "peer": peer["key"]["loader"], "version": version,
               "status": peer["status"], "reason": peer.get("reason")}
        ours = [c for c in cells if c["key"]["loader"] == "h2d" and c["status"] == "ok"
                and _group(c["key"]) == group]
        if peer["status"] != "ok" or not ours:
            table.append(row)
            continue
        best = min(ours, key=lambda c: number(c["statistics"]["median_ns"]))
        default = next((c for c in ours if ratios.label(c["key"]) == "auto"), None)
        for chosen, cell in (("default", default), ("fastest", best)):
            if cell is not None and not (chosen == "fastest" and cell is default):
                table.append(_compared(row | {"h2d_path": ratios.label(cell["key"]), "chosen": chosen}, peer, cell))
    return table


def sentence(row):
    if row.get("ratio") is None:
        why = f": {row['reason']}" if row.get("reason") else ""
        return f"{row['group']}: {row['peer']}: {style.status_words(row['status'])}{why}."
    opposite = verdicts.contradiction(row["ratio"], row["h2d_median_s"], row["peer_median_s"])
    return (f"{row['group']}: {row['peer']} {row['version']} takes {row['ratio']:.2f} times as long as h2d "
            f"{row['h2d_path']} ({verdicts.spread(row)}): {row['verdict']}{opposite}.")


def figure(documents):
    table = [row for document in documents for row in rows(document)]
    # Cells that only say that a loader does not read a format are in the table, not in the figure.
    drawn = [row for row in table if row.get("ratio") is not None or row["status"] != "skipped"]
    if not any(row.get("ratio") is not None for row in table):
        return None
    title = "Other loaders against h2d"

    def draw():
        height, places, headings = ratios.lay_out([
            row | {"path": f"{row['peer']} / h2d {row.get('h2d_path', '')}"} for row in drawn])
        figure, ((axis,),) = style.canvas(1.1 + 0.19 * height)
        values = [1.0]
        for y, row in places:
            if row.get("ratio") is None:
                ratios.not_drawn(axis, y, row)
                continue
            colour = COLOURS.get(row["verdict"], style.GREY)
            marker = "o" if row["chosen"] == "default" else "D"
            axis.plot([row["min"], row["max"]], [y, y], color=colour, linewidth=1)
            if verdicts.sure(row):
                axis.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=3.5, alpha=0.5)
            axis.plot([row["ratio"]], [y], marker=marker, color=colour, markersize=5)
            axis.annotate(f"{row['ratio']:.2f}×  n={row['n_count']}", (row["max"], y), xytext=(6, 0),
                          textcoords="offset points", fontsize=6.5, va="center", bbox=ratios.PAPER)
            values += [row["min"], row["max"]]
        axis.set_xscale("log", base=2)
        axis.set_xlim(min(values) / 1.15, max(values) * 1.5)
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axis.axvline(1, color=style.BLACK, linewidth=1)
        ratios.frame(axis, height, places, headings)
        thick = ", thick: 95 % interval of the median" if any(map(verdicts.sure, drawn)) else ""
        axis.set_xlabel("time of the other loader / time of h2d, log scale. Right of 1 h2d is faster, left of it the "
                        f"other;\nthin line: lowest to highest pair{thick}", fontsize=8)
        seen = {COLOURS.get(row["verdict"], style.GREY) for row in drawn if row.get("ratio") is not None}
        handles = [style.plt.Line2D([], [], color=c, marker="o", linestyle="none", label=label) for c, label in
                   ((style.BLUE, "h2d is faster"), (style.VERMILION, "the other is faster"),
                    (style.GREY, "neither shown")) if c in seen]
        figure.legend(handles=handles, loc="outside upper right", ncols=3)
        return figure

    says = " ".join(sentence(row) for row in drawn)
    return style.Figure("peers", title, documents, COLUMNS, table, draw, says)
