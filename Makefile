# SPDX-License-Identifier: MIT
#
# The front door. Meson does the work; after `make build`, `ninja -C build` and `meson test -C build` work as always.
#
#   make build       build/lib/ (libcenote, libcenote-driver), build/lib/dropin/, build/bin/cenote
#   make demo        build, then show what it does
#   make check       while you work: the plain unit, process and conformance tests, and the quick checks of the sources
#   make test        all tests: plain, sanitizers, format, static analysis (ONLY="plain asan tsan checks", SUITE=unit)
#   make bench       measure, beside what one would use instead (QUICK=1: in half a minute; docs/performance.md)
#   make coverage    which lines the tests reach
#   make soak        the randomised tests for SOAK_SECONDS each (60), and the models within larger bounds
#   make fuzz        each fuzz target for FUZZ_SECONDS (60), with clang; TARGETS="handles segments" for some of them
#   make install     PREFIX (/usr/local), LIBDIR below it (lib), DESTDIR; PYTHON=1: the Python package, too
#   make dist        build/dist/: the sources as one archive, and what is in it (SPDX)
#   make deb         build/dist/: Debian packages (packaging/debian)
#   make format      lay the sources out with clang-format 14
#   make abi-table   write the tables of the binary interface and cudaTypedefs.h anew, from our headers
#   make errors-page write the page of all error sentences anew, from the sources
#   make gpu-golden  ask a real driver the conformance questions, and keep its answers
#   make gpu-test    the tests that need a GPU, and what shows Cenote on one (PARTS="suites bench"; docs/gpu.md)
#   make clean
#
# Missing packages are installed, as root or through sudo; NO_INSTALL=1 forbids it. `make test` takes warnings of the
# compiler for errors; WERROR=false does not, for compilers younger than the sources.

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= lib
SOAK_SECONDS ?= 60
FUZZ_SECONDS ?= 60
TARGETS ?=
ONLY ?=
SUITE ?=
PARTS ?=
QUICK ?=
PYTHON ?=

.PHONY: build demo check test bench coverage soak fuzz dist deb install install-rights format clean abi-table errors-page gpu-golden \
	gpu-test packages packages-test packages-fuzz packages-bench packages-python packages-deb

build: packages $(BUILD)/build.ninja
	@ninja -C $(BUILD) product

# Meson itself is one of the packages; once it has run, they are no reason to run it again.
$(BUILD)/build.ninja: | packages
	meson setup $(BUILD)

packages:
	@scripts/install_packages.sh build

packages-test:
	@scripts/install_packages.sh test

packages-fuzz:
	@scripts/install_packages.sh fuzz

packages-python:
	@scripts/install_packages.sh python

packages-deb:
	@scripts/install_packages.sh deb

packages-bench:
	@scripts/install_packages.sh bench

demo: build
	@scripts/demo.sh $(BUILD)

test: packages-test
	@scripts/run_tests.py --build $(BUILD) $(addprefix --only ,$(ONLY)) $(addprefix --suite ,$(SUITE))

check: packages
	@scripts/run_tests.py --build $(BUILD) --only checks --only plain \
		$(addprefix --suite ,format text architecture asked unit processes conformance)

bench: packages-bench $(BUILD)/build.ninja
	@scripts/bench.py run --build $(BUILD) $(if $(filter-out 0,$(QUICK)),--quick)

coverage: packages
	@find $(BUILD) -name '*.gcda' -delete 2>/dev/null || true
	@status=0; scripts/run_tests.py --build $(BUILD) --only coverage || status=$$?; \
	scripts/coverage.py $(BUILD)/coverage && exit $$status

soak: build
	@scripts/run_tests.py --build $(BUILD) --only plain --soak $(SOAK_SECONDS)

fuzz: packages-fuzz
	@scripts/fuzz.py --build $(BUILD) --seconds $(FUZZ_SECONDS) $(TARGETS)

# What root has built meanwhile is given back to whose tree this is: with files of root's there, the next `make build`
# of an ordinary user would fail.
install: install-rights build $(if $(filter-out 0,$(PYTHON)),packages-python)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) -Dlibdir=$(LIBDIR) \
		-Dpython=$(if $(filter-out 0,$(PYTHON)),enabled,auto)
	@ninja -C $(BUILD) product
	@meson install -C $(BUILD) --quiet --no-rebuild
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig
	@[ "$$(id -u)" != 0 ] || chown -hR --reference=Makefile $(BUILD) 2>/dev/null || true

install-rights:
	@scripts/check_install.sh $(LIBDIR) $(DESTDIR)$(abspath $(PREFIX))

dist:
	@scripts/make_dist.sh $(BUILD)/dist

deb: packages-deb
	@scripts/make_deb.sh $(BUILD)/dist

format: packages-test
	@scripts/format.py

abi-table: packages
	@scripts/abi_table.py include/cenote tests/abi/table.inc
	@scripts/abi_table.py include/cenote tests/abi/nvml_table.inc nvml.h
	@scripts/generate_typedefs.py . include/cenote/cudaTypedefs.h && clang-format-14 -i include/cenote/cudaTypedefs.h

errors-page:
	@scripts/error_sentences.py write

gpu-golden:
	@scripts/gpu_golden.sh

gpu-test:
	@BUILD="$(BUILD)" scripts/gpu_test.sh $(PARTS)

clean:
	@rm -rf $(BUILD)
