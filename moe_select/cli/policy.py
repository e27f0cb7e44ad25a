"""``lint``, ``schema`` and ``config``: the policy as a file, as a schema, and as it is in force."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from moe_select.cli.inputs import policy_option, read_policy
from moe_select.cli.output import finish, print_columns, print_json

if TYPE_CHECKING:
    from moe_select.plugins import Registry
    from moe_select.policy import Problem


@click.command("lint")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--strict", is_flag=True, help="Warnings are problems too.")
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
def lint_command(file: str, strict: bool, as_json: bool) -> None:
    """Check a policy file (- reads stdin) as a layer on the packaged default. Prints every problem with its place.

    Exit code 0 without errors, 1 with errors.

    \b
    Example:
      moe-select lint backends.yaml
    """
    from moe_select.plugins import default_registry
    from moe_select.reporting.phrases import plural

    problems = _lint(file, default_registry())
    errors = sum(problem.is_error for problem in problems)
    warnings = len(problems) - errors
    if as_json:
        print_json([problem_to_dict(problem) for problem in problems])
    else:
        for problem in problems:
            click.echo(f"{problem.render()}\n")
        name = "stdin" if file == "-" else file
        click.echo(f"{name}: {plural(errors, 'error')}, {plural(warnings, 'warning')}" if problems else f"{name}: ok")
    finish(not errors and not (strict and warnings))


def _lint(file: str, registry: Registry) -> list[Problem]:
    from moe_select.policy import lint

    if file != "-":
        return lint(file, registry)
    return lint("<stdin>", registry, text=_stdin_text())


def _stdin_text() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"stdin is not UTF-8: {error.reason} at byte {error.start}") from None


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """One problem as plain data."""
    return {
        "file": problem.source,
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity.value,
        "message": problem.message,
        "help": problem.help,
    }


@click.command("schema")
def schema_command() -> None:
    """Print the JSON schema of policy files, with the names and options of installed backends, for editors.

    \b
    Example:
      moe-select schema > backends.schema.json
    """
    from moe_select.plugins import default_registry
    from moe_select.policy import schema

    print_json(schema(default_registry()))


@click.command("config")
@policy_option
@click.option("--origin", is_flag=True, help="Print each value with the file, line and column it comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print values and origins as JSON.")
def config_command(policy: str | None, origin: bool, as_json: bool) -> None:
    """Print the policy in force: all layers, merged, as YAML that could replace them.

    \b
    Examples:
      moe-select config > merged.yaml
      moe-select config --origin
    """
    from moe_select.plugins import default_registry
    from moe_select.policy import effective_values, policy_to_yaml
    from moe_select.reporting.plain import origin_to_dict, plain

    merged = read_policy(policy, default_registry())
    values = effective_values(merged)
    if as_json:
        print_json(
            {
                "layers": list(merged.layers),
                "fingerprint": merged.fingerprint,
                "values": [
                    {"path": item.path, "value": plain(item.value), "origin": origin_to_dict(item.origin)}
                    for item in values
                ],
            }
        )
    elif origin:
        click.echo(f"# layers, weakest first: {', '.join(merged.layers)}")
        print_columns([(item.path, _one_line(item.value), str(item.origin)) for item in values])
    else:
        click.echo(policy_to_yaml(merged), nl=False)


def _one_line(value: Any) -> str:
    return value if isinstance(value, str) and "\n" not in value else json.dumps(value, ensure_ascii=False, default=str)
