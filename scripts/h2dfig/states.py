# SPDX-License-Identifier: Apache-2.0
"""Figure 1: one copy from three states of a mapping, kernel by kernel, on a log scale."""
import statistics

import matplotlib.ticker as ticker

from . import style

COLUMNS = ["document", "panel", "group", "case", "size_bytes", "status", "n_count", "median_ms",
           "min_ms", "max_ms", "samples_ms", "windows", "timeout_ms"]
CELLS = {"ro-present": "ro_present", "rw-absent": "rw_absent", "rw-present": "rw_present"}


def _row(document, panel, group, case, size, samples_ms, **more):
    return {"document": document.name, "panel": panel, "group": group, "case": case, "size_bytes": size,
            "status": "ok", "n_count": len(samples_ms), "median_ms": statistics.median(samples_ms),
            "min_ms": min(samples_ms), "max_ms": max(samples_ms),
            "samples_ms": " ".join(f"{s:.6g}" for s in samples_ms), **more}


def _lab(document):
    for kernel in document["kernels"]:
        release = kernel.get("release") or kernel["request"]
        for cell in kernel["cells"]:
            case = CELLS.get(cell["state"])
            if case is None or cell["permission"] != "vma":
                continue
            group = f"{release}, {'shipped' if cell['driver'] == 'shipped' else cell['policy']}"
            if cell["status"] != "ok" or cell.get("elapsed_ns") is None:
                yield {"document": document.name, "panel": cell["filesystem"], "group": group,
                       "case": case, "size_bytes": cell["size_bytes"], "status": cell["status"]}
                continue
            window = cell.get("window") or {}
            yield _row(document, cell["filesystem"], group, case, cell["size_bytes"],
                       [cell["elapsed_ns"] / 1e6], windows=cell.get("windows"),
                       timeout_ms=window.get("timeout_ms"))


def _repro(document):
    release = document["environment"]["kernel"]["release"]
    device = document["device"]["name"]
    for cell in document["cells"]:
        case = CELLS.get(cell["cell"])
        if case is None:
            continue
        group = f"{release}, {device}, {style.mib(cell['size_bytes'])}"
        panel = document["source"]["filesystem"]
        if cell["state"] != "measured":
            yield {"document": document.name, "panel": panel, "group": group, "case": case,
                   "size_bytes": cell["size_bytes"], "status": cell["state"]}
            continue
        samples = [s["elapsed_ns"] / 1e6 for s in cell["samples"]]
        windows = [s["windows"] for s in cell["samples"] if s.get("windows") is not None]
        yield _row(document, panel, group, case, cell["size_bytes"], samples,
                   windows=statistics.median_low(windows) if windows else None,
                   timeout_ms=(document.get("window") or {}).get("timeout_ms"))


def _reference(document):
    for state in document.get("kernel_states", []):
        for case in style.CASES:
            value = state[case]
            if value is None:
                continue
            samples = value.get("values_ms") or sorted({value["min_ms"], value["max_ms"]})
            row = _row(document, "quoted", state["name"], case, state["size_bytes"], samples, timeout_ms=1000)
            if "values_ms" not in value:
                row["n_count"] = None  # a range is quoted, not how many runs it is of
            yield row


def rows(document):
    read = {"h2d.lab": _lab, "h2d.repro": _repro, "h2d.reference": _reference}.get(document.schema)
    return list(read(document)) if read else []


def _says(table):
    groups = {}
    for row in table:
        groups.setdefault((row["panel"], row["group"]), {})[row["case"]] = row
    parts = []
    for (panel, group), cases in groups.items():
        words = []
        for case, (label, _, _) in style.CASES.items():
            row = cases.get(case)
            if row is None:
                continue
            if row["status"] != "ok":
                words.append(f"{label} {style.status_words(row['status'])}")
                continue
            words.append(f"{label} {style.milliseconds(row['median_ms'])} ms")
        parts.append(f"{group} ({panel}): {', '.join(words)}.")
    return "Dots on a log scale of milliseconds, lower is better. " + " ".join(parts)


def _panel(axes, table, title, groups):
    offsets = {case: 0.25 * (i - 1) for i, case in enumerate(style.CASES)}
    for row in table:
        y = groups.index(row["group"]) + offsets[row["case"]]
        label, colour, marker = style.CASES[row["case"]]
        if row["status"] != "ok":
            axes.text(0.01, y, f"{label}: {style.status_words(row['status'])}", color=colour, fontsize=7,
                      va="center", transform=axes.get_yaxis_transform())
            continue
        axes.plot([row["min_ms"], row["max_ms"]], [y, y], color=colour, linewidth=2, solid_capstyle="round")
        axes.plot([row["median_ms"]], [y], marker=marker, color=colour, markersize=5, linestyle="none")
        text = style.milliseconds(row["median_ms"])
        if row["n_count"] is None and row["min_ms"] != row["max_ms"]:
            text = f"{row['min_ms']:g} to {row['max_ms']:g}"
        windows = f" · {row['windows']} windows" if row.get("windows") else ""
        axes.annotate(f"{text}{windows}", (row["max_ms"], y), xytext=(6, 0),
                      textcoords="offset points", fontsize=6.5, va="center", color=colour,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    axes.set_yticks(range(len(groups)), groups, fontsize=7)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title)
    axes.grid(axis="y", visible=False)
    for edge in range(1, len(groups)):
        axes.axhline(edge - 0.5, color="#EEEEEE", linewidth=0.8, zorder=0)


def _where(document, filesystem):
    """What a panel shows: a time under emulation is not one of a machine."""
    if document.quoted:
        return "published by others (quoted)"
    guests = document.get("kernels") or []
    emulated = any(k["guest"].get("accelerator") == "tcg" for k in guests if k.get("guest"))
    emulated |= "QEMU TCG" in " ".join(document.machine())
    return f"measured by h2d{' in emulated guests (TCG)' if emulated else ''}, {filesystem}"


def figure(documents):
    """One panel per document and file system, all on the same axis; None without such data."""
    table = [row for document in documents for row in rows(document)]
    if not table:
        return None
    panels = list(dict.fromkeys((row["document"], row["panel"]) for row in table))
    by_name = {d.name: d for d in documents}
    sizes = sorted({row["size_bytes"] for row in table})
    title = f"Time of one copy of {' and '.join(style.mib(s) for s in sizes)} by state of the mapping"

    def draw():
        contents = {p: list(dict.fromkeys(r["group"] for r in table if (r["document"], r["panel"]) == p))
                    for p in panels}
        lengths = [len(groups) for groups in contents.values()]
        figure, axes = style.canvas(1.4 + sum(0.55 * n + 0.35 for n in lengths), len(panels), sharex=True,
                                    height_ratios=[n + 0.4 for n in lengths])
        axes = axes[:, 0]
        for axis, panel in zip(axes, panels):
            mine = [row for row in table if (row["document"], row["panel"]) == panel]
            _panel(axis, mine, _where(by_name[panel[0]], panel[1]), contents[panel])
        values = [row[k] for row in table if row["status"] == "ok" for k in ("min_ms", "max_ms")]
        axes[0].set_xscale("log")
        timeouts = sorted({row["timeout_ms"] for row in table if row.get("timeout_ms")})
        if values:  # with the timeouts, also where no copy came near them
            axes[0].set_xlim(min(values) / 1.6, max(max(values) * 14, *(t * 4 for t in timeouts), 0))
        for axis in axes:
            for timeout in timeouts:
                axis.axvline(timeout, color=style.BLACK, linestyle=":", linewidth=1)
            axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
            axis.grid(axis="x", which="minor", color="#F0F0F0", linewidth=0.4)
        for timeout in timeouts:
            axes[0].annotate(f"timeout, {timeout} ms", (timeout, 1), xycoords=("data", "axes fraction"),
                             xytext=(3, 3), textcoords="offset points", fontsize=7)
        axes[-1].set_xlabel("milliseconds per copy, log scale (lower is better)")
        handles = [style.plt.Line2D([], [], color=c, marker=m, linestyle="none", label=label)
                   for case, (label, c, m) in style.CASES.items()
                   if any(row["case"] == case and row["status"] == "ok" for row in table)]
        if handles:
            figure.legend(handles=handles, loc="outside upper right", ncols=3)
        return figure

    return style.Figure("kernel-states", title, documents, COLUMNS, table, draw, _says(table))
