"""The documentation says what the code does: tables follow the registries, policies lint, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from moe_select import default_registry, load_policy
from moe_select.cli.app import COMMANDS
from moe_select.policy.fields import FIELDS
from moe_select.policy.variables import VARIABLES

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "moe_select").rglob("*.py"))
    if ">>> " in path.read_text()
]


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page.name, block)
        for page in PAGES
        for block in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
    ]


def section(page: str, name: str) -> str:
    found = re.search(
        rf"<!-- {name}:.*?-->\n(.*?)\n<!-- end of {name} -->", (ROOT / "docs" / page).read_text(), re.DOTALL
    )
    assert found, f"docs/{page} has no section {name}"
    return found[1]


def test_facts_are_documented():
    rows = [
        f"| `{field.name}` | {cell(field.meaning)} | {cell(field.kind.form)} |"
        for field in FIELDS.values()
        if field.unavailable is None
    ]
    assert section("policy.md", "facts").splitlines() == ["| fact | meaning | written |", "|---|---|---|", *rows]


def test_variables_are_documented():
    rows = [f"| `{variable.name}` | {cell(variable.meaning)} |" for variable in VARIABLES.values()]
    assert section("policy.md", "variables").splitlines() == ["| variable | meaning |", "|---|---|", *rows]


def test_commands_are_documented():
    text = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"moe-select {name}" not in text] == []


@pytest.mark.parametrize(("page", "block"), [(p, b) for p, b in blocks("yaml") if b.startswith("version:")])
def test_policies_are_valid(page, block, tmp_path):
    path = tmp_path / page
    path.write_text(block)
    load_policy(environ={}, extra=[path], registry=default_registry())


@pytest.mark.parametrize(("page", "block"), blocks("python"))
def test_python_compiles_and_names_exist(page, block):
    scope: dict[str, object] = {}
    exec(compile(block, page, "exec"), scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_examples(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted
    assert not done.failed
