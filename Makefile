# kiln: what a person types. `make` alone lists it. Steps of more than a line are in .ci/step, what
# needs rigs or measures in lab/run; `make NAME` runs those, too.

CARGO  ?= cargo
PYTHON ?= python3
TARGET := $(or $(CARGO_TARGET_DIR),target)
KILN   := $(TARGET)/release/kiln
export CARGO PYTHON

.PHONY: help setup demo check test build install lint doc house dist simulate fuzz papers clean

help:
	@echo 'make demo      encode real data, lose nodes, repair, decode, compare (DATA=path, KEEP=1)'
	@echo 'make check     in minutes, as any user: format, lints, docs, all tests but the slowest'
	@echo 'make test      all checks and tests, as CI runs them'
	@echo 'make build     the program, as $(KILN)'
	@echo 'make install   the program and the C library for others (PREFIX=/usr/local, DESTDIR=)'
	@echo 'make lint      formatting, house rules, clippy, licences and advisories of dependencies'
	@echo 'make doc       the documentation of all crates; a link to nowhere is an error'
	@echo 'make dist      what is shipped: static binary, .deb, tarball, checksums; dist-test,'
	@echo '               dist-twice: it is tried, it is made twice and compared'
	@echo 'make simulate  clusters in virtual time while everything goes wrong (SEEDS=10000, FIRST=0)'
	@echo 'make fuzz      fuzz the parsers, guided by coverage (FUZZ_SECONDS=60 each)'
	@echo 'make house     size and shape of the sources, as one line of JSON'
	@echo 'make clean     remove what was built'
	@echo 'make NAME      a step of .ci/step: msrv, miri, portable, kernels, neon-test, package,'
	@echo '               ceph-plugin, python-test, python-wheel ...'
	@echo 'make NAME-test, make bench-NAME   tests on rigs, and measurements: lab/run lists them'

# Looks for the tools; on Debian as root it installs what is missing.
setup:
	@sh .ci/setup

demo: build
	$(PYTHON) demo/demo.py --kiln '$(KILN)' $(if $(DATA),--data '$(DATA)') $(if $(KEEP),--keep)

# An answer in minutes on two cores, for any user: nothing is installed, no network is used once the
# crates are there. Tests that take long are left to `make test`; which, it says at the end.
check:
	@sh .ci/setup --look
	$(CARGO) fmt --all --check
	@$(PYTHON) .ci/tidy.py
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	@.ci/step package
	@$(PYTHON) .ci/quick.py --cargo '$(CARGO)'

# Clusters wait for daemons and cut links most of their time: they run beside the tests, which
# compute. All is built before, so that no build runs while a test measures time.
test: lint doc
	$(CARGO) test --workspace --no-run
	@$(PYTHON) .ci/beside.py --logs '$(TARGET)/beside' \
	    --beside ceph 'lab/run ceph-cluster' \
	    --beside ceph-18.2 'RELEASE=18.2 lab/run ceph-cluster' \
	    --beside ceph-20.2 'RELEASE=20.2 lab/run ceph-cluster' \
	    --beside testbed 'lab/run testbed-test && lab/run repair-test' \
	    --beside volumes 'lab/run volume-test && lab/run volume-bench-test' \
	    --beside mount 'lab/run mount-test' \
	    --beside online 'lab/run online-test && lab/run clay-test' \
	    --beside s3 'lab/run s3-test && lab/run buckets-test' \
	    --beside clients 'lab/run clients-test && lab/run conformance-test' \
	    --beside python '.ci/step python-test && lab/run encode-bench-test' \
	    --beside hdfs 'lab/run hdfs-test' \
	    --beside page 'lab/run page-test' \
	    --beside howto 'lab/run howto-test' \
	    --beside neon '.ci/step neon-test && lab/run neon-count' \
	    --beside migrate '.ci/step migration-test' \
	    '$(CARGO) test --workspace --no-fail-fast && .ci/step kernels && lab/run check'

build: setup
	$(CARGO) build --release -p kiln

lint: setup
	$(CARGO) fmt --all --check
	@$(PYTHON) .ci/tidy.py
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(PYTHON) .ci/audit.py --cargo '$(CARGO)'

doc: setup
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

house:
	@$(PYTHON) .ci/house.py

install dist simulate fuzz:
	@.ci/step $@

# What measures is the lab's.
bench-%:
	@lab/run $@

papers:
	@lab/run $@

clean:
	$(CARGO) clean
	rm -rf demo/out

# Any other name is a step.
.DEFAULT:
	@.ci/step $@
