# cocoon in C. `make help` lists the targets. Out-of-tree build in build/<variant>.
VARIANT ?= release
BUILD   := build/$(VARIANT)
PREFIX  ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION    := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
REVISION   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILD_TIME := $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || echo unknown)

PKGS     := libcurl jansson yaml-0.1 libcrypto zlib
WARNINGS := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wformat=2 -Werror
CPPFLAGS := -D_GNU_SOURCE -Ilibcocoon-common -isystem /usr/include/uthash
CFLAGS   := -std=gnu11 -g -fno-omit-frame-pointer -fno-common -pthread $(WARNINGS)
LDFLAGS  := -pthread
LDLIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lev -lhttp_parser -lm \
	-Wl,--as-needed -lzstd -lmbedtls -lmbedx509 -lmbedcrypto -Wl,--no-as-needed

ifeq ($(VARIANT),release)
CFLAGS  += -O2 -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fPIE
LDFLAGS += -pie -Wl,-z,relro,-z,now
else ifeq ($(VARIANT),asan)
CFLAGS  += -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -DCC_ASAN
LDFLAGS += -fsanitize=address,undefined
else ifeq ($(VARIANT),debug)
CFLAGS  += -O0
else ifeq ($(VARIANT),valgrind)
CFLAGS  += -O1 -DCC_VALGRIND
else ifeq ($(VARIANT),callgraph)
CFLAGS  += -O0 -fcallgraph-info=su
else ifeq ($(VARIANT),fuzz)
CC      := clang
CFLAGS  += -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -DCC_ASAN
LDFLAGS += -fsanitize=fuzzer,address,undefined
else
$(error VARIANT=$(VARIANT): use release, asan, debug, valgrind, callgraph or fuzz)
endif

LIB_SOURCES      := $(sort $(wildcard libcocoon-common/*/*.c))
OPERATOR_SOURCES := $(sort $(wildcard cocoon-operator/*.c cocoon-operator/*/*.c))
NODE_SOURCES     := $(sort $(wildcard vk-cocoon/*.c vk-cocoon/*/*.c))
PLUGIN_SOURCES   := $(sort $(wildcard kubectl-cocoon/*.c))
SIM_SOURCES      := $(sort $(wildcard test/cocoon-sim/*.c))
UNIT_SOURCES     := $(sort $(wildcard test/unit/*/test_*.c))
SUPPORT_SOURCES  := $(sort $(wildcard test/support/*.c))
NODE_SUPPORT_SOURCES := $(sort $(wildcard test/support/node/*.c))
SIMULATOR_SOURCES := $(sort $(wildcard test/sim/*.c))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB           := $(BUILD)/libcocoon-common.a
OPERATOR      := $(BUILD)/cocoon-operator
NODE_AGENT    := $(BUILD)/vk-cocoon
PLUGIN        := $(BUILD)/kubectl-cocoon
COCOON_SIM    := $(BUILD)/cocoon-sim
OPERATOR_LIB  := $(BUILD)/liboperator.a
NODE_LIB      := $(BUILD)/libnode.a
PLUGIN_LIB    := $(BUILD)/libplugin.a
SUPPORT_LIB   := $(BUILD)/libsupport.a
NODE_SUPPORT_LIB := $(BUILD)/libnodesupport.a
SIMULATOR     := $(BUILD)/sim
SNAPSHOT_BENCH := $(BUILD)/snapshot-bench
UNIT_TESTS    := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
# fuzz_<name>.c sees the library, fuzz_node_<name>.c and fuzz_operator_<name>.c a daemon as well.
FUZZ_NAMES    := $(patsubst test/fuzz/fuzz_%.c,%,$(sort $(wildcard test/fuzz/fuzz_*.c)))
FUZZ_TESTS    := $(FUZZ_NAMES:%=$(BUILD)/unit/fuzz/%)
FUZZERS       := $(FUZZ_NAMES:%=$(BUILD)/fuzz/%)

# V=1 shows the commands.
ifeq ($(V),1)
QUIET :=
say = @:
else
QUIET := @
say = @printf '  %-6s %s\n'
endif

all: ## the library, both daemons, the kubectl plugin, the simulated host
.PHONY: all lib unit help
all: $(LIB) $(if $(wildcard cocoon-operator/main.c),$(OPERATOR)) $(if $(wildcard vk-cocoon/main.c),$(NODE_AGENT)) $(if $(PLUGIN_SOURCES),$(PLUGIN)) $(if $(SIM_SOURCES),$(COCOON_SIM))
lib: $(LIB)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(QUIET)$(CC) $(CPPFLAGS) $(CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

# Each program sees the library and its own folder only: the two daemons never include each other.
$(BUILD)/obj/libcocoon-common/%.o: EXTRA_CFLAGS = -Wconversion
$(BUILD)/obj/cocoon-operator/%.o: EXTRA_CFLAGS = -Wconversion -Icocoon-operator
$(BUILD)/obj/vk-cocoon/%.o: EXTRA_CFLAGS = -Wconversion -Ivk-cocoon
$(BUILD)/obj/kubectl-cocoon/%.o: EXTRA_CFLAGS = -Wconversion -Ikubectl-cocoon
$(BUILD)/obj/test/cocoon-sim/%.o: EXTRA_CFLAGS = -Itest/cocoon-sim
$(BUILD)/obj/test/sim/%.o: EXTRA_CFLAGS = -Itest -Itest/sim -Ivk-cocoon -Icocoon-operator
$(BUILD)/obj/test/support/%.o: EXTRA_CFLAGS = -Itest
$(BUILD)/obj/test/support/fake_kube_schema.o: EXTRA_CFLAGS = -Itest -DCC_TEST_CRDS='"$(CURDIR)/charts/cocoon/crds"'
$(BUILD)/obj/test/support/node/%.o: EXTRA_CFLAGS = -Itest -Ivk-cocoon
$(BUILD)/obj/test/unit/operator/%.o: EXTRA_CFLAGS = -Itest -Icocoon-operator
$(BUILD)/obj/test/unit/node/%.o: EXTRA_CFLAGS = -Itest -Ivk-cocoon
$(BUILD)/obj/test/unit/plugin/%.o: EXTRA_CFLAGS = -Itest -Ikubectl-cocoon
$(BUILD)/obj/test/unit/%.o: EXTRA_CFLAGS ?= -Itest
$(BUILD)/obj/test/fuzz/%.o: EXTRA_CFLAGS = -Itest
$(BUILD)/obj/test/fuzz/fuzz_node_%.o: EXTRA_CFLAGS = -Itest -Ivk-cocoon
$(BUILD)/obj/test/fuzz/fuzz_operator_%.o: EXTRA_CFLAGS = -Itest -Icocoon-operator

# Only this object knows the version: it is built anew when the commit changes, the others are not.
$(BUILD)/obj/libcocoon-common/base/version.o: EXTRA_CFLAGS = -Wconversion -DCC_VERSION='"$(VERSION)"' \
	-DCC_REVISION='"$(REVISION)"' -DCC_BUILD_TIME='"$(BUILD_TIME)"'
$(BUILD)/obj/libcocoon-common/base/version.o: $(BUILD)/version.stamp
$(BUILD)/version.stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(REVISION)' | cmp -s - $@ || echo '$(VERSION) $(REVISION)' > $@
.PHONY: FORCE
FORCE:

define archive
	@mkdir -p $(@D)
	$(say) AR $@
	@rm -f $@
	@ar rcsD $@ $^
endef
$(LIB): $(call objects,$(LIB_SOURCES))
	$(archive)
$(OPERATOR_LIB): $(call objects,$(filter-out cocoon-operator/main.c,$(OPERATOR_SOURCES)))
	$(archive)
$(NODE_LIB): $(call objects,$(filter-out vk-cocoon/main.c,$(NODE_SOURCES)))
	$(archive)
$(PLUGIN_LIB): $(call objects,$(filter-out kubectl-cocoon/main.c,$(PLUGIN_SOURCES)))
	$(archive)
$(SUPPORT_LIB): $(call objects,$(SUPPORT_SOURCES))
	$(archive)
$(NODE_SUPPORT_LIB): $(call objects,$(NODE_SUPPORT_SOURCES))
	$(archive)

$(OPERATOR): $(BUILD)/obj/cocoon-operator/main.o $(OPERATOR_LIB) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(NODE_AGENT): $(BUILD)/obj/vk-cocoon/main.o $(NODE_LIB) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(PLUGIN): $(BUILD)/obj/kubectl-cocoon/main.o $(PLUGIN_LIB) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(COCOON_SIM): $(call objects,$(SIM_SOURCES)) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Snapshots to a registry and back, for bench-snapshots.
$(SNAPSHOT_BENCH): $(call objects,test/bench/snapshot_transfer.c) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The whole system in one process, on virtual time.
$(SIMULATOR): $(call objects,$(SIMULATOR_SOURCES)) $(NODE_SUPPORT_LIB) $(OPERATOR_LIB) $(NODE_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--wrap=cc_json_parse -o $@ $^ $(CHECK_LIBS) $(LDLIBS)

CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)
$(BUILD)/unit/operator/%: $(BUILD)/obj/test/unit/operator/%.o $(OPERATOR_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
$(BUILD)/unit/node/%: $(BUILD)/obj/test/unit/node/%.o $(NODE_SUPPORT_LIB) $(NODE_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
$(BUILD)/unit/plugin/%: $(BUILD)/obj/test/unit/plugin/%.o $(PLUGIN_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
$(BUILD)/unit/%: $(BUILD)/obj/test/unit/%.o $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)

# Fuzz targets come in two forms: unit/fuzz/x feeds the corpus in the tree to the target (any compiler), fuzz/x searches on.
FUZZ_SHARED := $(BUILD)/obj/test/fuzz/fuzz.o
FUZZ_DRIVER := $(BUILD)/obj/test/fuzz/driver.o $(FUZZ_SHARED)
define link_fuzz
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
endef
$(BUILD)/unit/fuzz/node_%: $(BUILD)/obj/test/fuzz/fuzz_node_%.o $(FUZZ_DRIVER) $(NODE_LIB) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
$(BUILD)/unit/fuzz/operator_%: $(BUILD)/obj/test/fuzz/fuzz_operator_%.o $(FUZZ_DRIVER) $(OPERATOR_LIB) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
$(BUILD)/unit/fuzz/%: $(BUILD)/obj/test/fuzz/fuzz_%.o $(FUZZ_DRIVER) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
$(BUILD)/fuzz/node_%: $(BUILD)/obj/test/fuzz/fuzz_node_%.o $(FUZZ_SHARED) $(NODE_LIB) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
$(BUILD)/fuzz/operator_%: $(BUILD)/obj/test/fuzz/fuzz_operator_%.o $(FUZZ_SHARED) $(OPERATOR_LIB) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
$(BUILD)/fuzz/%: $(BUILD)/obj/test/fuzz/fuzz_%.o $(FUZZ_SHARED) $(SUPPORT_LIB) $(LIB)
	$(link_fuzz)
.SECONDARY:

# Builds and runs the unit tests of one variant. ONLY=layer/test_file limits it: make unit ONLY=base/test_time
.PHONY: unit
unit: $(if $(ONLY),$(BUILD)/unit/$(ONLY),$(UNIT_TESTS) $(FUZZ_TESTS))
	@hack/run-unit $(BUILD) $(ONLY)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# --- the main job ------------------------------------------------------------------------------------------------------
.PHONY: deps demo demo-env demo-stop demo-saboteurs kill-test check lint valgrind install clean
deps:
	@hack/deps
demo: deps ## the main job on real servers, narrated; KEEP=1 leaves it running, VARIANT=asan; GUEST=qemu: real guests
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=$(VARIANT)
	@hack/kube build > /dev/null
	@VARIANT=$(VARIANT) KEEP=$(KEEP) GUEST=$(GUEST) python3 test/cluster/demo.py
.PHONY: qemu-check
qemu-check: deps ## real guests under QEMU on two hosts without a cluster: boot, save, fork, move, die
	@$(MAKE) --no-print-directory -j$(shell nproc) $(COCOON_SIM) VARIANT=$(VARIANT)
	@VARIANT=$(VARIANT) python3 test/cluster/qemu_check.py
demo-env: ## prints the variables for a shell that talks to it: eval "$$(make -s demo-env)"
	@python3 test/cluster/demo.py env
demo-stop: ## ends what `make demo KEEP=1` left
	@python3 test/cluster/demo.py stop
demo-saboteurs: deps ## builds three spoiled variants; the demo must fail on each
	@hack/demo-saboteurs
kill-test: deps ## kill -9 of either daemon (NODE=1: the node agent), KILLS times over the demo's stages
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=$(VARIANT)
	@hack/kube build > /dev/null
	@VARIANT=$(VARIANT) NODE=$(NODE) python3 test/cluster/kill_test.py $(or $(KILLS),40)

faults: deps ## every state machine with one request in five broken, on real servers; FAULT_SEED=n
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=$(VARIANT)
	@hack/kube build > /dev/null
	@VARIANT=$(VARIANT) python3 test/integration/test_faults.py --all
.PHONY: faults

# --- tests -------------------------------------------------------------------------------------------------------------
check: deps ## builds release and asan, unit tests in both, tree rules, integration tests on real servers
	@hack/check
lint: ## gcc and clang without warnings, clang-tidy, format, spelling, yields
	@hack/deps lint
	@hack/lint
valgrind: deps ## the unit tests under valgrind
	@$(MAKE) --no-print-directory -j$(shell nproc) unit-build VARIANT=valgrind
	@hack/run-valgrind build/valgrind
bench: deps ## the numbers to hold, each with its bar
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=release
	@hack/kube build > /dev/null
	@python3 test/cluster/bench.py
	@python3 test/cluster/bench_scale.py
	@python3 test/cluster/bench_kubelet.py
	@$(MAKE) --no-print-directory bench-snapshots
.PHONY: bench-kubelet
bench-kubelet: deps ## exec, port-forward and idle sessions of the kubelet API; BENCH_EXECS, BENCH_FORWARD_MIB
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=release
	@hack/kube build > /dev/null
	@python3 test/cluster/bench_kubelet.py
.PHONY: bench-snapshots
bench-snapshots: deps ## a guest of 4 GiB to a registry and back beside raw copies; BENCH_SNAPSHOT_MIB, BENCH_RUNS
	@$(MAKE) --no-print-directory -j$(shell nproc) $(SNAPSHOT_BENCH) VARIANT=release
	@python3 test/cluster/bench_snapshots.py
sim: ## SEEDS random runs of the whole system under faults, on all cores; FIRST=seed, VARIANT=asan
	@$(MAKE) --no-print-directory -j$(shell nproc) $(SIMULATOR)
	@$(SIMULATOR) --runs $(or $(SEEDS),500) $(if $(FIRST),--first $(FIRST))
sim-check: ## what `make check` runs of it: a fixed list of seeds, 200 fresh ones, a sample of crash points; BASE=seed
	@$(MAKE) --no-print-directory -j$(shell nproc) build/release/sim VARIANT=release
	@$(MAKE) --no-print-directory -j$(shell nproc) build/asan/sim VARIANT=asan
	@test/sim/check build/release/sim build/asan/sim
sim-crash-points: ## every call of every scripted scenario, failed in every way
	@$(MAKE) --no-print-directory -j$(shell nproc) $(SIMULATOR)
	@$(SIMULATOR) --crash-points $(or $(ONLY),all)
sim-determinism: ## SEEDS seeds twice each: the timelines must be the same to the byte
	@$(MAKE) --no-print-directory -j$(shell nproc) $(SIMULATOR)
	@test/sim/determinism $(SIMULATOR) $(or $(SEEDS),200)
sim-conformance: ## the simulated API server against a real one: same operations, same answers; TRACE=1 prints them
	@$(MAKE) --no-print-directory -j$(shell nproc) $(SIMULATOR)
	@hack/kube build > /dev/null
	@test/sim/conformance $(SIMULATOR) $(if $(TRACE),--trace)
sim-mutants: ## builds deliberate faults into the daemons; the simulator must catch each one. ONLY=name limits it
	@test/mutants/run $(ONLY)
.PHONY: sim sim-check sim-conformance sim-crash-points sim-determinism sim-mutants
.PHONY: bench format unit-build
format: ## formats every C file
	@git ls-files '*.c' '*.h' | xargs clang-format -i
unit-build: $(UNIT_TESTS) $(FUZZ_TESTS)
# Every source compiled, nothing linked: for the warnings of another compiler.
objects: $(call objects,$(foreach sources,$(filter %_SOURCES,$(.VARIABLES)),$($(sources))) $(wildcard test/fuzz/*.c))
.PHONY: objects
fuzz: ## libFuzzer on every parser, FUZZ_S seconds each; ONLY=name limits it
	@hack/deps lint
	@$(MAKE) --no-print-directory -j$(shell nproc) VARIANT=fuzz BUILD=build/fuzz fuzz-build
	@hack/fuzz build/fuzz $(or $(FUZZ_S),20) $(ONLY)
fuzz-build: $(if $(ONLY),$(BUILD)/fuzz/$(ONLY),$(FUZZERS))
.PHONY: fuzz fuzz-build

e2e: deps ## the chart on a real kubelet, with both daemons as Pods; says so where the machine cannot
	@hack/deps e2e
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=$(VARIANT)
	@hack/kube build kubelet kube-proxy > /dev/null
	@hack/kube helm > /dev/null
	@VARIANT=$(VARIANT) python3 test/e2e/e2e.py
images: ## both container images into build/images, without a Docker daemon
	@hack/deps image
	@$(MAKE) --no-print-directory -j$(shell nproc) all VARIANT=release
	@hack/image build/images
.PHONY: e2e images

# --- installation ------------------------------------------------------------------------------------------------------
install: all ## into DESTDIR and PREFIX: programs, man pages, completions, the systemd unit, the CRDs
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(OPERATOR) $(NODE_AGENT) $(PLUGIN) packaging/completions/kubectl_complete-cocoon
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 packaging/man/*.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 packaging/man/*.8
	install -D -m 644 packaging/completions/kubectl-cocoon.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/kubectl-cocoon
	install -D -m 644 packaging/completions/kubectl-cocoon.zsh \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_kubectl-cocoon
	@mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's#/usr/local/bin#$(PREFIX)/bin#' packaging/vk-cocoon.service > \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/vk-cocoon.service
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/cocoon/crds charts/cocoon/crds/*.yaml
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/cocoon LICENSE packaging/vk-cocoon.env.example
clean: ## removes build/
	rm -rf build
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'
