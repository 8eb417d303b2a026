# SPDX-License-Identifier: Apache-2.0
"""Figure 5: time per tensor, or per copy, against its size."""
from . import style, windows

COLUMNS = ["document", "what", "size_bytes", "elapsed_ms", "windows"]
CLASSES = ((0, "no window", style.BLUE, "o"), (1, "one window", style.ORANGE, "s"),
           (2, "more windows", style.VERMILION, "D"))


def figure(documents):
    table = [{key: row.get(key) for key in COLUMNS} for document in documents
             for row in windows.rows(document) if row["size_bytes"] and row.get("elapsed_ms")]
    if len({row["size_bytes"] for row in table}) < 2:
        return None
    tensors = all(d.schema == "h2d.load" for d in documents)
    title = f"Time per {'tensor' if tensors else 'copy'} against its size"
    slowest = max(table, key=lambda row: row["elapsed_ms"])
    says = (f"{len(table)} {'tensors' if tensors else 'copies'} on two log scales; the slowest, "
            f"{slowest['what']} of {style.mib(slowest['size_bytes'])}, took "
            f"{style.milliseconds(slowest['elapsed_ms'])} ms"
            + (f" in {slowest['windows']} windows." if slowest["windows"] else "."))

    counted = any(row["windows"] is not None for row in table)

    def draw():
        figure, ((axis,),) = style.canvas(3.8)
        for number, label, colour, marker in CLASSES:
            mine = [row for row in table if min(row["windows"] or 0, 2) == number]
            if not counted:
                label = "windows not counted"
            if mine:
                axis.plot([row["size_bytes"] / (1 << 20) for row in mine], [row["elapsed_ms"] for row in mine],
                          marker=marker, color=colour, linestyle="none", markersize=4, alpha=0.75, label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("size in MiB, log scale")
        axis.set_ylabel("milliseconds, log scale (lower is better)")
        axis.legend(loc="upper left")
        return figure

    return style.Figure("tensor-times", title, documents, COLUMNS, table, draw, says)
