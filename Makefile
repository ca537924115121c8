# kiln: what a person types. `make` alone lists the targets.

CARGO  ?= cargo
PYTHON ?= python3
# Kernels under which the tests of gf and code run once more: all but the one that the suite runs
# with. Those the CPU lacks are left out.
KERNELS ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
KILN   := $(TARGET)/release/kiln

.PHONY: help setup build install test check doc msrv miri portable package lint demo kernels \
    ceph-plugin ceph-host ceph-cluster ceph-releases ceph-up ceph-test ceph-down ceph-soak \
    bench-ceph bench-core bench-xor bench-plan bench-order bench-devices bench-repair bench-pool \
    dist dist-test dist-twice bench-average bench-volume numbers pictures simulate testbed-up \
    testbed-down testbed-test volume-test s3-test bench-s3 python-test python-wheel hdfs-up \
    hdfs-down hdfs-test page-test howto-test tutorial-test bench-online online-test bench-clay \
    clay-test repair-test neon-test bench-neon bench-encode encode-bench-test volume-bench-test \
    hdfs-faults bench-hdfs fuzz clean

help:
	@echo 'make demo    encode real data, lose nodes, repair, decode, compare (DATA=path, KEEP=1)'
	@echo 'make check   in minutes, as any user: format, lints, docs, all tests but the slowest'
	@echo 'make test    all checks and tests, as CI runs them'
	@echo 'make build   the program, as $(KILN)'
	@echo 'make dist    what is shipped: static binary, .deb, tarball, checksums, bill of materials'
	@echo 'make dist-test  makes it and tries it'
	@echo 'make dist-twice  makes it twice, in different folders, and compares every byte'
	@echo 'make install  the program and the C library for others (PREFIX=/usr/local)'
	@echo 'make ceph-plugin  libec_kiln.so for the Ceph of this machine, in $(CEPH)'
	@echo 'make ceph-up, ceph-test, ceph-down  a cluster of 16 OSDs here, with the plugin'
	@echo 'make ceph-releases  the small cluster test with Ceph $(CEPH_RELEASES); with RELEASE=18.2'
	@echo '    any target of Ceph runs in a Debian that has that release (as root)'
	@echo 'make ceph-soak  random work while OSDs die; nothing may be wrong (MINUTES=20 WIDE=1)'
	@echo 'make bench-ceph  what recovery and coding cost inside Ceph (QUICK=1: 4+2 only)'
	@echo 'make bench-clay  an OSD is lost in Ceph: Clay beside RS, by the clock (QUICK=1; as root)'
	@echo '                 with ORDERS=1: natural order beside Gray, on emulated disks'
	@echo 'make clay-test  what it computes, and a minute of it'
	@echo 'make bench-core  coding speed against other libraries (QUICK=1: headline ratios)'
	@echo 'make bench-xor   XOR codes: orders, schedules and Jerasure (QUICK=1: headline ratios)'
	@echo '    both with ISA=avx2: everybody held to AVX2, so on any x86 machine'
	@echo 'make bench-order  orders of sub-chunks: runs, and what they cost at write and read'
	@echo 'make bench-devices  reads of repairs on emulated disks, by order (QUICK=1; as root)'
	@echo 'make bench-plan  where repairs are computed: load and traffic (QUICK=1: few blocks)'
	@echo 'make bench-pool  pools: operations by number of nodes, small files, proofs (QUICK=1)'
	@echo 'make bench-encode  a whole encode, checksums and all, beside cp (FOLDER=a tmpfs; QUICK=1)'
	@echo 'make bench-average  what repairs of several losses read on average (counted)'
	@echo 'make numbers     the headline numbers of lab/results, from the data beside them'
	@echo 'make pictures    the pictures of lab/results again, from the data beside them'
	@echo 'make bench-repair  repairs over shaped links on this machine (QUICK=1: 12+4; as root)'
	@echo '    BENCH_ARGS="--minutes 50": no longer than that; the next run goes on where it ended'
	@echo 'make repair-test  what it computes, and all of it tiny'
	@echo 'make testbed-up, testbed-down  N hosts here with links of RATE and agents (as root)'
	@echo 'make bench-volume  what volumes cost at devices and links (QUICK=1; as root)'
	@echo 'make bench-online  what erasure coding costs online: Ceph and volumes (QUICK=1; as root)'
	@echo '    ALL=1: 4 KiB alone, on every pool and volume (PLUGIN=1, RELEASE=20.2: more of them)'
	@echo 'make online-test  what it computes, and all of it tiny'
	@echo 'make volume-test  volumes under nbdcopy, qemu-img, fio, and a database (as root)'
	@echo 'make volume-bench-test  bench-volume in a minute: it runs, no more is said (as root)'
	@echo 'make s3-test  files and a pool in 14 buckets of an S3 server here; one bucket is lost'
	@echo 'make python-test  kiln for Python, against Ceph and zfec (WHEEL=1: as pip installs it)'
	@echo 'make python-wheel  a wheel of it, in target/wheels'
	@echo 'make howto-test  the commands of README and of the how-tos, as they stand there'
	@echo 'make tutorial-test  the tutorial from a clone to the first change (twenty minutes)'
	@echo 'make page-test  the page of a coordinator in Chromium, rules and dashboard (as root)'
	@echo 'make bench-s3  what repairs download and ask for, and what faults do (QUICK=1)'
	@echo 'make hdfs-up, hdfs-down  a NameNode and DATANODES=14 with links of RATE here (as root)'
	@echo 'make hdfs-test  files and a pool on 14 DataNodes here, of which one is killed (as root)'
	@echo '    RESTART=1: the NameNode is killed too, during puts and a repair; on idle cores'
	@echo 'make hdfs-faults  a pool in HDFS while requests and DataNodes fail (QUICK=1; as root)'
	@echo 'make bench-hdfs  pools in HDFS beside its own Reed-Solomon (QUICK=1: 20 minutes; as root)'
	@echo 'make simulate  clusters in virtual time while everything goes wrong (SEEDS=10000, FIRST=0)'
	@echo 'make fuzz    fuzz the parsers (FUZZ_SECONDS=60 each), guided by coverage'
	@echo 'make lint    formatting, clippy, and a look at what we depend on'
	@echo 'make doc     the documentation of all crates; a link to nowhere is an error'
	@echo 'make msrv    builds with the oldest Rust that we promise'
	@echo 'make miri    the pure parts of gf and code under Miri'
	@echo 'make portable  checks gf and code for aarch64'
	@echo 'make neon-test  its kernels, under emulation'
	@echo 'make bench-neon  instructions that coding takes there, kiln and others (QUICK=1)'
	@echo 'make package   packs gf and code as for a registry'
	@echo 'make clean   remove what was built'

# Looks for the tools; on Debian as root it installs what is missing.
setup:
	@CARGO='$(CARGO)' PYTHON='$(PYTHON)' sh .ci/setup

build: setup
	$(CARGO) build --release -p kiln

# The program and the C interface (shared and static library, header, pkg-config file), to be used
# below PREFIX; packagers collect them below DESTDIR.
PREFIX ?= /usr/local

install: build
	$(CARGO) build --release -p kiln-c
	sh bindings/c/install.sh '$(TARGET)/release/libkiln_c.a' '$(PREFIX)' '$(DESTDIR)'
	install -D -m 755 '$(KILN)' '$(DESTDIR)$(PREFIX)/bin/kiln'

# What is shipped, in $(TARGET)/dist-out: binary, tarball, .deb, bill of materials, checksums.
# TRIPLE=aarch64-unknown-linux-musl makes those of aarch64.
TRIPLE        ?= x86_64-unknown-linux-musl
DIST          := $(TARGET)/dist-out
DIST_PACKAGES := $(if $(TRIPLE:aarch64-%=),musl-tools,gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    qemu-user-static)
# What tries it; what cannot be had is skipped, and said.
TRY_PACKAGES  := man-db zsh fish prometheus debootstrap

dist-packages = LOG_DIR='$(TARGET)' && mkdir -p "$$LOG_DIR" && . .ci/packages.sh && \
    { packages $(1) || true; }

dist: setup
	@$(call dist-packages,$(DIST_PACKAGES))
	CARGO='$(CARGO)' TRIPLE='$(TRIPLE)' sh dist/dist.sh '$(TARGET)' '$(DIST)'

# What is shipped, built twice in different folders: the same bytes.
dist-twice: setup
	@$(call dist-packages,$(DIST_PACKAGES))
	@CARGO='$(CARGO)' TRIPLE='$(TRIPLE)' sh dist/twice.sh '$(TARGET)/dist-twice' || [ $$? = 3 ]

# Exit code 3 of the build: not possible here, which was said.
dist-test: setup
	@$(call dist-packages,$(DIST_PACKAGES) $(TRY_PACKAGES))
	@CARGO='$(CARGO)' TRIPLE='$(TRIPLE)' sh dist/dist.sh '$(TARGET)' '$(DIST)'; \
	status=$$?; case $$status in \
	    0) sh dist/dist_test.sh '$(DIST)' ;; \
	    3) ;; \
	    *) exit $$status ;; \
	esac

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(PYTHON) .ci/audit.py --cargo '$(CARGO)'
	@$(PYTHON) .ci/evidence.py

doc: setup
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

# An answer in minutes on two cores, for any user: nothing is installed, no network is used once the
# crates are there. Tests that take long are left to `make test`; which, it says at the end.
check:
	@CARGO='$(CARGO)' PYTHON='$(PYTHON)' sh .ci/setup --look
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(SUB) package
	@$(PYTHON) .ci/evidence.py
	@$(PYTHON) .ci/quick.py --cargo '$(CARGO)'

# What others would get of gf and code, without asking a registry.
package:
	$(CARGO) package --no-verify --offline --allow-dirty -p kiln-gf -p kiln-code

# The rest of portability. Each says what it skips where a toolchain cannot be had.
msrv:
	@CARGO='$(CARGO)' sh .ci/toolchain msrv '$(TARGET)'

miri:
	@CARGO='$(CARGO)' sh .ci/toolchain miri '$(TARGET)'

portable:
	@CARGO='$(CARGO)' sh .ci/toolchain portable '$(TARGET)'

# The clusters wait for daemons and cut links most of their time: they run beside the tests, which
# compute. All is built before, so that nobody waits for a build under his own clock.
SUB   := $(MAKE) --no-print-directory
BUILT := $(PYTHON) .ci/built.py --cargo '$(CARGO)'

test: lint doc
	$(CARGO) test --workspace --no-run
	@$(PYTHON) .ci/beside.py --logs '$(TARGET)/beside' \
	    --beside ceph '$(SUB) ceph-cluster' \
	    $(foreach release,$(CEPH_RELEASES),--beside ceph-$(release) \
	        '$(SUB) ceph-cluster RELEASE=$(release)') \
	    --beside testbed '$(SUB) testbed-test repair-test' \
	    --beside volumes '$(SUB) volume-test volume-bench-test' \
	    --beside online '$(SUB) online-test clay-test' \
	    --beside s3 '$(SUB) s3-test' \
	    --beside python '$(SUB) python-test encode-bench-test' \
	    --beside hdfs '$(SUB) hdfs-test' \
	    --beside page '$(SUB) page-test' \
	    --beside howto '$(SUB) howto-test' \
	    --beside neon '$(SUB) neon-test' \
	    --beside migrate '$(PYTHON) bindings/ceph/migration_test.py' \
	    '$(CARGO) test --workspace --no-fail-fast && $(SUB) kernels'

# The suite above ran with the fastest kernel; the bytes must be the same with every other. What
# never runs a kernel (the DAGs of all loss patterns) or runs all of them by itself is not repeated.
# Exit code 3 of the probe: the CPU lacks the kernel. Anything else that fails is a failure.
kernels: setup
	@set -e; programs=$$($(BUILT) kiln:kiln kiln-gf:lib kiln-code:vectors kiln-gf:kernels); \
	set -- $$programs; kernels="$(or $(KERNELS),$$("$$4" --others))"; \
	for kernel in $$kernels; do \
	    export KILN_KERNEL=$$kernel; \
	    reason=$$("$$1" codes rs:2+1 2>&1) && status=0 || status=$$?; \
	    case $$status in \
	        0) echo "== kernel $$kernel"; (cd crates/gf; "$$2" -q); (cd crates/code; "$$3" -q) ;; \
	        3) echo "== kernel $$kernel: SKIPPED: $$reason" ;; \
	        *) echo "$$reason"; exit 1 ;; \
	    esac; \
	done

# The kernels of another architecture, under emulation: every byte as it should be; no word of
# speed.
NEON_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
neon-test: setup
	@LOG_DIR='$(TARGET)' && . .ci/packages.sh && { packages $(NEON_PACKAGES) || true; } && \
	CARGO='$(CARGO)' sh .ci/toolchain neon '$(TARGET)'

# Instructions that kiln and others take for a byte there.
bench-neon: setup
	CARGO='$(CARGO)' sh lab/neon/build.sh '$(TARGET)/bench-neon'
	$(PYTHON) -m lab.neon.count '$(TARGET)/bench-neon' --out '$(TARGET)/bench' $(if $(QUICK),--quick)

# The plugin for this machine's Ceph, beside links to the stock ones; with RELEASE=18.2 or 20.2 for
# that one, in a Debian of its own, where all that is said below then runs.
RELEASE ?=
CEPH    := $(TARGET)/ceph$(RELEASE:%=-%)
# What benches say of sources and compiler, which are not to be seen from such a Debian.
BUILDER = $(if $(RELEASE),BENCH_RUSTC="$$(rustc --version)" \
    BENCH_COMMIT="$$(git describe --always --dirty=+)")
IN_CEPH := $(if $(RELEASE),sh bindings/ceph/root.sh $(RELEASE) '$(TARGET)/debian-ceph-$(RELEASE)')

ceph-plugin: setup
	$(CARGO) build --release -p kiln-c
	$(IN_CEPH) sh bindings/ceph/build.sh '$(TARGET)/release/libkiln_c.a' '$(CEPH)'

# Drives the plugin as an OSD would, beside Ceph's own. Exit code 3 of the build: no Ceph here.
ceph-host: setup
	@$(CARGO) build --workspace --lib --tests
	@$(IN_CEPH) sh bindings/ceph/build.sh '$(TARGET)/debug/libkiln_c.a' '$(CEPH)-test'; \
	status=$$?; case $$status in \
	    0) echo '== plugin of Ceph $(RELEASE)'; $(IN_CEPH) '$(CEPH)-test/host' '$(CEPH)-test' ;; \
	    3) echo '== plugin of Ceph $(RELEASE): SKIPPED, see above' ;; \
	    *) exit $$status ;; \
	esac

# A real cluster. Debian's Python module rados is for the system's own Python.
CEPH_PYTHON   := /usr/bin/python3
CEPH_PACKAGES := ceph-mon ceph-mgr ceph-osd ceph-common python3-rados
CEPH_OSDS     ?= 16

ceph-packages = LOG_DIR='$(TARGET)' && mkdir -p "$$LOG_DIR" && . .ci/packages.sh && \
    $(if $(RELEASE),true,packages $(CEPH_PACKAGES))

# The bounded form, part of `make test`; made by ceph-host, so that Ceph is of a known release.
ceph-cluster: ceph-host
	@if [ ! -e '$(CEPH)-test/host' ]; then echo '== cluster of Ceph $(RELEASE): SKIPPED, see above'; \
	elif $(ceph-packages); then echo '== cluster of Ceph $(RELEASE)'; \
	    $(IN_CEPH) $(CEPH_PYTHON) -m lab.system.ceph_test '$(CEPH)-cluster-test' \
	        --plugins '$(CEPH)-test'; \
	else echo '== cluster of Ceph $(RELEASE): SKIPPED: cannot install $(CEPH_PACKAGES)'; fi

# The same with the other releases that the plugin is for, one after the other.
CEPH_RELEASES := 18.2 20.2

ceph-releases:
	@set -e; for release in $(CEPH_RELEASES); do $(SUB) ceph-cluster RELEASE=$$release; done

ceph-up: ceph-plugin
	$(ceph-packages)
	$(IN_CEPH) $(CEPH_PYTHON) -m lab.rig.ceph up '$(CEPH)-cluster' --plugins '$(CEPH)' \
	    --osds $(CEPH_OSDS)

ceph-test: ceph-up
	$(IN_CEPH) $(CEPH_PYTHON) -m lab.system.ceph_test '$(CEPH)-cluster' --plugins '$(CEPH)' \
	    --size full --keep

ceph-down:
	$(IN_CEPH) $(CEPH_PYTHON) -m lab.rig.ceph down '$(CEPH)-cluster'

# Random work while OSDs die, for MINUTES; the seed that it prints repeats it (SEED=N). WIDE=1:
# codes of 12 to 16 chunks on 16 OSDs.
MINUTES ?= 20

ceph-soak: ceph-plugin
	$(ceph-packages)
	$(IN_CEPH) $(CEPH_PYTHON) -m lab.system.ceph_soak '$(CEPH)-soak' --plugins '$(CEPH)' \
	    --minutes '$(MINUTES)' $(if $(WIDE),--wide) $(if $(SEED),--seed '$(SEED)')

bench-ceph: ceph-plugin
	$(ceph-packages)
	$(BUILDER) $(IN_CEPH) $(CEPH_PYTHON) -m lab.ceph.bench '$(CEPH)-bench' --plugins '$(CEPH)' \
	    --out '$(TARGET)/bench' $(if $(QUICK),--quick) $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/bench/ceph$(if $(QUICK),-quick).json'

# The Clay paper's evaluation in a cluster whose OSDs have devices and shaped links of their own.
bench-clay: build ceph-plugin
	@$(ceph-packages)
	$(BUILDER) $(IN_CEPH) $(CEPH_PYTHON) -m lab.clay.bench '$(TARGET)/clay-bench' \
	    --kiln '$(KILN)' --plugins '$(CEPH)' --out '$(TARGET)/bench' $(if $(QUICK),--quick) \
	    $(if $(ORDERS),--orders) $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/bench/clay$(if $(ORDERS),-orders)$(if $(QUICK),-quick).json'

# What it computes, then a minute of each form. Exit code 3: not possible here, which was said.
clay-test: setup
	@echo '== Clay in Ceph' && $(PYTHON) -m lab.clay.clay_test && \
	kiln=$$($(BUILT) kiln:kiln) && { $(ceph-packages) || true; } && \
	for form in '' --orders; do \
	    $(CEPH_PYTHON) -m lab.clay.bench '$(TARGET)/clay-test' --kiln "$$kiln" \
	        --out '$(TARGET)/clay-test-out' --tiny --again $$form || [ $$? = 3 ] || exit; \
	done

# Hosts in network namespaces with shaped links, an agent in each. As root.
N       ?= 16
RATE    ?= 100mbit
TESTBED := $(TARGET)/testbed

testbed-up: build
	$(PYTHON) -m lab.rig.testbed up '$(TESTBED)' --kiln '$(KILN)' --hosts $(N) --rate $(RATE)

testbed-down:
	$(PYTHON) -m lab.rig.testbed down '$(TESTBED)'

# Volumes under nbdinfo, nbdcopy, qemu-img and fio, and as a file system with a database on it.
VOLUME_PACKAGES := libnbd-bin qemu-utils fio e2fsprogs

volume-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && LOG_DIR='$(TARGET)' && . .ci/packages.sh && \
	echo '== volumes' && { packages $(VOLUME_PACKAGES) || true; } && \
	{ $(PYTHON) -m lab.system.volume_test '$(TARGET)/volume-test' --kiln "$$kiln" || \
	    [ $$? = 3 ]; }

# The commands of README and of the how-tos, as they stand there.
howto-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && LOG_DIR='$(TARGET)' && . .ci/packages.sh && \
	echo '== how-tos' && \
	{ packages $(VOLUME_PACKAGES) $(HDFS_PACKAGES) curl || true; } && \
	{ $(PYTHON) -m lab.system.howto_test '$(TARGET)/howto-test' --kiln "$$kiln" || \
	    [ $$? = 3 ]; }

# The tutorial from a clone to the first change. It builds everything anew: for the day, not for CI.
tutorial-test: setup
	$(PYTHON) -m lab.system.tutorial_test '$(TARGET)/tutorial-test'

# What `make bench-volume` does, tiny. Exit code 3: not possible here, which was said.
volume-bench-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && LOG_DIR='$(TARGET)' && . .ci/packages.sh && \
	echo '== bench-volume' && { packages $(VOLUME_PACKAGES) iproute2 || true; } && \
	{ timeout 600 $(PYTHON) -m lab.volume.bench '$(TARGET)/volume-bench-test' --kiln "$$kiln" \
	    --out '$(TARGET)/volume-bench-test.out' --tiny || [ $$? = 3 ]; }

bench-s3: build
	@$(PYTHON) -m lab.s3.bench '$(TARGET)/bench-s3' --kiln '$(KILN)' $(if $(QUICK),--quick) \
	    --out '$(TARGET)/s3$(if $(QUICK),-quick).json' $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/s3$(if $(QUICK),-quick).json'

# Files and a pool in buckets of an S3 server of this machine. Exit code 3: none can be had.
s3-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && echo '== s3' && \
	{ $(PYTHON) -m lab.system.s3_test '$(TARGET)/s3-test' --kiln "$$kiln" || [ $$? = 3 ]; }

# A NameNode and DataNodes, each in a namespace with a shaped link. As root; Hadoop comes by Maven,
# into Maven's own repository.
DATANODES     ?= 14
HDFS          := $(TARGET)/hdfs
HDFS_PACKAGES := openjdk-17-jre-headless maven iproute2

hdfs-packages = { command -v java >/dev/null && command -v mvn >/dev/null; } || \
    { LOG_DIR='$(TARGET)' && . .ci/packages.sh && packages $(HDFS_PACKAGES); } || true

hdfs-up: build
	@$(hdfs-packages)
	$(PYTHON) -m lab.rig.hdfs up '$(HDFS)' --cache '$(TARGET)/hadoop' --kiln '$(KILN)' \
	    --datanodes $(DATANODES) --rate $(RATE)

hdfs-down:
	$(PYTHON) -m lab.rig.hdfs down '$(HDFS)'

# The bounded form, part of `make test`. Exit code 3: not possible here, which was said.
hdfs-test: setup
	@programs=$$($(BUILT) kiln:kiln kiln-hdfs:hdfs) && set -- $$programs && echo '== hdfs' && \
	$(hdfs-packages); \
	$(PYTHON) -m lab.system.hdfs_test '$(HDFS)-test' --kiln "$$1" --battery "$$2" \
	    --cache '$(TARGET)/hadoop' $(if $(RESTART),--restart) || [ $$? = 3 ] && \
	$(PYTHON) -m lab.system.failover_test '$(HDFS)-failover' --kiln "$$1" \
	    --cache '$(TARGET)/hadoop' || [ $$? = 3 ]

# Faults between kiln and a real HDFS, counted.
hdfs-faults: build
	@$(hdfs-packages); \
	$(PYTHON) -m lab.hdfs.faults '$(HDFS)-faults' --kiln '$(KILN)' --cache '$(TARGET)/hadoop' \
	    --out '$(TARGET)/hdfs-faults.json' $(if $(QUICK),--quick)

# E5 of the ParaRC paper: encoding and recovery beside HDFS's own.
bench-hdfs: build
	@$(hdfs-packages); \
	$(PYTHON) -m lab.hdfs.bench '$(HDFS)-bench' --kiln '$(KILN)' --cache '$(TARGET)/hadoop' \
	    --out '$(TARGET)/bench' $(if $(QUICK),--quick) $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/bench/hdfs$(if $(QUICK),-quick).json'

# The page of a coordinator in a browser; what is missing is skipped, and said.
PAGE_PACKAGES := chromium prometheus

page-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && LOG_DIR='$(TARGET)' && mkdir -p "$$LOG_DIR" && \
	. .ci/packages.sh && echo '== page' && { packages $(PAGE_PACKAGES) || true; } && \
	$(PYTHON) -m lab.system.page_test '$(TARGET)/page-test' --kiln "$$kiln"

# The bounded form, part of `make test`. Exit code 3: not possible here, which was said.
testbed-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && echo '== test-bed' && for test in testbed cut; do \
	    $(PYTHON) -m lab.system.$${test}_test '$(TESTBED)-test' --kiln "$$kiln" || \
	        [ $$? = 3 ] || exit 1; \
	done

# What volumes cost, at loop devices and links. As root.
bench-volume: build
	$(PYTHON) -m lab.volume.bench '$(TARGET)/volume-bench' --kiln '$(KILN)' \
	    --out '$(TARGET)/bench' $(if $(QUICK),--quick) $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/bench/volume$(if $(QUICK),-quick).json'

# The study of erasure coding online: Ceph and volumes on loop devices, in namespaces. As root. With
# RELEASE=20.2 Ceph is that one's; with PLUGIN=1 kiln's codes in Ceph are there too. ALL=1 has
# requests of 4 KiB alone, on everything that there is; FILES=1 requests at fixed rates and
# applications on file systems (CephFS, ext4 on volumes). What was interrupted goes on.
ONLINE_PACKAGES := $(CEPH_PACKAGES) ceph-mds ceph-fuse libnbd-bin fio e2fsprogs iproute2

ONLINE_NAME = $(if $(ALL),-peers$(RELEASE:%=-%),$(if $(FILES),-files,$(if $(QUICK),-quick)))

bench-online: build $(if $(PLUGIN),ceph-plugin)
	@LOG_DIR='$(TARGET)' && . .ci/packages.sh && \
	    $(if $(RELEASE),true,{ packages $(ONLINE_PACKAGES) || true; })
	$(if $(QUICK)$(ALL),true,$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)')
	$(BUILDER) $(IN_CEPH) $(CEPH_PYTHON) -m lab.online.bench '$(TARGET)/online-bench' \
	    --kiln '$(KILN)' --out '$(TARGET)/bench' $(if $(PLUGIN),--plugins '$(CEPH)') \
	    $(if $(QUICK),--quick) $(if $(FILES),--files) \
	    $(if $(ALL),--peers --name 'peers$(RELEASE:%=-%)') $(BENCH_ARGS)
	$(DRAW) '$(TARGET)/bench/online$(ONLINE_NAME).json' >/dev/null

# What the study computes, then all of it tiny. Exit code 3: not possible here, which was said.
online-test: setup
	@echo '== online study' && $(PYTHON) -m lab.online.online_test && \
	kiln=$$($(BUILT) kiln:kiln) && mixer=$$($(BUILT) kiln-bench:kiln-bench) && \
	LOG_DIR='$(TARGET)' && . .ci/packages.sh && { packages $(ONLINE_PACKAGES) || true; } && \
	{ $(CEPH_PYTHON) -m lab.online.bench '$(TARGET)/online-test' --kiln "$$kiln" \
	    --mixer "$$mixer" --out '$(TARGET)/online-test-out' --tiny --again || [ $$? = 3 ]; }

# kiln for Python: the extension as the workspace builds it, in an environment of its own. With
# WHEEL=1 a wheel that maturin builds (as `pip install .` does) is installed and tested instead.
python-test: setup
	@$(CARGO) build --workspace --lib --tests && kiln=$$($(BUILT) kiln:kiln) && \
	echo '== python' && { PYTHON='$(PYTHON)' sh bindings/python/test.sh '$(TARGET)/python-test' \
	    "$$kiln" $(if $(WHEEL),wheel,'$(TARGET)/debug/lib_kiln.so') || [ $$? = 3 ]; }

# The wheel that is shipped, for every CPython from 3.11 on.
python-wheel: setup
	$(PYTHON) -m pip wheel bindings/python --no-deps -w '$(TARGET)/wheels'

# Repairs over shaped links: degraded reads, recoveries, encoding. As root. With
# BENCH_ARGS="--minutes 50" it begins no cell that would end later, and the next run goes on; with
# BENCH_ARGS=--estimate it only says how long it would take.
REPAIR := $(TARGET)/bench/repair$(if $(QUICK),-quick).json

bench-repair: build
	$(PYTHON) -m lab.repair.bench '$(TESTBED)-bench' --kiln '$(KILN)' --out '$(TARGET)/bench' \
	    $(if $(QUICK),--quick) $(BENCH_ARGS)
	if [ -e '$(REPAIR)' ]; then $(DRAW) '$(REPAIR)'; fi

# What it computes, then all of it tiny. Exit code 3: not possible here, which was said.
repair-test: setup
	@echo '== repairs' && $(PYTHON) -m lab.repair.repair_test && \
	kiln=$$($(BUILT) kiln:kiln) && \
	{ $(PYTHON) -m lab.repair.bench '$(TARGET)/repair-test' --kiln "$$kiln" \
	    --out '$(TARGET)/repair-test-out' --tiny || [ $$? = 3 ]; }

# The numbers and the pictures of results from their data, which are beside them.
numbers:
	@$(PYTHON) -m lab.headlines

DRAW := $(CARGO) run --release -q --manifest-path lab/Cargo.toml --target-dir '$(TARGET)' -- draw

# Reports whose pictures no page shows.
UNSHOWN := lab/results/plan-quick.json lab/results/bench-xor-quick.json \
    lab/results/online-peers.json

pictures: setup
	$(DRAW) $(filter-out $(UNSHOWN),$(wildcard lab/results/*.json))

demo: build
	$(PYTHON) demo/demo.py --kiln '$(KILN)' $(if $(DATA),--data '$(DATA)') $(if $(KEEP),--keep)

# Speed against other libraries, on one core. Fetches and builds the peers as packages.
PEERS := $(TARGET)/peers
# With ISA=avx2 everybody is held to AVX2: kiln by its kernel, peers as their drivers say.
HELD = $(if $(ISA),KILN_BENCH_ISA='$(ISA)' KILN_KERNEL='jit-$(ISA)')

bench-core: setup
	sh lab/peers/build.sh '$(PEERS)'
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	$(HELD) '$(TARGET)/release/kiln-bench' $(if $(QUICK),--quick,core) --peers '$(PEERS)' \
	    --out '$(TARGET)/bench' $(BENCH_ARGS)

# XOR codes as in the paper on their scheduling, with kiln and Jerasure beside its orders.
bench-xor: setup
	sh lab/peers/build.sh '$(PEERS)'
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	$(HELD) '$(TARGET)/release/kiln-bench' xor $(if $(QUICK),--quick) --peers '$(PEERS)' \
	    --out '$(TARGET)/bench' $(BENCH_ARGS)

# Reads of repairs on emulated disks: loop devices, throttled. Skips loudly what is not permitted.
bench-devices: build
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	'$(TARGET)/release/kiln-bench' devices $(if $(QUICK),--quick) --kiln '$(KILN)' \
	    --out '$(TARGET)/bench' $(BENCH_ARGS)

bench-order: setup
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	'$(TARGET)/release/kiln-bench' order --out '$(TARGET)/bench' $(BENCH_ARGS)

# Counts that need no machine: what repairs of several losses read on average.
bench-average: build
	@mkdir -p '$(TARGET)/bench'
	$(PYTHON) -m lab.average --kiln '$(KILN)' --out '$(TARGET)/bench'

# What a whole encode costs beside a copy of as many bytes, in memory.
bench-encode: build
	$(PYTHON) -m lab.encode '$(or $(FOLDER),/dev/shm/kiln-bench-encode)' --kiln '$(KILN)' \
	    --out '$(TARGET)/bench' $(if $(QUICK),--quick)

# The same, small: so that it does not rot.
encode-bench-test: setup
	@kiln=$$($(BUILT) kiln:kiln) && $(PYTHON) -m lab.encode '$(TARGET)/encode-bench-test' \
	    --kiln "$$kiln" --out '$(TARGET)/encode-bench-test-out' --quick

bench-plan: setup
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	'$(TARGET)/release/kiln-bench' plan $(if $(QUICK),--quick) --out '$(TARGET)/bench' $(BENCH_ARGS)

# What operations on pools cost, small files beside cp, and the counts of the simulator and of the
# sweeps of faults: tests whose names have `sweep` print theirs as a line of JSON with faults_tried
# and faults_wrong.
POOL_SEEDS ?= $(if $(QUICK),200,10000)
POOL_LOG   := $(TARGET)/bench/pool-proofs.log

bench-pool: build
	$(CARGO) build --release --manifest-path lab/Cargo.toml --target-dir '$(TARGET)'
	@mkdir -p '$(TARGET)/bench'
	KILN_SIM_SEEDS='$(POOL_SEEDS)' RUST_BACKTRACE=0 $(CARGO) test --release -p kiln-node \
	    --test cluster -- --nocapture > '$(POOL_LOG)' 2>&1 || { cat '$(POOL_LOG)'; exit 1; }
	$(CARGO) test --release -p kiln-pool --test objects sweep -- --nocapture \
	    >> '$(POOL_LOG)' 2>&1 || { cat '$(POOL_LOG)'; exit 1; }
	'$(TARGET)/release/kiln-bench' pool $(if $(QUICK),--quick) --kiln '$(KILN)' \
	    --out '$(TARGET)/bench' '$(POOL_LOG)'

# Pools, and placed repairs, in simulated clusters. A seed that fails says how to repeat it.
SEEDS ?= 10000
FIRST ?= 0

simulate: setup
	KILN_SIM_SEEDS='$(SEEDS)' KILN_SIM_FIRST='$(FIRST)' RUST_BACKTRACE=0 \
	    $(CARGO) test --release -p kiln-node --test cluster -- --nocapture
	KILN_SIM_SEEDS='$(SEEDS)' $(CARGO) test --release -p kiln-node --lib sim:: -- --nocapture

# Coverage-guided fuzzing of all parsers; a crash leaves its input in target/fuzz.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/src/targets/*.rs)))
FUZZ_HOST    := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
FUZZ_FLAGS   := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1

fuzz: setup
	RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
	CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true $(CARGO) build --release -p kiln-fuzz \
	    --features fuzzer --target $(FUZZ_HOST) --target-dir '$(abspath $(TARGET))/fuzz'
	@set -e; for target in $(FUZZ_TARGETS); do \
	    mkdir -p '$(TARGET)'/fuzz/corpus/$$target fuzz/corpus/$$target; \
	    KILN_FUZZ_TARGET=$$target '$(TARGET)'/fuzz/$(FUZZ_HOST)/release/fuzz \
	        -max_total_time=$(FUZZ_SECONDS) -artifact_prefix='$(TARGET)'/fuzz/ \
	        '$(TARGET)'/fuzz/corpus/$$target fuzz/corpus/$$target; \
	done

clean:
	$(CARGO) clean
	rm -rf demo/out
