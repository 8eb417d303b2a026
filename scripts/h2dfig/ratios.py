# SPDX-License-Identifier: Apache-2.0
"""Figure 2: speed of each path against the baseline, and the times themselves."""
import matplotlib.ticker as ticker

from . import style, verdicts
from .documents import number

RATIO_COLUMNS = ["document", "group", "path", "status", "reason", "baseline", "n_count", "speedup",
                 "min", "max", "ci_low", "ci_high", "samples"]
TIME_COLUMNS = ["document", "group", "path", "status", "reason", "n_count", "median_s", "min_s", "max_s",
                "ci_low_s", "ci_high_s", "cache_before_pct_min", "cache_before_pct_max", "samples_s"]


def label(key):
    """A cell's path as the reader knows it: the loader's name where it is not ours."""
    name = key["path"] if key["loader"] == "h2d" else key["loader"]
    options = [f"{k} {v}" for k, v in sorted(key["options"].items())] if key["loader"] == "h2d" else []
    return " ".join([name] + options)


def group(key):
    words = [key["checkpoint"], key["cache"]]
    if key["device"] != "host":
        words.append(key["device"])
    if key.get("present"):
        words.append(f"present {key['present']}")
    if key.get("memory_max_bytes"):
        words.append(f"limit {style.mib(number(key['memory_max_bytes']))}")
    return ", ".join(words)


def _bench_ratios(document):
    cells = {cell["id"]: cell for cell in document["cells"]}
    ratios = {ratio["id"]: ratio for ratio in document["ratios"]}
    baselines = {ratio["baseline_id"] for ratio in document["ratios"]}
    ours = {group(c["key"]) for c in document["cells"] if c["key"]["loader"] == "h2d" and c["status"] == "ok"}
    for cell_id, cell in cells.items():
        row = {"document": document.name, "group": group(cell["key"]), "path": label(cell["key"]),
               "status": cell["status"], "reason": cell.get("reason"),
               "beside": cell["key"]["loader"] != "h2d" and cell["status"] == "ok" and group(cell["key"]) in ours}
        ratio = ratios.get(cell_id)
        if ratio and ratio["speedup"]["n_count"]:
            spread = ratio["speedup"]
            low, high = verdicts.interval(spread["ci_low"], spread["ci_high"], spread["n_count"])
            row |= {"baseline": label(cells[ratio["baseline_id"]]["key"]), "n_count": spread["n_count"],
                    "speedup": spread["median"], "min": spread["min"], "max": spread["max"],
                    "ci_low": low, "ci_high": high,
                    "samples": " ".join(f"{s:.6g}" for s in spread["samples"])}
        elif cell_id in baselines and cell["status"] == "ok":
            row |= {"baseline": row["path"], "n_count": cell["statistics"]["n_count"], "speedup": 1.0}
        elif cell["status"] == "ok":
            row |= {"reason": "no pairs with a baseline"}
        yield row


def _figures_ratios(document):
    for entry in document["figures"]:
        if entry["unit"] != "ratio":
            continue
        yield {"document": document.name, "group": "against what each names", "path": entry["name"],
               "status": "ok", "baseline": entry["against"], "n_count": entry["n_count"],
               "speedup": entry["median"], "min": entry["min"], "max": entry["max"],
               "samples": " ".join(f"{s:.6g}" for s in entry["samples"])}


def _reference_ratios(document):
    rows = document.get("load_times", [])
    keys = ("kernel", "model", "cache", "scope")
    base = {tuple(r[k] for k in keys): r for r in rows if r["path"] == "baseline"}
    for row in rows:
        mine = base.get(tuple(row[k] for k in keys), {})
        where = f"{row['model']}, {row['cache'].replace('_', ' ')}, {row['kernel']}"
        if row["scope"] == "end_to_end":
            where += ", end to end"
        out = {"document": document.name, "group": where, "path": row["path"], "status": row["status"],
               "baseline": "baseline"}
        if row["status"] == "ok" and "median_s" in mine:
            out["speedup"] = mine["median_s"] / row["median_s"]
        yield out


RATIOS = {"h2d.bench": _bench_ratios, "h2d.figures": _figures_ratios, "h2d.reference": _reference_ratios}


def ratio_rows(document):
    read = RATIOS.get(document.schema)
    return list(read(document)) if read else []


def time_rows(document):
    if document.schema != "h2d.bench":
        return []
    table = []
    for cell in document["cells"]:
        row = {"document": document.name, "group": group(cell["key"]), "path": label(cell["key"]),
               "status": cell["status"], "reason": cell.get("reason")}
        good = [s for s in cell["samples"] if s["status"] == "ok"]
        if cell["status"] == "ok" and "statistics" in cell:
            s = cell["statistics"]
            row |= {"n_count": s["n_count"]}
            row |= {f"{k}_s": number(s[f"{k}_ns"]) / 1e9 for k in ("median", "min", "max")}
            row |= zip(("ci_low_s", "ci_high_s"), verdicts.interval(
                *(number(s[f"{k}_ns"]) / 1e9 for k in ("ci_low", "ci_high")), s["n_count"]))
            row["samples_s"] = " ".join(f"{number(x['load_ns']) / 1e9:.6g}" for x in good)
        proof = [s["page_cache"]["before_pct"] for s in good if s["page_cache"]["before_pct"] is not None]
        if proof:
            row |= {"cache_before_pct_min": min(proof), "cache_before_pct_max": max(proof)}
        table.append(row)
    return table


PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # labels stay legible over lines


def lay_out(table):
    """Groups in order, each a heading and its rows, from the top."""
    y, places, headings = 0, [], []
    for name in dict.fromkeys(row["group"] for row in table):
        headings.append((y, name))
        y += 1
        for row in table:
            if row["group"] == name:
                places.append((y, row))
                y += 1
        y += 0.4
    return y, places, headings


def frame(axis, height, places, headings):
    axis.set_ylim(height - 0.5, -0.7)
    axis.set_yticks([y for y, _ in places], [row["path"][:70] for _, row in places], fontsize=7)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    for y, name in headings:
        axis.text(0.006, y, name, transform=axis.get_yaxis_transform(), fontsize=8, fontweight="bold", va="center",
                  bbox=PAPER)


def not_drawn(axis, y, row):
    words = style.status_words(row["status"]) if row["status"] != "ok" else row.get("reason") or "no value"
    if row["status"] != "ok" and row.get("reason"):
        words += f": {row['reason'][:90]}"
    axis.text(0.01, y, words, transform=axis.get_yaxis_transform(), fontsize=7, va="center", style="italic",
              color="#555555")


def _ratio_says(table):
    parts = []
    for row in table:
        if row.get("speedup") is None:
            parts.append(f"{row['group']}, {row['path']}: {style.status_words(row['status'])}.")
        elif row["path"] != row.get("baseline"):
            spread = f" ({row['min']:.2f} to {row['max']:.2f}, n={row['n_count']})" if row.get("min") else ""
            if "ci_low" in row and not verdicts.sure(row):  # figures of scripts have bounds, no interval
                spread += f", {verdicts.FEW}"
            parts.append(f"{row['group']}, {row['path']}: {row['speedup']:.2f} times{spread}.")
    return "Speed against the baseline on a log scale, above 1 is faster. " + " ".join(parts)


def ratio_figure(documents):
    table = [row for document in documents for row in ratio_rows(document)]
    # Excluded by the matrix, or told by the figure of other loaders: only in the table.
    shown = [row for row in table if row["status"] != "skipped" and not row.get("beside")]
    if not any(row.get("speedup") is not None and row["path"] != row.get("baseline") for row in shown):
        return None
    title = "Speed of each path against the baseline"
    if all(d.schema == "h2d.figures" for d in documents):
        title = "Ratios, each against what it names"

    def draw():
        height, places, headings = lay_out(shown)
        figure, ((axis,),) = style.canvas(1.1 + 0.19 * height)
        for y, row in places:
            if row.get("speedup") is None:
                not_drawn(axis, y, row)
                continue
            colour, marker = style.path_style(row["path"].split()[0])
            text = f"{row['speedup']:.2f}×"
            right = row["speedup"]
            if row.get("min") is not None:
                axis.plot([row["min"], row["max"]], [y, y], color=colour, linewidth=1)
                right = row["max"]
                text += f"  n={row['n_count']}"
            if verdicts.sure(row):
                axis.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=3.5, alpha=0.5)
            axis.plot([row["speedup"]], [y], marker=marker, color=colour, markersize=5)
            axis.annotate(text, (right, y), xytext=(6, 0), textcoords="offset points", fontsize=6.5, va="center",
                          bbox=PAPER)
        axis.set_xscale("log", base=2)
        values = [row[k] for row in table for k in ("speedup", "min", "max") if row.get(k)]
        reach = max(max(values), 1 / min(values), 1.5)
        axis.set_xlim(1 / reach / 1.3, reach * 1.6)
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
        axis.axvline(1, color=style.BLACK, linewidth=1)
        frame(axis, height, places, headings)
        words = "times as fast as the baseline, log scale (higher is better)"
        if any(row.get("min") is not None for row in shown):
            words += "; thin line: lowest to highest" + (
                ", thick: 95 % interval of the median" if any(verdicts.sure(row) for row in shown) else "")
        axis.set_xlabel(words, fontsize=8)
        return figure

    return style.Figure("path-ratios", title, documents, RATIO_COLUMNS, table, draw, _ratio_says(shown))


def time_figure(documents):
    table = [row for document in documents for row in time_rows(document)]
    drawn = [row for row in table if row.get("median_s") is not None]
    shown = [row for row in table if row["status"] != "skipped"]
    if not drawn:
        return None
    title = "Time of each load, every sample"
    says = "Dots are single loads, the bar their median; lower is better. " + " ".join(
        f"{r['group']}, {r['path']}: " + (f"{r['median_s']:.3g} s (n={r['n_count']})." if r in drawn
                                          else f"{style.status_words(r['status'])}.") for r in shown)

    def draw():
        height, places, headings = lay_out(shown)
        figure, ((axis,),) = style.canvas(1.1 + 0.19 * height)
        for y, row in places:
            if row.get("median_s") is None:
                not_drawn(axis, y, row)
                continue
            colour, marker = style.path_style(row["path"].split()[0])
            samples = [float(s) for s in row["samples_s"].split()]
            if len(samples) <= 20:
                axis.plot(samples, [y + 0.07 * (i % 5 - 2) for i in range(len(samples))], marker=marker,
                          color=colour, linestyle="none", markersize=3, alpha=0.6)
            axis.plot([row["min_s"], row["max_s"]], [y, y], color=colour, linewidth=0.8)
            axis.plot([row["median_s"]] * 2, [y - 0.35, y + 0.35], color=colour, linewidth=2)
            axis.annotate(f"{row['median_s']:.3g} s  n={row['n_count']}", (row["max_s"], y), xytext=(6, 0),
                          textcoords="offset points", fontsize=6.5, va="center")
        highest = max(row["max_s"] for row in drawn)
        axis.set_xlim(0, highest * 1.2)
        frame(axis, height, places, headings)
        axis.set_xlabel("seconds (lower is better)")
        return figure

    return style.Figure("load-times", title, documents, TIME_COLUMNS, table, draw, says)
