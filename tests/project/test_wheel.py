"""The wheel, installed into an empty environment outside the checkout: functions, the command and bundled files."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile

import pytest

from tests.support.helpers import ROOT

PACKAGES = ("builders", "cards", "mitigation", "pmi", "scoring")
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_wheel(sys.argv[1]))"
#: What a user does first; it prints where each package is from.
FIRST_STEPS = """
import builders, cards, mitigation, pmi, scoring
for package in (builders, cards, mitigation, pmi, scoring):
    print(package.__file__)
builders.build("occugender", out="output", offline=True)
assert builders.load("occugender", "jobs-paper", split="test").num_rows == 40
result = scoring.evaluate("tiny-causal", benchmarks=["occugender"], limit=20, resamples=50)
assert len(result.table()) > 10
result.save("run")
"""


def run(*command, cwd):
    """What a process prints that sees nothing of the checkout."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PROBES_MIRROR")}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the checkout, because a build leaves files beside the sources."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "probes.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return out / run(sys.executable, "-c", BUILD, out, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """The ``bin`` of an environment with the wheel, which sees the packages that the project needs and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    # A path in a .pth file adds a folder, and not what editable installations in it add.
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_the_wheel_has_every_file_of_the_packages(wheel):
    kept = {path for path in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in path}
    files = {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert kept == files | {"probes.py"}


def test_functions_the_command_and_bundled_files_work_outside_the_checkout(environment, tmp_path):
    places = run(environment / "python", "-c", FIRST_STEPS, cwd=tmp_path).splitlines()
    assert len(places) == len(PACKAGES)
    for place in places:
        assert place.startswith(str(environment.parent))
    report = (tmp_path / "run" / "report.html").read_text()
    style = (ROOT / "scoring" / "report" / "templates" / "style.css").read_text()
    assert style.splitlines()[0] in report
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run(environment / "probes", "--version", cwd=tmp_path) == f"gender-neutral-probes {version}\n"
    told = run(environment / "probes", "leaderboard", "run", "--out", "page.html", cwd=tmp_path)
    assert told == "Written: page.html\n"
    assert "occugender" in (tmp_path / "page.html").read_text()
