# What users and developers type. The work is done by scripts/.

.PHONY: help demo test test-all test-jax docs course style sanitize nightly bench bench-league wheel clean

help:
	@echo "make demo      on a fresh machine: installs what is missing, builds, runs the examples"
	@echo "make test      the same set-up, then the tests"
	@echo "make test-all  the long ones too: differential tests, sanitizers"
	@echo "make test-jax  tremula.jax with a range of versions of JAX, each in .venv-jax-VERSION"
	@echo "make docs      the documentation as a site with a search, in build/site;"
	@echo "               COURSE=1 runs the course for it, with the pictures"
	@echo "make course    runs the notebooks of course/; OPEN=1 opens them in JupyterLab instead"
	@echo "make style     what clang-format, clang-tidy and ruff find (after make test)"
	@echo "make sanitize  the C tests with the address and undefined-behaviour sanitizers"
	@echo "make nightly   hours: fuzzing, interrupts, damaged profiles, failing writes (after make test)"
	@echo "make bench     the peers side by side, in one run, and a table"
	@echo "make bench-league  Tremula beside JAX, PyTorch, ONNX Runtime, OpenVINO, TensorFlow, XLA:"
	@echo "               ROWS=bert,lstm PEERS=tremula,torch THREADS=1,2 choose a part"
	@echo "make wheel     a wheel for any x86-64 Linux of the last six years, in build/portable"
	@echo "make clean     removes build/ and the Python environments"
	@echo "PYTHON=...     chooses the Python that makes .venv (3.9 to 3.13)"

export PYTHON

demo:
	@bash scripts/demo.sh

test:
	@bash scripts/test.sh quick

test-all:
	@bash scripts/test.sh all

test-jax:
	@bash scripts/test.sh jax

docs:
	@bash scripts/docs.sh

course:
	@bash scripts/course.sh $(if $(OPEN),open)

style:
	@bash scripts/style.sh

sanitize:
	@bash scripts/test.sh sanitize

nightly:
	@bash scripts/nightly.sh

bench:
	@bash scripts/bench.sh

bench-league:
	@bash scripts/bench.sh league

wheel:
	@bash scripts/wheel.sh

clean:
	rm -rf build .venv .venv-2.21 .venv-jax-* .venv-bench-* .venv-types .venv-docs .venv-mpich
