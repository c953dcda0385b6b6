# Two commands for a fresh machine: `make demo` and `make test`. Both can be run again at any time.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
PIP := -m pip install --quiet --disable-pip-version-check
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

# A stamp is written last, so an environment that was left half made is made anew.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11")'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP) --constraint constraints.txt --editable '.[score]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	mv $(VENV)/.demo $(VENV)/.unfinished
	$(VENV)/bin/python $(PIP) --constraint constraints.txt --editable '.[score,dev]'
	mv $(VENV)/.unfinished $(VENV)/.demo
	touch $@

# The oldest release of the datasets library that must still read what is built.
$(OLDEST)/.ready: tests/oldest.txt
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP) --requirement tests/oldest.txt
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) output
