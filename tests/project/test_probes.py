"""The command ``probes``: every subcommand, what is missing, and the state of a machine."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
import torch
import typer
from packaging.requirements import Requirement
from rich.console import Console
from typer.testing import CliRunner

import probes
from builders import datasets
from cards.common.options import ended
from cards.common.packages import installed_version
from cards.common.registry import INCLUDED
from mitigation import recipes
from mitigation.summaries import summaries
from scoring import benchmarks
from tests.support.helpers import ROOT

RUNNER = CliRunner()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_names_every_command(option):
    result = RUNNER.invoke(probes.app, [option])
    assert result.exit_code == 0
    for name in (*probes.COMMANDS, "list", "doctor"):
        assert name in result.output


@pytest.mark.parametrize("name", probes.COMMANDS)
def test_every_command_has_its_help(name):
    result = RUNNER.invoke(probes.app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_the_version_is_that_of_the_package():
    result = RUNNER.invoke(probes.app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith(probes.PACKAGE)


def test_an_unknown_command_is_refused():
    assert RUNNER.invoke(probes.app, ["scroe"]).exit_code == 2


def test_a_missing_package_is_one_sentence_with_the_command_that_installs_it(monkeypatch, capsys):
    def absent(_module):
        raise ModuleNotFoundError("No module named 'numba'", name="numba")

    monkeypatch.setattr(probes, "import_module", absent)
    assert RUNNER.invoke(probes.app, ["pmi", "count"]).exit_code == 1
    with pytest.raises(SystemExit):
        probes.imported("pmi")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: probes pmi needs the package numba, which is not installed; install it with pip ")
    assert "[pmi]" in line


def test_the_list_has_all_registries():
    lines = RUNNER.invoke(probes.app, ["list"]).output
    for name in (*datasets.names(), *benchmarks.names(), *recipes.names(), "tiny-causal", "tiny-masked"):
        assert name in lines


def test_the_list_waits_for_no_package_that_only_a_run_needs():
    code = "import sys, probes, scoring; [*probes.catalogue()]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"torch", "transformers", "scipy", "matplotlib", "peft", "datasets"}


def test_the_list_has_the_summary_that_each_recipe_has_itself():
    assert summaries() == {name: recipes.get(name).summary for name in recipes.names()}


def test_the_doctor_needs_a_folder(tmp_path):
    (tmp_path / "rows.json").write_text("[]")
    done = RUNNER.invoke(probes.app, ["doctor", "--data", str(tmp_path / "rows.json")])
    assert done.exit_code == 2
    assert "is the file" in done.output


def test_the_doctor_says_what_is_not_built_and_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        probes, "installed_version", lambda requirement: "" if requirement.name == "bitsandbytes" else "9.9"
    )
    output = " ".join(RUNNER.invoke(probes.app, ["doctor", "--data", str(tmp_path)]).output.split())
    assert "[train] missing: bitsandbytes" in output
    assert f"probes build {' '.join(datasets.names())} --out {tmp_path}" in output
    assert "[score] installed" in output


def test_the_doctor_knows_every_package_of_every_extra_of_the_project(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    output = RUNNER.invoke(probes.app, ["doctor", "--data", str(tmp_path)]).output
    lines = {line.partition("]")[0].removeprefix("["): line for line in output.splitlines() if line.startswith("[")}
    assert set(lines) == set(project["optional-dependencies"]) - {probes.DEVELOPMENT}
    for extra, line in lines.items():
        for requirement in map(Requirement, project["optional-dependencies"][extra]):
            assert requirement.name == probes.PACKAGE or requirement.name in line, (extra, requirement.name)


def test_a_package_that_is_too_old_is_missing():
    assert installed_version(Requirement("pytest"))
    assert not installed_version(Requirement("pytest>=9999"))
    assert not installed_version(Requirement("no-such-package"))


def test_packages_of_the_user_do_not_shadow_those_of_the_project(tmp_path):
    for name in ("cards", "scoring"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    command = Path(sys.executable).with_name("probes")
    done = subprocess.run([command, "list"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "occugender" in done.stdout


def test_a_missing_client_of_servers_is_one_sentence_with_the_extra_that_has_it():
    code = """
import sys
sys.modules["httpx2"] = None
from scoring.inference.engines.served import connect_to
from scoring.options import ServedOptions
try:
    connect_to(ServedOptions(["http://127.0.0.1:9/v1"]))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    (line,) = done.stdout.splitlines()
    assert line.startswith("ScoringError Asking a server needs the package httpx2, which is not installed; install it")
    assert "[serve]" in line


@pytest.mark.fault(60)
@pytest.mark.parametrize("stream", [">&-", ">/dev/full", ">&- 2>&-"])
def test_an_output_that_is_closed_or_full_is_no_traceback(stream):
    command = f"{shlex.quote(sys.executable)} -m probes list {stream}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1, done.stderr
    assert done.returncode == (1 if "full" in stream else 0)
    assert ("cannot be written" in done.stderr) == ("full" in stream)


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
    ids=["Python", "Arrow", "a GPU", "torch"],
)
def test_too_little_memory_is_one_sentence(error, capsys, monkeypatch):
    # Files that other tests included would be named beside the error that is no lack of memory.
    for name in [name for name in sys.modules if name.startswith(INCLUDED)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(typer.Exit) as end, ended(Console(stderr=True)):
        raise error
    assert end.value.exit_code == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "too little memory" in lines[0]
    with pytest.raises(RuntimeError, match="another"), ended(Console(stderr=True)):
        raise RuntimeError("another")


@pytest.mark.parametrize(
    "words",
    [
        ["--benchmarks", "stereoset,pronouns"],
        ["--benchmarks", "stereoset pronouns"],
        ["--benchmarks", "stereoset", "pronouns"],
        ["--benchmarks=stereoset", "--benchmarks", "pronouns"],
        ["--benchmarks", "stereoset", "--benchmarks=pronouns"],
    ],
)
def test_a_list_may_have_any_form(words):
    given = probes.imported("score").make_context("score", [*words, "tiny-causal"]).params
    assert given["models"] == ["tiny-causal"]
    assert given["benchmarks"].replace(" ", ",") == "stereoset,pronouns"
