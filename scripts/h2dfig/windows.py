# SPDX-License-Identifier: Apache-2.0
"""Figure 4: how many copies took how many whole timeouts, and windows against spans."""
import matplotlib.ticker as ticker

from . import style

COLUMNS = ["document", "what", "size_bytes", "elapsed_ms", "windows", "expected_windows",
           "expected_max_windows", "by_bytes_windows", "bin_ms", "bin"]
SPAN = 2 << 20


def _bin(window):
    """1000 ms, or the length of a window where the timeout was made another."""
    timeout = (window or {}).get("timeout_ms") or 1000
    return 1000 if timeout == 1000 else timeout + (window.get("jiffy_ms") or 0)


def _lab(document):
    for kernel in document["kernels"]:
        for cell in kernel["cells"]:
            if cell["status"] != "ok" or cell.get("elapsed_ns") is None:
                continue
            waits = cell["permission"] == "vma" and cell["state"] == "rw-present"
            stale = cell.get("policy") == "stale" or (
                cell["driver"] == "shipped" and kernel["verdict"].get("retry_policy") == "stale")
            yield {"what": f"{kernel.get('release')}, {cell['filesystem']}, {cell['state']}",
                   "size_bytes": cell["size_bytes"], "elapsed_ms": cell["elapsed_ns"] / 1e6,
                   "windows": cell.get("windows"),
                   "expected_windows": cell["present_span_count"] if waits and stale else 0,
                   "by_bytes_windows": cell["present_before_bytes"] / SPAN if waits and stale else 0,
                   "bin_ms": _bin(cell.get("window"))}


def never_waits(document):
    """Copies of this device do not come to where a driver could wait, so nothing is predicted."""
    return document["verdict"]["value"] == "not_applicable"


def _repro(document):
    bin_ms = _bin(document.get("window"))
    never = never_waits(document)
    for cell in document["cells"]:
        for sample in cell.get("samples", []):
            yield {"what": cell["cell"], "size_bytes": cell["size_bytes"],
                   "elapsed_ms": sample["elapsed_ns"] / 1e6, "windows": sample.get("windows"),
                   "expected_windows": None if never else sample.get("expected_windows"),
                   "by_bytes_windows": None if never else
                   cell["present_bytes"] / SPAN if sample.get("expected_windows") else 0,
                   "bin_ms": bin_ms}


def _law(document):
    bin_ms = _bin(document["window"])
    for row in document["rows"]:
        measured = row.get("measured") or {}
        copies = measured.get("copies", [])
        if not copies:
            continue
        predicted = {"expected_windows": row["predicted"]["by_law_min"],
                     "expected_max_windows": row["predicted"]["by_law_max"],
                     "by_bytes_windows": row["predicted"]["by_bytes"]}
        for copy in copies:
            yield {"what": row["row"], "size_bytes": row["source"]["size_bytes"],
                   "elapsed_ms": copy["elapsed_ns"] / 1e6, "windows": copy.get("windows"),
                   **(predicted if len(copies) == 1 else {}), "bin_ms": bin_ms}
        if len(copies) > 1:  # the prediction is of all of them
            yield {"what": f"{row['row']}, together", "size_bytes": row["source"]["size_bytes"],
                   "windows": measured.get("windows"), **predicted}


def _tensors(document):
    for tensor in document.get("tensors", []):
        yield {"what": tensor["name"], "size_bytes": tensor["size_bytes"],
               "elapsed_ms": tensor["elapsed_ns"] / 1e6, "windows": tensor.get("windows"), "bin_ms": 1000}


def _reference(document):
    for copy in document.get("copies", []):
        yield {"what": copy.get("case", copy["kernel"]), "size_bytes": copy["size_bytes"],
               "elapsed_ms": copy["elapsed_ms"], "windows": copy.get("windows"),
               "by_bytes_windows": copy["size_bytes"] / SPAN, "bin_ms": 1000}


READERS = {"h2d.lab": _lab, "h2d.repro": _repro, "h2d.window-law": _law, "h2d.load": _tensors,
           "h2d.reference": _reference}


def rows(document):
    table = []
    for row in READERS.get(document.schema, lambda d: ())(document):
        row["document"] = document.name
        if "elapsed_ms" in row:
            row["bin"] = int(row["elapsed_ms"] // row["bin_ms"])
        table.append(row)
    return table


def _jitter(count):
    """Deterministic: equal points side by side."""
    return [0.12 * (i % 5 - 2) for i in range(count)]


def _histogram(axis, table, bin_ms, lengths):
    bins = {}
    for row in table:
        if row["bin_ms"] == bin_ms or lengths == [1000]:
            number = int(row["elapsed_ms"] // bin_ms)
            bins[number] = bins.get(number, 0) + 1
    numbers = sorted(bins)
    apart = numbers[-1] > 40  # too far apart to draw to scale: only bins that hold copies
    places = range(len(numbers)) if apart else numbers
    axis.bar(places, [bins[n] for n in numbers], width=0.8, color=style.BLUE)
    for x, n in zip(places, numbers):
        axis.annotate(str(bins[n]), (x, bins[n]), xytext=(0, 2), textcoords="offset points", ha="center",
                      fontsize=7)
    if apart:
        axis.set_xticks(places, [str(n) for n in numbers], fontsize=6, rotation=90)
    else:
        axis.set_xlim(numbers[0] - 1, numbers[-1] + 1)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_xlabel(f"bin of {bin_ms:g} ms, from 0" + (", empty ones left out" if apart else ""), fontsize=8)
    axis.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axis.set_ylabel("copies")
    axis.set_title("How long copies took")
    axis.set_ylim(0, max(bins.values()) * 1.12)
    axis.grid(axis="x", visible=False)


def _range(row):
    """Fewest and most windows that are predicted; None: no upper bound."""
    return row["expected_windows"], row.get("expected_max_windows", row["expected_windows"])


def _agrees(row):
    low, high = _range(row)
    return low <= row["windows"] and (high is None or row["windows"] <= high)


def _scatter(axis, table):
    top = 1
    points = [row for row in table if row.get("expected_windows") is not None]
    for good, label, colour, marker in ((True, "spans, by the law", style.BLUE, "o"),
                                        (False, "the same, not as predicted", style.VERMILION, "s")):
        mine = [row for row in points if _agrees(row) == good]
        for i, (row, shift) in enumerate(zip(mine, _jitter(len(mine)))):
            low, high = _range(row)
            high = max(low, row["windows"]) if high is None else high
            y = row["windows"] + shift
            axis.plot([low, high], [y, y], color=colour, linewidth=1)
            axis.plot([high], [y], marker=marker, color=colour, linestyle="none", markersize=5,
                      markerfacecolor="none", label=None if i else label)
            top = max(top, high, y)
    others = [row for row in table if row.get("by_bytes_windows") is not None and
              (row["by_bytes_windows"] or row["windows"])]
    if others:
        axis.plot([row["by_bytes_windows"] for row in others], [row["windows"] for row in others],
                  marker="x", color=style.ORANGE, linestyle="none", markersize=5, label="present bytes / 2 MiB")
        top = max([top, *(row["by_bytes_windows"] for row in others), *(row["windows"] for row in others)])
    axis.set_ylim(-0.05 * top, 1.5 * top)  # room for the legend
    axis.plot([0, top], [0, top], color=style.BLACK, linewidth=0.8, linestyle="--", label="one window each")
    axis.set_xlabel("predicted windows", fontsize=8)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.set_ylabel("measured windows")
    axis.set_title("Windows against spans")
    axis.legend(loc="upper left", fontsize=7)


def figure(documents):
    table = [row for document in documents for row in rows(document)]
    if not any(row["windows"] is not None for row in table):
        return None
    pairs = [row for row in table if row["windows"] is not None and
             (row.get("expected_windows") is not None or row.get("by_bytes_windows") is not None)]
    copies = [row for row in table if row.get("elapsed_ms") is not None]
    waited = [row for row in copies if row["windows"]]
    # Only copies that could wait as long as those that did: one picture per length of a window.
    lengths = sorted({row["bin_ms"] for row in waited}) or [1000]
    judged = [row for row in pairs if row.get("expected_windows") is not None]
    title = "Whole timeouts per copy"
    says = (f"{len(copies)} copies, of which {len(waited)} took at least one whole timeout, at most "
            f"{max([row['windows'] for row in waited], default=0)}.")
    if judged:
        says += (f" In {sum(map(_agrees, judged))} of {len(judged)} cases the count is what the law of "
                 "spans predicts.")

    def draw():
        figure, axes = style.canvas(3.4, 1, len(lengths) + bool(pairs))
        for axis, bin_ms in zip(axes[0], lengths):
            _histogram(axis, copies, bin_ms, lengths)
        if pairs:
            _scatter(axes[0][-1], pairs)
        return figure

    return style.Figure("windows", title, documents, COLUMNS, table, draw, says)
