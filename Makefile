# SPDX-License-Identifier: Apache-2.0
# The front door: each target sets up what it needs, then lets CMake, CTest or a script do the work.
#
#   make demo        on a fresh Debian or Ubuntu: install packages, build, train LeNet on Fashion-MNIST
#   make test        the same for the test suite
#   NO_INSTALL=1     never install packages, only say which are missing

BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=
FUZZ_SECONDS ?= 600
SEEDS    ?= 100000
ROOM     ?=
COUNT    ?= 40
SEED     ?= 1
T        ?=
TEST_JOBS ?= 2

SETUP = scripts/setup.sh $(if $(NO_INSTALL),--check)
CTEST = ctest --output-on-failure -j$(TEST_JOBS) $(if $(T),-R '$(T)')

.DELETE_ON_ERROR:
.PHONY: all demo test spin storm storm-hosts mutate test-peers test-slurm test-equal bench scale plan-accuracy reproduce distro lint sim asan ubsan tsan fuzz docs install uninstall clean help bench-hosts simulate

all: ## build the program and the library (build/muster, build/libmuster.a)
	@scripts/setup.sh --check build
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)

demo: ## install packages, build, train LeNet on Fashion-MNIST, say what to try next
	@$(SETUP) demo
	@scripts/build.sh --target muster $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@scripts/demo.sh $(BUILD)

test: ## install packages, build, run all tests (T=regex picks some, MUSTER_CPU=v3 caps all)
	@$(SETUP) test
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@cd $(BUILD) && $(if $(MUSTER_CPU),./at_level $(MUSTER_CPU)) $(CTEST)

spin: ## search every state of the Spin models (src/*/*.pml) and of their mutants
	@$(SETUP) test
	@scripts/spin.sh

storm: ## kill learners and servers by the hundred (an hour; KILLS, GAP, EPOCHS, PARTS in test/storm/storm.sh)
	@$(SETUP) demo
	@scripts/build.sh --target muster $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@MUSTER=$(BUILD)/muster test/storm/storm.sh

storm-hosts: ## kill ranks and hosts, pull cables, COUNT (20) times each, on hosts that are namespaces, as root
	@$(SETUP) test
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@MUSTER=$(BUILD)/muster test/storm/hosts.sh

mutate: ## does a wrong line make a test fail? COUNT (40) mutants each of ps, comm, net, ... (ROOM=net, SEED=1)
	@$(SETUP) mutate
	@JOBS=$(JOBS) scripts/mutate.py --rooms '$(ROOM)' --count $(COUNT) --seed $(SEED) --jobs $(JOBS)

test-peers: ## compare losses and gradients with a live PyTorch (python3-torch)
	@$(SETUP) peers
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@scripts/test-peers.sh $(BUILD)

test-slurm: ## train under a Slurm of the test's own, lose nodes of it; as root (4 minutes)
	@$(SETUP) slurm
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@MUSTER=$(BUILD)/muster test/slurm/slurm.sh

test-equal: ## ranks against one learner: all nets, ways, ranks and forms of gradients, on hosts as root (minutes)
	@$(SETUP) test
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@MUSTER=$(BUILD)/muster EQUAL=all bash test/e2e/equal_ranks.sh

bench: ## time Muster against PyTorch on this machine, print the table
	@$(SETUP) bench
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@scripts/bench.sh $(BUILD)

sim: all ## the protocol core, and ranks with their root, under SEEDS (100,000) random schedules with faults
	@cmake --build $(BUILD) --target muster-sim
	@$(BUILD)/muster-sim --seeds $(SEEDS) --events 10000 --jobs $(JOBS)
	@$(BUILD)/muster-sim --ranks --seeds $(SEEDS) --events 10000 --jobs $(JOBS)

scale: ## time 2 learners against 1 and PyTorch's Hogwild (SCALE_ARGS="--learners 1,2,4,8,16 --svg scale.svg")
	@$(SETUP) bench
	@scripts/build.sh --target muster $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@SCALE_ARGS='$(SCALE_ARGS)' scripts/bench.sh --scale $(BUILD)

plan-accuracy: ## predict trainings, measure them, print the errors (PLAN_ARGS="--seconds 5 --svg scatter.svg")
	@$(SETUP) bench
	@scripts/build.sh --target muster $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@python3 bench/plan.py --muster $(BUILD)/muster $(PLAN_ARGS)

bench-hosts: ## time hosts that are namespaces against one and PyTorch's DDP, as root (HOSTS_ARGS="--parts speed")
	@$(SETUP) bench
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@HOSTS_ARGS='$(HOSTS_ARGS)' scripts/bench.sh --hosts $(BUILD)

simulate: ## trainings over 8 to 1,024 simulated ranks: table of step times, picture in docs/img (SIMULATE_ARGS)
	@$(SETUP) simulate
	@scripts/build.sh $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@/usr/bin/python3 bench/simulate.py --build $(BUILD) --svg docs/img/simulate.svg $(SIMULATE_ARGS)

lint: ## gcc and clang with -Werror over everything, includes, sizes, clang-tidy, cppcheck
	@$(SETUP) lint
	@scripts/lint.sh

asan ubsan tsan: ## build with a sanitizer in build-asan, ... and run the tests there
	@$(SETUP) test
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) T='$(T)' scripts/sanitize.sh $@

fuzz: ## fuzz each parser for FUZZ_SECONDS (600) with clang's libFuzzer (T=regex picks some)
	@$(SETUP) fuzz
	@JOBS=$(JOBS) T='$(T)' scripts/fuzz.sh $(FUZZ_SECONDS)

reproduce: ## train cifar10_full on exact CIFAR-10 for 40 epochs (20 minutes), draw the curve in docs/img
	@$(SETUP) reproduce
	@scripts/build.sh --target muster $(BUILD) $(JOBS) $(CMAKE_ARGS)
	@scripts/reproduce.sh $(BUILD)

distro: ## build and test in a debootstrap of another release (SUITE=trixie) or for ARCH=arm64, as root
	@$(SETUP) distro
	@ARCH='$(ARCH)' test/distro/build-in-chroot.sh $(or $(SUITE),$(if $(ARCH),bookworm,trixie))

docs: all ## regenerate docs/jobfile.md from the field tables
	@scripts/docs.sh $(BUILD)

install: all ## binary, library, header, pkg-config, man page, completion (PREFIX, DESTDIR)
	@cmake --build $(BUILD) --target shell_files
	@DESTDIR='$(DESTDIR)' cmake --install $(BUILD) --prefix '$(PREFIX)'

uninstall: ## remove what `make install` wrote
	@xargs -r -d '\n' -I{} rm -fv '$(DESTDIR){}' < $(BUILD)/install_manifest.txt

clean: ## remove the build folders
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z -]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
