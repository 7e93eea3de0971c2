"""The documentation: nothing registered is left out, its examples run, its links lead somewhere."""

import ast
import importlib
import itertools
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.metadata import distribution
from io import StringIO
from pathlib import Path
from pydoc import locate
from typing import Any

import catalogue
import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config
from typer.testing import CliRunner

from scripts import check_links, docs
from spacy_crfseq import registry
from spacy_crfseq.cli.app import SECTIONS
from spacy_crfseq.cli.fit import fit
from spacy_crfseq.cli.program import crfseq_cli
from spacy_crfseq.tools._pages.weights import weights_by_template
from spacy_crfseq.types import Batch, Scores
from tests.problems import finite_differences
from tests.project.pages import DOCS, ROOT, assert_same_but_for_digits, blocks, read

MADE_BY_COMMANDS = ("accuracy.md", "performance.md", "papers.md")
BY_HAND = [ROOT / "README.md", *sorted(file for file in DOCS.glob("*.md") if file.name not in MADE_BY_COMMANDS)]
LINKED = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "assets/README")]
"""Pages that are not part of the site, whose links the strict build and scripts/check_links.py check."""
COMMAND = re.compile(r"(?:python -m spacy crfseq|spacy-crfseq) (.+)")


CELL = re.compile(r"(?<!\\)\|")
NAMED = re.compile(
    r"(?:[Mm]odules?|[Ff]iles?) `([\w./]+)`|`(?!spacy/)((?:[a-z]\w*/)+[\w.]*|\w+\.(?:py|html|css|jinja))`"
)
"""Modules and files in a text, by the word before them or by their form."""


# Every page, generated or not


def test_rows_of_a_table_have_as_many_cells_as_its_head(pages: dict[str, str]) -> None:
    wrong = []
    for place, text in {**{file.name: read(file) for file in LINKED}, **pages}.items():
        lines = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL).splitlines()
        for above, line in itertools.pairwise(lines):
            if above.startswith("|") and line.startswith("|") and len(CELL.findall(above)) != len(CELL.findall(line)):
                wrong.append(f"{place}: {line}")
    assert wrong == []


def test_modules_and_files_that_are_named_exist() -> None:
    package = ROOT / "spacy_crfseq"
    code = {file: ast.parse(read(file)) for file in package.rglob("*.py")}
    texts = {DOCS / "design.md": read(DOCS / "design.md")}
    folders = [ROOT / name for name in ("spacy_crfseq", "scripts", "bench", "tests", "docs", "configs", "examples")]
    there = {"", *(f"/{path.relative_to(ROOT)}" for folder in folders for path in [folder, *folder.rglob("*")])}
    for file, tree in code.items():
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
        texts[file] = "\n".join(str(node.value.value) for node in nodes)
    missing = []
    for file, text in texts.items():
        names = {next(filter(None, groups)).rstrip("/") for groups in NAMED.findall(text)}
        if file.name == "__init__.py":  # whose first text lists modules, or what is defined there
            defined = {node.id for node in ast.walk(code[file]) if isinstance(node, ast.Name)}
            defined |= {node.name for node in ast.walk(code[file]) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            names |= {*re.findall(r"`(_\w+)`", ast.get_docstring(code[file]) or "")} - defined
        for name in names:
            ways = (f"/{name}", f"/{name.replace('.', '/')}.py")
            if not any(path.endswith(ways) for path in there):
                missing.append(f"{file.relative_to(ROOT)}: {name}")
    assert missing == []


# Generated pages


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return docs.pages()


def test_every_registry_has_a_page(pages: dict[str, str]) -> None:
    not_plugins = {"spacy_factories", "spacy_cli", "spacy_crfseq_commands", "spacy_crfseq_dask", "console_scripts"}
    groups = {entry.group for entry in distribution("spacy-crfseq").entry_points} - not_plugins
    shown = re.findall(r"^\| \[.+?\]\(([\w-]+\.md)\) \| `(\w+)` \|", pages["plugins/index.md"], re.MULTILINE)
    assert sorted(group for _, group in shown) == sorted(groups)
    for file, group in shown:
        for entry in docs.plugins(group):
            assert entry.name in pages[f"plugins/{file}"]


def test_every_setting_has_a_meaning(pages: dict[str, str]) -> None:
    rows = [line for place, text in pages.items() if place.startswith("plugins/") for line in text.splitlines()]
    settings = [row for row in rows if row.startswith("| `")]
    assert len(settings) > 50
    assert [row for row in settings if row.endswith("|  |")] == []


def test_every_command_has_a_page_with_all_its_options(pages: dict[str, str]) -> None:
    for info in crfseq_cli.registered_commands:
        page = pages[f"commands/{info.name}.md"]
        told = set(re.findall(r"`[^`\n]*?(--[\w-]+)", page))
        shown = CliRunner().invoke(crfseq_cli, [str(info.name), "--help"]).stdout
        helped = set(re.findall(r"^│ [* ]*(--[\w-]+)", shown, re.MULTILINE)) - {"--help"}
        assert helped
        assert helped <= told, info.name
        assert re.search(rf"```bash\n[^`]*python -m spacy crfseq {info.name}\b", page)
        assert f"[`{info.name}`]({info.name}.md)" in pages["commands/index.md"]


def test_every_setting_of_the_components_is_told(pages: dict[str, str]) -> None:
    nlp = spacy.blank("en")
    for factory in ("crf_tagger", "crf_chunker", "crf_ner"):
        for setting in nlp.get_factory_meta(factory).default_config:
            assert f"`{setting}`" in pages["components.md"]


def test_a_docstring_comes_apart() -> None:
    def documented() -> None:
        """Return ``a * b`` (registered as ``spacy_crfseq.Thing.v1``).

        Some prose about w_k and *much* more::

            w_k = 1

        first, second (int): Two
            lines.
        RETURNS (int): A number.
        RAISES ConfigError: If a | b is wrong.
        """

    result = docs.read_docstring(documented.__doc__)
    prose = "Some prose about w\\_k and *much* more:"
    assert result.paragraphs == ["Return `a * b`.", prose, "```text\nw_k = 1\n```"]
    assert result.settings == [docs.Setting("first, second", "int", "Two lines.")]
    assert result.notes == ["Returns a number.", "Raises `ConfigError`: if a \\| b is wrong."]


# Pages written by hand


def test_the_python_of_the_pages_prints_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for page in ("index.md", "tutorial.md"):
        text = read(DOCS / page)
        namespace: dict[str, Any] = {"__name__": page}
        for code, shown in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL):
            with redirect_stdout(StringIO()) as printed:
                exec(compile(code, page, "exec"), namespace)
            assert_same_but_for_digits(printed.getvalue(), shown, rel=0.05)


def settings_of(page: Path) -> list[Config]:
    configs: list[Config] = []
    if page.stem == "coming-from":  # which test_coming_from.py puts into configs, with the functions that it names
        return configs
    for block in blocks("ini", read(page)):
        if block.startswith("[components"):
            first = re.findall(r"^\[(components\.[\w.]+)\]$", block, re.MULTILINE)[0].split(".")
            above = [".".join(first[:n]) for n in range(2, len(first))]  # blocks that the config has already
            missing = "".join(f"[{name}]\n" for name in above if f"[{name}]\n" not in block)
            configs.append(Config().from_str(f"[components]\n{missing}{block}"))
    return configs


@pytest.mark.parametrize("page", [*filter(settings_of, BY_HAND)], ids=lambda page: page.stem)
def test_the_configs_of_the_pages_are_valid(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example_loss: Any
) -> None:
    for example in ("word_length", "last_part"):
        importlib.import_module(f"docs.examples.{example}")
    (tmp_path / "cities.txt").write_text("Paris\n", encoding="utf8")
    monkeypatch.chdir(tmp_path)
    for config in settings_of(page):
        for name, settings in config["components"].items():
            settings.pop("factory", None)
            assert spacy.blank("en").add_pipe(name, config=settings).name == name


def commands_of(page: Path) -> list[list[str]]:
    lines = "\n".join(blocks("bash", read(page))).replace("\\\n", " ").splitlines()
    matches = (COMMAND.match(line) for line in lines)
    return [shlex.split(match[1]) for match in matches if match and not match[1].startswith("COMMAND")]


@pytest.mark.parametrize("page", [*filter(commands_of, BY_HAND)], ids=lambda page: page.stem)
def test_the_commands_of_the_pages_are_there(page: Path) -> None:
    """Commands are those of the help, and take the options that are shown, beside overrides such as --paths.dev."""
    there = docs.commands()
    for name, *arguments in commands_of(page):
        assert any(name in names for names in SECTIONS.values())
        if name in there:
            options = {
                option for parameter in there[name].params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            assert {argument for argument in arguments if re.fullmatch(r"--?[a-z][\w-]*", argument)} <= options


def test_the_readme_and_the_quickstart_run_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "assets", tmp_path / "assets")
    monkeypatch.chdir(tmp_path)
    there = docs.commands()
    assert len(commands_of(ROOT / "README.md")) > 5
    for arguments in [*commands_of(ROOT / "README.md"), *commands_of(DOCS / "quickstart.md")]:
        if arguments[0] in there and "training/model-best" not in arguments:  # a pipeline of another command
            result = CliRunner().invoke(crfseq_cli, arguments)
            assert result.exit_code == 0, (arguments, result.output)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "quickstart.html").stat().st_size > 10_000


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it of plain words."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def leads_somewhere(file: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    other = file.parent / path if path else file
    if not other.exists() or other.suffix != ".md":
        return other.exists()
    return anchor in {"", *map(slug, re.findall(r"^#+ (.+)$", read(other), re.MULTILINE))}


def test_links_lead_somewhere() -> None:
    texts = {file: re.sub(r"```.*?```|`[^`\n]+`", "", read(file), flags=re.DOTALL) for file in LINKED}
    links = [(file, link) for file in texts for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", texts[file])]
    assert len(links) > 10
    assert [link for file, link in links if not leads_somewhere(file, link)] == []


ROOMS = "|".join(sorted(path.name.removesuffix(".py") for path in (ROOT / "spacy_crfseq").glob("[a-z]*")))
"""The packages and modules of the first level."""
OF_CONFIGS = ("training.", "corpora.")
"""How settings of configs begin, too."""


def test_names_of_code_exist() -> None:
    """Dotted names and files of the package, in backticks."""
    texts = {file: read(file) for file in [*DOCS.glob("*.md"), ROOT / "CONTRIBUTING.md"]}
    names = [
        (file, name)
        for file in texts
        for name in re.findall(rf"`(?:spacy_crfseq\.)?((?:{ROOMS})(?:\.\w+)+)`", texts[file])
    ]
    names = [
        (file, name)
        for file, name in names
        if not name.endswith((".py", ".html", ".md", ".jsonl", ".in")) and not name.startswith(OF_CONFIGS)
    ]
    assert len(names) > 5
    assert [(file.name, name) for file, name in names if locate(f"spacy_crfseq.{name}") is None] == []
    files = [(file, name) for file in texts for name in re.findall(rf"`((?:{ROOMS})/[\w/]+\.\w+)`", texts[file])]
    assert len(files) > 20
    assert [(file.name, name) for file, name in files if not (ROOT / "spacy_crfseq" / name).exists()] == []


# The loss in ten lines


@pytest.fixture(scope="module")
def example_loss() -> Iterator[Any]:
    importlib.import_module("docs.examples.token_log")
    yield registry.losses.get("examples.TokenLog.v1")
    del catalogue.REGISTRY["spacy", "crf_losses", "examples.TokenLog.v1"]  # tests of all losses would take it for ours


def test_the_gradient_of_the_example(example_loss: Any) -> None:
    exec(blocks("python", read(DOCS / "add-a-loss.md"))[0], {})  # compares it without infinite scores
    rng = np.random.default_rng(0)
    scores = Scores(rng.normal(size=(7, 3)), np.zeros((1, 3, 3)), np.zeros(3), np.zeros(3))
    scores.emissions[2, 1] = -np.inf
    batch = Batch(np.array([0, 4, 4, 7]), np.array([0, -1, 2, 1, 0, 0, 2], np.int32), np.array([1.0, 3.0, 0.5]))
    loss, grad = example_loss(), scores.zeros_like()
    assert loss(scores, batch, grad) > 0
    expected = finite_differences(lambda: loss(scores, batch, scores.zeros_like()), scores.emissions)
    np.testing.assert_allclose(grad.emissions, expected, atol=1e-6)
    assert not grad.transitions.any()


def test_the_example_trains_a_tagger_by_its_entry_in_a_config(tmp_path: Path, example_loss: Any) -> None:
    corpus = ROOT / "assets" / "corpus"
    overrides = {
        **{f"paths.{part}": str(corpus / f"{part}.conll") for part in ("train", "dev")},
        "nlp.pipeline": ["crf_tagger"],
        "training.annotating_components": [],
        "components.crf_tagger.loss": {"@crf_losses": "examples.TokenLog.v1"},
    }
    fit(ROOT / "configs" / "pipeline.cfg", tmp_path / "training", overrides=overrides)
    nlp = spacy.load(tmp_path / "training" / "model-best")
    assert nlp.get_pipe("crf_tagger").method.loss == example_loss()
    assert [token.tag_ for token in nlp("The council has approved a plan")] == ["DT", "NN", "VBZ", "VBN", "DT", "NN"]


def test_the_gradient_of_the_loss_of_marginals() -> None:
    loss, rng = importlib.import_module("docs.examples.brier").Brier(), np.random.default_rng(0)
    del catalogue.REGISTRY["spacy", "crf_losses", "examples.Brier.v1"]
    assert '--8<-- "docs/examples/brier.py"' in read(DOCS / "add-a-loss.md")
    scores = Scores(rng.normal(size=(7, 3)), rng.normal(size=(1, 3, 3)), rng.normal(size=3), rng.normal(size=3))
    batch = Batch(np.array([0, 4, 4, 7]), np.array([0, -1, 2, 1, 0, 0, 2], np.int32), np.array([1.0, 3.0, 0.5]))
    grad = scores.zeros_like()
    assert loss(scores, batch, grad) > 0
    for result, array in zip(grad, scores, strict=True):
        slopes = finite_differences(lambda: loss(scores, batch, scores.zeros_like()), array)
        np.testing.assert_allclose(result, slopes, atol=1e-6)


def test_the_example_is_ten_lines_long() -> None:
    assert '--8<-- "docs/examples/token_log.py"' in read(DOCS / "add-a-loss.md")
    body = read(DOCS / "examples" / "token_log.py").split('to `grad`."""\n')[1]
    assert len(body.splitlines()) <= 10


# The attributes in a page


def test_the_attributes_of_the_example_are_features_of_a_tagger() -> None:
    example = importlib.import_module("docs.examples.last_part")
    words = {"London-based": "based", "U-Bahn": "bahn", "house": None, "pre-": None}
    assert {word: example.last_part(word) for word in words} == words
    nlp = spacy.blank("en")
    nlp.add_pipe("crf_tagger", config={"attributes": {"ending": {"@crf_attributes": "examples.LastPart.v1"}}})
    texts = [["a", f"{town}-based", "firm"] for town in ("Rome", "Oslo")]
    docs = [(Doc(nlp.vocab, words), Doc(nlp.vocab, words, tags=["DT", "JJ", "NN"])) for words in texts]
    nlp.initialize(lambda: [Example(*pair) for pair in docs])
    pipe: Any = nlp.get_pipe("crf_tagger")
    pipe.fit()
    rows = weights_by_template(pipe.crf, pipe.doc_model.features.plans())
    assert {row.template: row.features for row in rows}["ENDING[0]"] == 1  # of two words


# The built site


def test_links_of_a_site_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here">A</h1><a href="#here"></a><a href="b.html#there"></a><a href="c.html"></a>'
        '<a href="b.html#no"></a><a href="https://example.org"></a><script src="https://example.org/x.js"></script>',
        encoding="utf8",
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1><img src="b.svg">', encoding="utf8")
    assert sorted(check_links.problems(tmp_path)) == [
        "a.html: b.html#no: no such anchor",
        "a.html: c.html does not exist",
        "a.html: loads https://example.org/x.js",
        "b.html: b.svg does not exist",
    ]
    assert "https://example.org" in check_links.external(tmp_path)
