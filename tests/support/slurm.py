"""A stand-in for Slurm: its commands run the tasks of a submitted array at once, on this machine."""

import os

import pytest

from tests.support.helpers import ROOT

SBATCH = r"""#!/bin/bash
# Takes a job as sbatch does, and runs every task of its array at once.
for script; do :; done
cp "$script" "$SLURM_TEST/job-$(ls "$SLURM_TEST" | wc -l).sh"
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' "$script")
for task in $(seq 0 "${last:-0}"); do
  SLURM_ARRAY_TASK_ID=$task SLURM_NODELIST=here bash "$script" >> "$SLURM_TEST/output" 2>&1
done
echo "Submitted batch job 17"
"""
SRUN = """#!/bin/bash
while [ "$1" = "-l" ] || [ "$1" = "-n" ]; do [ "$1" = "-n" ] && shift; shift; done
exec "$@"
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of Slurm that run a submitted job at once; gives the folder with the submitted scripts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "jobs").mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "scontrol": "#!/bin/bash\necho here\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_TEST", str(tmp_path / "jobs"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "jobs"
