# SPDX-License-Identifier: Apache-2.0
"""What a document says, in sentences that follow from its numbers and from nothing else."""
from dataclasses import dataclass, field

from . import peers, ratios, style, verdicts, windows
from .documents import number


@dataclass
class Told:
    title: str
    head: list = field(default_factory=list)
    what: list = field(default_factory=list)
    means: list = field(default_factory=list)
    sure: list = field(default_factory=list)
    columns: list = field(default_factory=list)
    rows: list = field(default_factory=list)


def _say(*texts, kind=""):
    return [(kind, text) for text in texts if text]


def _plural(count, word):
    return f"{count} {word}{'' if count == 1 else 's'}"


def _pct(row):
    low, high = row.get("cache_before_pct_min"), row.get("cache_before_pct_max")
    return None if low is None else f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def limit_of(document, cell):
    """The ceiling kept with the campaign: storage where nothing is cached, the page cache where all is."""
    name = {"cold": "storage_direct", "warm": "page_cache_read"}.get(cell["key"]["cache"])
    entry = next((e for e in document.get("limits") or [] if e["name"] == name), {})
    return (name, number(entry["bytes_per_s"])) if entry.get("bytes_per_s") else None


def _of_limit(document, cell):
    limit = limit_of(document, cell)
    if not limit or cell["status"] != "ok" or not cell["statistics"].get("throughput_bytes_per_s"):
        return None
    return f"{100 * number(cell['statistics']['throughput_bytes_per_s']) / limit[1]:.0f} % of {limit[0]}"


def ratio_sentence(row, medians):
    """No surer than its pairs, and told where the medians of the table say the opposite."""
    words = f"{row['group']}: {row['path']} is {row['speedup']:.2f} times as fast as {row['baseline']}"
    if row.get("min") is None:
        return f"{words}."
    mine, base = (medians.get((row["group"], row[k])) for k in ("path", "baseline"))
    said = verdicts.verdict(row, "faster", "slower", "the interval holds 1, so no difference is shown")
    return (f"{words}, block by block ({verdicts.spread(row)}): {said}"
            f"{verdicts.contradiction(row['speedup'], mine, base)}.")


def _repeats(document):
    """What a sample's time is, where a process loads more than once; how processes were scheduled."""
    counts = sorted({c["key"]["options"]["repeat"] for c in document["cells"]
                     if c["key"]["options"].get("repeat", 1) != 1})
    if counts:
        yield (f"In cells with repeat {', '.join(map(str, counts))} every process loads that often and its shortest "
               "time is the sample: the least disturbed, not what a single load takes.")
    seen = {f"policy {s['policy']}, priority {s['priority']}, nice {s['nice']}, processors {s['cpus']}"
            for c in document["cells"] for x in c["samples"] if (s := x.get("scheduling"))}
    if seen:
        yield f"Measured processes ran with {'; and with '.join(sorted(seen))}, as the kernel told."


def _bench(document):
    campaign = document["campaign"]
    told = Told(f"Campaign {campaign['name']}")
    cells = document["cells"]
    statuses = {}
    for cell in cells:
        statuses[cell["status"]] = statuses.get(cell["status"], 0) + 1
    counts = ", ".join(f"{n} {style.status_words(s)}" for s, n in statuses.items())
    told.head = _say(f"{_plural(len(cells), 'cell')}: {counts}.")
    told.what = _say(
        *(f"{c['name']}: {c['path']}, {c['format']}, {_plural(number(c['tensor_count']), 'tensor')}, "
          f"{style.mib(number(c['size_bytes']))}." for c in document["checkpoints"]),
        f"Each cell is loaded {campaign['block_count']} times, every time in a fresh process; the order "
        f"within each of the {campaign['block_count']} blocks is drawn from seed {campaign['seed']}.",
        "After each load the bytes are compared." if campaign["verify"] else "Bytes were not compared.")
    table = ratios.ratio_rows(document)
    others = peers.rows(document)
    times = ratios.time_rows(document)
    medians = {(r["group"], r["path"]): r.get("median_s") for r in times}
    compared = {(r["group"], r["peer"]) for r in others if r.get("ratio") is not None}
    judged = [r for r in table if r.get("speedup") is not None and r["path"] != r.get("baseline")
              and (r["group"], r["path"]) not in compared]
    told.means = _say(*(ratio_sentence(r, medians) for r in judged))
    if not judged and not compared:
        told.means = _say("No baseline was named, or none was measured: there are times and no ratios.")
    for row in others:
        if row.get("ratio") is not None:
            told.means += _say(peers.sentence(row), kind="bad" if row["verdict"] == "the other is faster" else "")
    for row in table:
        if row["status"] not in ("ok", "skipped"):
            told.means += _say(f"{row['group']}, {row['path']}: {style.status_words(row['status'])}"
                               + (f": {row['reason']}" if row.get("reason") else "") + ".", kind="bad")
    told.columns = ["cell", "path", "status", "n", "median s", "95 % from", "to", "lowest", "highest",
                    "cached before, %", "of the machine's limit"]
    told.rows = [[r["group"], r["path"], style.status_words(r["status"]), r.get("n_count"), r.get("median_s"),
                  r.get("ci_low_s"), r.get("ci_high_s"),
                  r.get("min_s"), r.get("max_s"), _pct(r), _of_limit(document, cell)]
                 for r, cell in zip(times, cells) if r["status"] != "skipped"]
    told.sure = _say(
        "Intervals are of the median, by bootstrap, and are given of six samples on; ratios are of loads in the same block. No sample is left "
        "out. A cell whose page-cache state could not be set and proven is invalid and has no time.",
        *(f"Note: {note}" for note in document["notes"]))
    told.sure += _say(*(f"Warning: {w}" for w in document["warnings"]), kind="bad")
    wild = [(r, c) for r, c in zip(times, cells)
            if c.get("statistics") and (c["statistics"]["variation_pct"] > 10 or c["statistics"]["outlier_blocks"])]
    if wild:
        told.sure += _say("The samples vary by more than 10 %, or hold outliers, in "
                          f"{_plural(len(wild), 'cell')}: " + "; ".join(
                              f"{r['group']}, {r['path']} ({c['statistics']['variation_pct']:.3g} %, "
                              f"{_plural(len(c['statistics']['outlier_blocks']), 'outlier')})" for r, c in wild)
                          + ".", kind="bad")
    told.sure += _say(*_repeats(document))
    return told


def _verdict(kind):
    return "bad" if kind in ("affected", "does_not_hold", "mismatch") else "good"


def _lab(document):
    kernels = document["kernels"]
    told = Told("The copy stall on kernels in emulated guests")
    told.head = _say(f"Over {_plural(len(kernels), 'kernel')}: {document['verdict']['value']}.",
                     kind=_verdict(document["verdict"]["value"]))
    told.what = _say("Each kernel boots in a guest without a GPU; a copy of "
                     f"{style.mib(document['options']['size_bytes'])} is prepared through the driver's own "
                     "page-table code, from each state of the source's mapping.")
    told.columns = ["kernel", "driver", "verdict", "retry policy", "permission rule", "confidence"]
    for kernel in kernels:
        verdict = kernel["verdict"]
        name = kernel.get("release") or kernel["request"]
        told.rows.append([name, kernel["driver"], verdict["value"], verdict.get("retry_policy"),
                          verdict.get("permission_rule"), verdict.get("confidence")])
        told.means += _say(f"{name}, {kernel['driver']}: {verdict['value']}. " +
                           " ".join(f"{e}." for e in verdict.get("evidence", [])[:2]),
                           kind=_verdict(verdict["value"]))
    copies = windows.rows(document)
    judged = [r for r in copies if r.get("expected_windows") is not None and r["windows"] is not None]
    agree = sum(r["windows"] == r["expected_windows"] for r in judged)
    told.sure = _say(f"In {agree} of {len(judged)} cells the number of windows is what the law of spans predicts.",
                     "Windows are counted by the driver's own restarts. Times are those of an emulated "
                     "machine: compare them with each other, not with a real one.",
                     *(f"Not exercised: {t}." for t in document.get("not_exercised", [])))
    return told


def _repro(document):
    verdict = document["verdict"]
    told = Told(f"The copy stall on {document['device']['name']}")
    told.head = _say(f"Verdict: {verdict['value'].replace('_', ' ')}, confidence {verdict.get('confidence', 'not stated')}.",
                     kind=_verdict(verdict["value"]))
    told.what = _say(f"Copies to {document['device']['name']} ({document['device'].get('hardware')}) from "
                     f"mappings of a file on {document['source']['filesystem']} in each state.")
    told.means = _say(*(f"{e}." for e in verdict.get("evidence", [])))
    told.columns = ["cell", "MiB", "state", "present spans", "windows expected", "windows", "median ms"]
    for cell in document["cells"]:
        samples = cell.get("samples", [])
        times = sorted(s["elapsed_ns"] / 1e6 for s in samples)
        told.rows.append([cell["cell"], cell["size_bytes"] / (1 << 20), cell["state"],
                          cell.get("present_span_count"),
                          None if windows.never_waits(document) else cell.get("expected_windows"),
                          ", ".join(str(s.get("windows")) for s in samples),
                          times[len(times) // 2] if times else None])
    bad = [c["cell"] for c in document["cells"] if c.get("verified") is False]
    told.sure = _say("Every copy was read back and compared." if not bad else f"Wrong bytes in: {', '.join(bad)}.",
                     f"{sum(len(c.get('samples', [])) for c in document['cells'])} copies in "
                     f"{_plural(len(document['cells']), 'cell')}.")
    return told


def _law(document):
    verdict = document["verdict"]
    told = Told(f"The window law on {document['device']['name']}")
    told.head = _say(f"The law {verdict['value'].replace('_', ' ')}: {verdict['run_count']} rows were run, "
                     f"{verdict['disagree_count']} disagree, {verdict['not_run_count']} could not be run.",
                     kind=_verdict(verdict["value"]))
    told.what = _say("Copies from mappings in many states; each row predicts how many whole timeouts it takes.")
    told.columns = ["row", "question", "predicted", "measured", "agrees"]
    for row in document["rows"]:
        if row["state"] != "run":
            told.rows.append([row["row"], row["question"], None, row.get("state_why"), None])
            continue
        low, high = row["predicted"]["by_law_min"], row["predicted"]["by_law_max"]
        wanted = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
        told.rows.append([row["row"], row["question"], wanted,
                          row["measured"]["windows"], "yes" if row["agrees"] else "no"])
        if not row["agrees"]:
            told.means += _say(f"{row['row']}: predicted {wanted}, measured "
                               f"{row['measured']['windows']}.", kind="bad")
    told.means = told.means or _say("Every row that was run came out as predicted.")
    told.sure = _say(f"One window is {document['window'].get('length_ms')} ms here.")
    return told


def _reference(document):
    told = Told(document["what"])
    told.head = _say("Quoted from texts of others. Nothing on this page was measured by h2d.", kind="quoted")
    told.what = _say(*(f"{key}: {s['where']}." for key, s in document["sources"].items()))
    told.means = _say("See the sources for what their authors conclude.")
    told.sure = _say(*document["limits"])
    for section in ("kernel_versions", "load_times", "resident_peaks", "copies"):
        rows = document.get(section)
        if rows and not told.rows:
            told.columns = list(dict.fromkeys(k for row in rows for k in row if k not in ("source", "note")))
            told.rows = [[str(v) if isinstance(v := row.get(c), dict) else v for c in told.columns]
                         for row in rows]
    return told


def _load(document):
    timing, path = document["timing"], document["path"]
    told = Told(f"One load of {document['checkpoint']['path']}")
    told.what = _say(f"{_plural(number(document['checkpoint']['tensor_count']), 'tensor')}, "
                     f"{style.mib(number(document['checkpoint']['size_bytes']))}, path {path['used']} "
                     f"({path['reason']}), device {document['device']['name']}.")
    told.means = _say(f"It took {number(timing['total_ns']) / 1e6:.4g} ms in all.")
    told.sure = _say("One load: a time without a spread. See `h2d bench` for more.")
    return told


def _figures(document):
    told = Told("The loader against plain readers")
    bounds = [f for f in document["figures"] if f["bound"] is not None]
    met = sum(f["met"] for f in bounds)
    told.head = _say(f"{met} of {len(bounds)} bounds met.", kind="good" if met == len(bounds) else "bad")
    told.what = _say("Ratios of two things measured in turn on the same file, each in a fresh process.")
    told.columns = ["figure", "unit", "median", "lowest", "highest", "n", "bound", "met", "note"]
    told.rows = [[f["name"], f["unit"], f["median"], f["min"], f["max"], f["n_count"],
                  f["bound"] and f"{f['better']} than {f['bound']}",
                  "" if f["bound"] is None else "yes" if f["met"] else "no", f["note"]]
                 for f in document["figures"]]
    told.means = _say(*(f"Not met: {f['name']}: {f['median']:.3g} {f['unit']}, bound {f['bound']}."
                        for f in bounds if not f["met"]), kind="bad")
    told.means = told.means or _say("Every bound that was set is met.")
    told.sure = _say("Medians with lowest and highest of the pairs; no interval is computed.")
    return told


def _compare(document):
    verdict, compare = document["verdict"], document["compare"]
    told = Told(f"Comparison of {document['a']['path']} with {document['b']['path']}")
    told.head = _say(f"Verdict: {verdict['value']}, exit status {verdict['exit_status']}.",
                     kind="bad" if verdict["value"] in ("regressed", "missing") else "good")
    told.what = _say(*(f"{side.upper()}: {document[side]['path']}, {document[side]['schema']}, "
                       f"{document[side]['time_utc']}, kernel {document[side]['kernel_release']}." for side in "ab"),
                     f"The margin, declared beforehand, is {compare['margin_pct']:g} %; a verdict on times needs "
                     f"{compare['n_min_count']} samples on each side and the rank test at {compare['alpha']:g}.")
    told.columns = ["cell", "verdict", "median A, s", "median B, s", "B / A", "95 % from", "to", "p", "p adjusted", "why"]
    for cell in document["cells"]:
        a, b, ratio = cell.get("a", {}), cell.get("b", {}), cell.get("ratio", {})
        least = min(number(side.get("n_count", 0)) for side in (a, b))
        told.rows.append([
            ", ".join(f"{k} {v}" for k, v in cell["key"].items() if v not in ({}, None) and k != "fingerprint"),
            cell["verdict"], *(number(s["median_ns"]) / 1e9 if "median_ns" in s else None for s in (a, b)),
            ratio.get("value"), *verdicts.interval(ratio.get("ci_low"), ratio.get("ci_high"), least),
            cell.get("rank_test", {}).get("p"), cell.get("rank_test", {}).get("p_adjusted"),
            cell["reason"]])
    counts = {k.removesuffix("_count"): v for k, v in document["summary"].items() if number(v)}
    told.means = _say(", ".join(f"{v} {k}" for k, v in counts.items()) + ".")
    told.sure = _say("Cells are matched by everything that names them.",
                     *(f"The environments differ in {d['name']}: {d['a']} and {d['b']}"
                       f"{'; that makes them incomparable' if d['required'] else ''}."
                       for d in document["differences"]))
    return told


def _limits(document):
    told = Told("What this machine can do at best")
    told.what = _say("Ceilings of storage, page cache, memory and device link, measured in one run.")
    told.columns = ["limit", "GB/s", "lowest", "highest", "n", "what"]
    for entry in document["limits"]:
        rates = [entry[k] and number(entry[k]) / 1e9 for k in ("bytes_per_s", "min_bytes_per_s", "max_bytes_per_s")]
        told.rows.append([entry["name"], *rates, len(entry["samples_bytes_per_s"]),
                          entry["what"] if entry["bytes_per_s"] is not None else entry.get("bytes_per_s_why")])
    told.means = _say("A loader cannot be faster than what it has to go through.")
    told.sure = _say("Medians with lowest and highest of the samples.")
    return told


TELLERS = {"h2d.bench": _bench, "h2d.bench-compare": _compare, "h2d.bench-limits": _limits,
           "h2d.lab": _lab, "h2d.repro": _repro, "h2d.window-law": _law,
           "h2d.reference": _reference, "h2d.load": _load, "h2d.figures": _figures}


def of(document):
    teller = TELLERS.get(document.schema)
    if teller:
        return teller(document)
    told = Told(f"{document.schema}: {document.name}")
    told.what = _say("This kind of document has no report of its own: its contents are below.")
    return told
