# SPDX-License-Identifier: Apache-2.0
"""How figures look, and how they are written: the same bytes from the same data."""
import csv
import io
import textwrap
import xml.sax.saxutils as sax

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import matplotlib.ticker as ticker  # noqa: E402

# Okabe and Ito's palette: told apart by every common kind of colour vision. Marker and hatch carry
# the same meaning again, for print in grey.
BLACK, BLUE, VERMILION, GREEN, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY = "#E69F00", "#56B4E9", "#767676"

PATHS = {  # path or loader: colour, marker
    "auto": (BLACK, "o"), "pinned": (BLUE, "s"), "direct": (GREEN, "D"), "mmap": (SKY, "^"),
    "mmap-rw": (VERMILION, "v"), "clone": (PURPLE, "P"), "eager": (ORANGE, "X"), "pread": (GREY, "<"),
    "view": (GREY, ">"), "baseline": (VERMILION, "v"),
}
CASES = {  # state of the mapping: label, colour, marker
    "ro_present": ("r--p, present", BLUE, "o"),
    "rw_absent": ("rw-p, absent", GREEN, "s"),
    "rw_present": ("rw-p, present", VERMILION, "D"),
}
STATUS = {"did_not_fit": "did not fit", "not_run": "not run", "timed_out": "timed out"}

plt.rcParams.update({
    "svg.hashsalt": "h2d", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.titlelocation": "left", "axes.grid": True, "axes.axisbelow": True, "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6, "figure.facecolor": "white", "savefig.facecolor": "white",
    "text.parse_math": False,  # names in documents may hold dollar signs; see plain_ticks()
    "legend.frameon": False, "legend.fontsize": 8, "figure.dpi": 100,
})
WIDTH_IN, DPI = 8.0, 150  # 1200 pixels


def path_style(name):
    """Colour and marker of a path; peers get the rest of the palette by their name."""
    if name in PATHS:
        return PATHS[name]
    rest = [(ORANGE, "h"), (PURPLE, "d"), (GREEN, "8"), (SKY, "p"), (VERMILION, "*")]
    return rest[sum(name.encode()) % len(rest)]


def status_words(status):
    return STATUS.get(status, status.replace("_", " "))


def milliseconds(ms):
    """Three digits or the whole number, as one says it."""
    if ms >= 100:
        return f"{ms:,.0f}".replace(",", "\u202f")
    return f"{ms:.3g}"


def mib(size_bytes):
    value = size_bytes / (1 << 20)
    if value >= 1024:
        return f"{value / 1024:.3g} GiB"
    return f"{value:.3g} MiB" if value >= 1 else f"{size_bytes / 1024:.3g} KiB"


class PlainLog(ticker.LogFormatter):
    """Labels the ticks that LogFormatter does, by plain numbers."""

    def __call__(self, x, pos=None):
        return f"{x:g}" if super().__call__(x, pos) else ""


def plain_ticks(figure):
    """Log axes label their ticks by formulas, which are not parsed here: numbers instead."""
    for axes in figure.axes:
        for side in (axes.xaxis, axes.yaxis):
            if isinstance(side.get_major_formatter(), ticker.LogFormatterMathtext):
                side.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
            if isinstance(side.get_minor_formatter(), ticker.LogFormatterMathtext):
                side.set_minor_formatter(PlainLog())


class Figure:
    """What is drawn, the table behind it, and what it shows in words."""

    def __init__(self, name, title, documents, columns, rows, draw, says, note=""):
        self.name = name
        self.title = title + (" (quoted)" if all(d.quoted for d in documents) else "")
        self.documents = documents
        self.columns = columns
        self.rows = rows
        self.draw = draw
        self.says = says
        self.note = note

    def csv(self):
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow(["" if row.get(c) is None else row[c] for c in self.columns])
        return out.getvalue()

    def alt(self):
        quoted = " Quoted from others, not measured by h2d." if all(d.quoted for d in self.documents) else ""
        sources = " and ".join(d.name for d in self.documents)
        return f"{self.title}.{quoted} {self.says} Data: {sources}.\n"

    def footer(self):
        lines = [self.note] if self.note else []
        for document in self.documents:
            lines += document.provenance()
        return [part for line in lines for part in textwrap.wrap(line, 150)]

    def render(self):
        """SVG text and PNG bytes."""
        figure = self.draw()
        plain_ticks(figure)
        figure.suptitle(self.title, fontsize=11, x=0.01, ha="left")
        foot = self.footer()
        width, height = figure.get_size_inches()
        extra = 0.14 * len(foot) + 0.12
        figure.set_size_inches(width, height + extra)
        figure.get_layout_engine().set(rect=(0, extra / (height + extra), 1, height / (height + extra)))
        figure.text(0.008, 0.06 / (height + extra), "\n".join(foot), fontsize=6, color="#444444",
                    va="bottom", linespacing=1.3)
        about = " | ".join(self.footer())
        svg = io.BytesIO()
        figure.savefig(svg, format="svg", metadata={
            "Date": None, "Creator": None, "Title": self.title, "Description": about})
        png = io.BytesIO()
        figure.savefig(png, format="png", dpi=DPI, metadata={
            "Software": None, "Title": self.title, "Description": about})
        plt.close(figure)
        return self._named(svg.getvalue().decode("utf-8")), png.getvalue()

    def _named(self, svg):
        """For readers of the screen: role and label on the root element."""
        label = sax.quoteattr(self.alt().strip())
        return svg.replace("<svg ", f"<svg role=\"img\" aria-label={label} ", 1)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        svg, png = self.render()
        written = []
        for suffix, data in ((".svg", svg.encode()), (".png", png), (".csv", self.csv().encode()),
                             (".txt", self.alt().encode())):
            path = folder / (self.name + suffix)
            path.write_bytes(data)
            written.append(path)
        return written


def canvas(height_in, rows=1, columns=1, **kwargs):
    """A figure of the usual width whose parts arrange themselves."""
    return plt.subplots(rows, columns, figsize=(WIDTH_IN, height_in), layout="constrained",
                        squeeze=False, **kwargs)
