"""The examples of the documents run, and the names in them exist."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build" / "release"))
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]


FORMAT_PAGES = [p for p in PAGES if p.startswith("docs/formats/")]
STORE_PAGES = ["docs/stores.md", *(p for p in PAGES if p.startswith("docs/stores/"))]
sys.path.insert(0, str(ROOT / "docs"))
import make_outputs  # noqa: E402

USER_PAGES = [
    str(p.relative_to(ROOT)) for p in make_outputs.PAGES if p.name not in make_outputs.OF_FRAMEWORKS
]


def block(page, language):
    """The first ```language block of a page."""
    return re.search(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]


def test_the_readme_in_python(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "feed.py"
    script.write_text(block("README.md", "python") + "\nprint(*image.shape, image.dtype, label.dtype)\n")
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "64 28 28 torch.float32 torch.int64\n"), done.stderr


def test_the_readme_in_c(tmp_path):
    library = BUILD / "libheadrace.so"
    if not library.exists():
        pytest.skip("needs build/release (make lib)")
    source, program = tmp_path / "feed.c", tmp_path / "feed"
    source.write_text(block("README.md", "c"))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}"]
    link = [f"-L{BUILD}", "-lheadrace", f"-Wl,-rpath,{BUILD.resolve()}"]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *flags, source, "-o", program, *link], check=True, timeout=300)
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 columns of 64 rows" and lines[-1] == "2 columns of 16 rows" and len(lines) == 157


@pytest.fixture(scope="module")
def make():
    """A process that runs each block of a page as a fork of itself."""
    command = [sys.executable, ROOT / "docs" / "make_outputs.py", "--each"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("page", USER_PAGES)
def test_each_block_runs_alone_and_prints_what_stands_below_it(page, make):
    blocks = re.findall(r"^```python", (ROOT / page).read_text(), re.MULTILINE)
    assert blocks or page not in FORMAT_PAGES, "a page about a format shows how it is used"
    for module in make_outputs.needed(ROOT / page):
        pytest.importorskip(module)
    print(ROOT / page, file=make.stdin, flush=True)
    wrong = json.loads(make.stdout.readline())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", STORE_PAGES)
def test_each_block_about_a_store_runs(page):
    """docs/stores_of_pages.py has the stores; { .notest } would be a claim that nobody has tried."""
    kinds = re.findall(r"^```python(.*)", (ROOT / page).read_text(), re.MULTILINE)
    assert kinds and set(kinds) <= {"", " { .varies }"}


def test_the_options_of_stores_stand_on_their_pages():
    source = (ROOT / "src" / "io" / "http" / "store_options.c").read_text()
    tables = source[source.index("client_options[] = {") : source.index("static const char no_effect")]
    texts = re.findall(r'[A-Z]+\(((?:\s*"[a-z0-9_ ]+")+),', tables)
    options = [" ".join(re.findall(r'"([a-z0-9_ ]+)"', text)).split() for text in texts]
    assert len(options) > 60
    pages = {
        "requester": "s3",
        "use": "s3",
        "aws": "s3",
        "google": "gs",
        "azure": "azure",
        "hdfs": "hdfs",
        "webhdfs": "hdfs",
    }
    for names in options:
        page = ROOT / "docs" / "stores.md"
        if names[0].split("_")[0] in pages:
            page = ROOT / "docs" / "stores" / f"{pages[names[0].split('_')[0]]}.md"
        known = set(re.findall(r"`(\w+)`", page.read_text()))
        assert set(names) <= known, f"{page.name} lacks {set(names) - known}"


def test_the_cookbook_has_a_block_for_each_recipe():
    text = (ROOT / "docs" / "cookbook.md").read_text()
    recipes = text.split("\n## ")[1:]
    assert len(recipes) == 21 and all(recipe.count("```python\n") == 1 for recipe in recipes)


def heading_anchors(path):
    """The anchors of a page, as GitHub and the site make them of its headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles]
    return set(slugs) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES)
def test_anchors_are_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", (ROOT / page).read_text()):
        path = (ROOT / page).parent / target if target else ROOT / page
        if path.suffix == ".md":
            assert anchor in heading_anchors(path), f"{target}#{anchor}"


def test_the_options_of_the_format_pages():
    command = BUILD / "src" / "cli" / "headrace"
    if not command.exists():
        pytest.skip("needs build/release (make lib)")
    make = [sys.executable, ROOT / "docs" / "make_options.py", "--check", "--command", command]
    done = subprocess.run(make, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


def test_the_list_of_source_files_is_made_of_them():
    make = [sys.executable, ROOT / "docs" / "make_files.py", "--check"]
    assert subprocess.run(make).returncode == 0, "make docs writes docs/files.md"


def test_the_plot_of_loaders_is_made_of_their_table():
    make = [sys.executable, ROOT / "docs" / "make_plots.py", "--check"]
    assert subprocess.run(make).returncode == 0, "make docs writes docs/loaders.svg"


def test_the_site_has_each_page_once():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    there = sorted(str(p.relative_to(ROOT / "docs")) for p in ROOT.glob("docs/**/*.md"))
    listed = re.findall(r"[\w/.-]+\.md", nav)
    assert len(listed) == len(set(listed)) and set(there) <= set(listed)
    made = {"index.md", "command.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
    assert {page for page in listed if not page.startswith("api/")} - set(there) == made


def test_the_architecture_names_files_that_are_there():
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    there = {p.name for folder in ("src", "tests") for p in (ROOT / folder).rglob("*.c")}
    assert set(re.findall(r"`(?:[a-z_]+/)*([a-z_0-9]+\.c)`", text)) <= there


def test_the_glossary_names_what_is_there():
    text = (ROOT / "docs" / "glossary.md").read_text()
    sources = [p for top in ("src", "include", "python") for p in (ROOT / top).rglob("*.[chp]*")]
    words = "\n".join(p.read_text() for p in sources if p.suffix in {".c", ".h", ".py", ".pyi"})
    files = {p.name for p in sources}
    known = set(re.findall(r"\w+", words))
    rows = "\n".join(re.findall(r"^\|.*\|$", text, re.MULTILINE))
    named = re.findall(r"`([\w./]+)`", rows)
    assert named
    for name in named:
        last = name.rsplit("/", 1)[-1]
        if name.endswith((".c", ".py")):
            assert last in files, name
        elif "/" in name:
            assert (ROOT / "src" / name).is_dir(), name
        else:
            assert set(name.split(".")) <= known | {"headrace", "udf"}, name


@pytest.mark.parametrize("page", sorted((ROOT / "src").glob("*/README.md")), ids=lambda p: p.parent.name)
def test_the_pages_of_folders_name_what_is_there(page):
    text = page.read_text()
    tops = ("src", "include", "tests", "fuzz", "examples")
    there = {p.name for top in tops for p in (ROOT / top).rglob("*") if p.is_file()}
    named = re.findall(r"`(?:[a-z_]+/)*([a-z_0-9*]+\.(?:c|h|py|md))`", text)
    assert named and all("*" in n or "NAME" in n or n in there for n in named), set(named) - there
    words = "\n".join(p.read_text() for p in (ROOT / "src").rglob("*.h"))
    assert all(name in words for name in re.findall(r"`(hr__?[a-z_]+)`", text))
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / target).exists(), target
