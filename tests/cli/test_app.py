"""The program around the commands: help, exit codes, imports, interruptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moe_select.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]

LIGHT = {
    "lint": ("lint", "backends.yaml"),
    "select": ("select", "--preset", "zen4", "--scheme", "int8"),
    "explain": ("explain", "--preset", "zen4", "--scheme", "int8"),
    "explain here": ("explain", "--scheme", "int8"),
    "list": ("list",),
    "matrix": ("matrix", "--devices", "h200,zen4"),
    "schema": ("schema",),
    "config": ("config", "--origin"),
    "plugins": ("plugins",),
    "env": ("env",),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"\n  moe-select {name}" in result.stdout.replace("    moe", "  moe")
    assert "\\b" not in result.stdout


def test_the_list_of_commands_is_complete(run):
    text = run("--help").stdout
    for name, place in COMMANDS.items():
        assert name in text
        assert place.summary in text
    assert "Exit codes: 0 yes, 1 no" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_called_what_the_table_says(name):
    from moe_select.cli.app import application

    command = application.get_command(None, name)
    assert command.name == name


def test_version(run):
    from importlib.metadata import version

    assert run("--version").stdout.strip().endswith(version("moe-select"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("explian",), "no such command 'explian' (did you mean 'explain'?)"),
        (("--wrong",), "--wrong"),
        (("lint",), "FILE"),
        (("lint", "/no/such/file"), "/no/such/file"),
        (("lint", "/"), "is a directory"),
        (("select", "--policy", "/no/such/file"), "/no/such/file"),
        (("explain", "surplus"), "surplus"),
        (("matrix", "--json", "--markdown"), "exclude each other"),
    ],
)
def test_wrong_usage(run, arguments, expected):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


@pytest.mark.parametrize("name", LIGHT)
def test_commands_that_import_no_torch(run_process, name):
    code = (
        "import sys\n"
        "from moe_select.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'torch', 'triton', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = run_process("-c", code, *LIGHT[name])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_package_imports_neither_click_nor_rich_nor_torch(run_process):
    code = "import sys, moe_select; sys.exit(str({'click', 'rich', 'torch', 'moe_select.cli'} & set(sys.modules)))"
    assert run_process("-c", code).stderr.strip() == "set()"


@pytest.mark.parametrize("command", [("lint", "backends.yaml"), ("select", "--preset", "zen4", "--scheme", "int8")])
def test_rich_is_imported_for_tables_only(run_process, command):
    code = (
        "import sys\n"
        "from moe_select.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    sys.exit('rich' in sys.modules)\n"
    )
    assert run_process("-c", code, *command).returncode == 0


def test_runs_as_a_module(run_process):
    done = run_process("-m", "moe_select", "select", "--preset", "zen4", "--scheme", "int8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cpu/")


@pytest.mark.parametrize("arguments", [("select", "--scheme", "int9"), ("env", "--preset", "h300"), ("config",)])
def test_wrong_input_has_no_traceback(run_process, arguments):
    done = run_process(
        "-m", "moe_select", *arguments, environ={"MOE_SELECT_BAKEND": "cpu"} if arguments == ("config",) else None
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_reader_that_goes_away():
    """More output than a pipe holds, and a reader that closes it after one line."""
    code = (
        "import os, sys\n"
        "from moe_select.cli import app, main\n"
        "import click\n"
        "@click.command('much')\n"
        "def much():\n"
        "    for _ in range(100_000):\n"
        "        click.echo('line')\n"
        "app.application.get_command = lambda ctx, name: much\n"
        "main(['env'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE
    assert stderr == b""


def test_reader_of_a_table_that_goes_away(run_process):
    """The whole output fits the buffer: the failure comes when it is flushed."""
    code = (
        "import os, sys\n"
        "reading, writing = os.pipe()\n"
        "os.close(reading)\n"
        "os.dup2(writing, 1)\n"
        "from moe_select.cli import main\n"
        "main(['matrix', '--devices', 'h200'])\n"
    )
    done = run_process("-c", code)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_interrupt(run, monkeypatch):
    import click

    from moe_select.cli.app import application

    @click.command("env")
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "get_command", lambda ctx, name: interrupted)
    result = run("env")
    assert (result.exit_code, result.stdout) == (128 + signal.SIGINT, "")
    assert result.stderr == "interrupted\n"


TERMINAL = (
    "import io, sys\n"
    "class Terminal(io.TextIOWrapper):\n"
    "    def isatty(self): return True\n"
    "sys.stdout = Terminal(sys.stdout.buffer, encoding='utf-8')\n"
    "from moe_select.cli import main\n"
    "main(['matrix', '--devices', 'zen4'])\n"
)


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_on_terminals_only_and_not_against_no_color(run_process, environ, coloured):
    done = run_process("-c", TERMINAL, environ={"TERM": "xterm-256color", **environ})
    assert done.returncode == 0, done.stderr
    assert ("\x1b[32m" in done.stdout) == coloured


def test_output_survives_a_narrow_encoding(run_process):
    environ = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_process("-m", "moe_select", "explain", "--preset", "t4", "--scheme", "int8", environ=environ)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_broken_plugin_is_one_line_on_stderr(run, monkeypatch):
    """A warning of the registry, as the terminal shows it."""
    import warnings

    import click

    from moe_select.cli.app import application
    from moe_select.plugins import PluginWarning

    @click.command("env")
    def warns():
        warnings.simplefilter("default")
        warnings.warn("plugin 'acme' of acme-moe 1.0 failed at import: ImportError: x", PluginWarning, stacklevel=1)

    monkeypatch.setattr(application, "get_command", lambda ctx, name: warns)
    result = run("env")
    assert result.stderr == "warning: plugin 'acme' of acme-moe 1.0 failed at import: ImportError: x\n"
    assert os.linesep == "\n"
