#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports: one file, no script, nothing fetched, and a browser without a network shows every picture."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import rig

sys.path.insert(0, str(rig.SCRIPTS))
from h2dfig import verdicts  # noqa: E402

python = rig.interpreter()
check = rig.Checks()
CAMPAIGN = pathlib.Path(__file__).resolve().parent / "campaign.json"
HEADINGS = ("What was measured", "What it means", "How sure it is", "On what")
UPDATE = rig.ROOT / "results/lab/update-6.12.113-6.12.115.json"
FILES = [rig.ROOT / "results/lab/shipped.json", rig.ROOT / "results/reference/resident-set.json", CAMPAIGN, UPDATE]
# After the page has loaded: how many pictures there are, and how many could be decoded.
COUNT = ("<script>addEventListener('load', () => { const i = [...document.images]; document.title = "
         "`images ${i.length} shown ${i.filter(x => x.complete && x.naturalWidth > 0).length}`; });</script>")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.fetched, self.scripts, self.images, self.undescribed = [], 0, 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.scripts += tag == "script" or any(name.startswith("on") for name in attrs)
        for name in ("src", "href", "srcset", "action", "data"):
            value = attrs.get(name)
            if value and not value.startswith(("data:", "#")):
                self.fetched.append(value)
        if tag == "img":
            self.images += 1
            self.undescribed += not attrs.get("alt")


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


def shown(program, page, folder):
    """The page as a browser without a network sees it, after its pictures were decoded."""
    counting = folder / "counting.html"
    text = page.read_text("utf-8").replace("</body>", COUNT + "</body>")
    counting.write_text(text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'"))
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--no-first-run", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND",
               f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=10000", "--dump-dom",
               counting.as_uri()]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          check=False, env={**os.environ, "HOME": str(folder)})
    return done.stdout, done.stderr


program = browser()
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for file in FILES:
        page = folder / f"{file.stem}.html"
        done = rig.run(rig.SCRIPTS / "report", file, "-o", page, python=python)
        check(f"{file.name}: a report is made", done.returncode == 0, done.stderr)
        text = page.read_text("utf-8")
        parsed = Page(text)
        check(f"{file.name}: nothing is fetched", not parsed.fetched, parsed.fetched)
        check(f"{file.name}: no script", parsed.scripts == 0)
        check(f"{file.name}: pictures are described", parsed.undescribed == 0 and (parsed.images > 0 or file == UPDATE))
        for heading in HEADINGS:
            check(f"{file.name}: {heading}", f"<h2>{heading}</h2>" in text)
        if program:
            dom, errors = shown(program, page, folder)
            wanted = f"images {parsed.images} shown {parsed.images}"
            check(f"{file.name}: {program} shows every picture", f"<title>{wanted}</title>" in dom,
                  errors[-500:] + dom[:300])
    again = folder / "again.html"
    rig.run(rig.SCRIPTS / "report", FILES[0], "-o", again, python=python)
    check("a report is the same twice", again.read_bytes() == (folder / "shipped.html").read_bytes())
    text = (folder / "campaign.html").read_text("utf-8")
    check("what failed is said", "did not fit" in text and "invalid" in text)
    check("warnings are said", "swap is in use" in text)
    check("how near the machine's limit is said", "% of page_cache_read" in text)
    text = (folder / f"{UPDATE.stem}.html").read_text("utf-8")
    check("a comparison is told", "regressed" in text and "16 windows, there were 0" in text)
    check("names cannot break out of the page", "<b>warm" not in (folder / "campaign.html").read_text("utf-8"))
    # Three pairs, of which the medians say the opposite; and another loader, of which five do.
    few = json.loads(CAMPAIGN.read_text("utf-8"))
    few["ratios"][0]["speedup"] |= {"n_count": 3, "median": 1.16, "min": 0.7, "max": 1.4, "samples": [0.7, 1.16, 1.4]}
    few["cells"][1]["statistics"]["median_ns"] = 2 * few["cells"][0]["statistics"]["median_ns"]
    few["cells"][2]["key"]["loader"] = "peer"
    file = folder / "few.json"
    file.write_text(json.dumps(few), "utf-8")
    done = rig.run(rig.SCRIPTS / "report", file, python=python)
    check("a report of few pairs is made", done.returncode == 0, done.stderr)
    text = file.with_suffix(".html").read_text("utf-8").split("<h2>What it means</h2>")[1].split("<h2>")[0]
    said = [line for line in text.split("</p>") if "times as" in line]
    ours = [line for line in said if "1.16 times as fast" in line]
    check("three pairs have no verdict", len(ours) == 1 and verdicts.FEW in ours[0], said)
    check("medians that contradict are named", ours and "the medians of all samples say the opposite" in ours[0], said)
    peers = [line for line in said if "times as long as h2d" in line]
    check("five pairs with another loader have none", peers and all(verdicts.FEW in line for line in peers), said)
    check("few pairs have no interval", said and not any("95 %" in line for line in said), said)
    single = json.loads(UPDATE.read_text("utf-8"))
    single["cells"] = [c for c in single["cells"] if "ratio" in c][:1]
    ratio = single["cells"][0]["ratio"] | {"ci_low": 0.987654321, "ci_high": 0.987654321}
    single["cells"][0]["ratio"] = ratio
    file = folder / "single.json"
    file.write_text(json.dumps(single), "utf-8")
    done = rig.run(rig.SCRIPTS / "report", file, python=python)
    table = file.with_suffix(".html").read_text("utf-8").split("<table")[1].split("</table>")[0]
    check("a comparison of one sample has no interval", done.returncode == 0 and "0.9877" not in table
          and "0.988" not in table and f"{ratio['value']:.3g}"[:4] in table, table)
    dollars = folder / "dollars.json"
    dollars.write_text(CAMPAIGN.read_text("utf-8").replace("m<b>warm", "m$\\\\frac$warm"), "utf-8")
    done = rig.run(rig.SCRIPTS / "report", dollars, python=python)
    check("a name with dollar signs is drawn, not parsed as a formula", done.returncode == 0, done.stderr)
    done = rig.run(rig.SCRIPTS / "report", folder / "nothing.json", python=python)
    check("a missing file is an error", done.returncode == 3 and "nothing.json" in done.stderr)
if not program and not check.failures:
    print("skipped: no Chromium here to open the reports with (Debian: chromium)")
    sys.exit(77)
check.end()
