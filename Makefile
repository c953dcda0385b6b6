# Two commands for a fresh machine: `make demo` and `make test`. Both can be run again at any time.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
# What is never imported needs no bytecode, and compiling all of it takes nearly half of the time; what is
# imported is compiled then, once.
unexport PYTHONDONTWRITEBYTECODE
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
new = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11")' \
	&& rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
# Both environments of the tests are made at one time.
MAKEFLAGS += --jobs=2

.PHONY: demo test bench clean

demo: $(VENV)/.demo
	$(VENV)/bin/python -m builders.rebuild --offline --out output
	$(VENV)/bin/python -m scoring tiny-causal --data output --out output/runs/tiny-causal

test: $(VENV)/.dev $(OLDEST)/.ready
	$(VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/.dev
	$(VENV)/bin/python -m benchmarks.rebuild
	$(VENV)/bin/python -m benchmarks.scoring

# A stamp is written last, so an environment that was left half made is made anew. What is there already for
# `make demo` is added to.
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

# The oldest release of the datasets library that must still read what is built.
$(OLDEST)/.ready: tests/oldest.txt
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP) --requirement tests/oldest.txt
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) output
