# cocoon in C. `make help` lists the targets. Out-of-tree build in build/<variant>.
VARIANT ?= release
BUILD   := build/$(VARIANT)
PREFIX  ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

PKGS     := libcurl jansson yaml-0.1 libcrypto zlib
WARNINGS := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wformat=2 -Werror
CPPFLAGS := -D_GNU_SOURCE -Ilibcocoon-common -isystem /usr/include/uthash -DCC_VERSION='"$(VERSION)"'
CFLAGS   := -std=gnu11 -g -fno-omit-frame-pointer -fno-common -pthread $(WARNINGS)
LDFLAGS  := -pthread
LDLIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lev -lhttp_parser -lm

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
else
$(error VARIANT=$(VARIANT): use release, asan, debug or valgrind)
endif

LIB_SOURCES      := $(sort $(wildcard libcocoon-common/*/*.c))
OPERATOR_SOURCES := $(sort $(wildcard cocoon-operator/*.c cocoon-operator/*/*.c))
NODE_SOURCES     := $(sort $(wildcard vk-cocoon/*.c vk-cocoon/*/*.c))
SIM_SOURCES      := $(sort $(wildcard test/cocoon-sim/*.c))
UNIT_SOURCES     := $(sort $(wildcard test/unit/*/test_*.c))
SUPPORT_SOURCES  := $(sort $(wildcard test/support/*.c))
NODE_SUPPORT_SOURCES := $(sort $(wildcard test/support/node/*.c))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB           := $(BUILD)/libcocoon-common.a
OPERATOR      := $(BUILD)/cocoon-operator
NODE          := $(BUILD)/vk-cocoon
COCOON_SIM    := $(BUILD)/cocoon-sim
OPERATOR_LIB  := $(BUILD)/liboperator.a
NODE_LIB      := $(BUILD)/libnode.a
SUPPORT_LIB   := $(BUILD)/libsupport.a
NODE_SUPPORT_LIB := $(BUILD)/libnodesupport.a
UNIT_TESTS    := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))

# V=1 shows the commands.
ifeq ($(V),1)
QUIET :=
say = @:
else
QUIET := @
say = @printf '  %-6s %s\n'
endif

.PHONY: all lib unit help
all: $(LIB) $(if $(wildcard cocoon-operator/main.c),$(OPERATOR)) $(if $(wildcard vk-cocoon/main.c),$(NODE)) $(if $(SIM_SOURCES),$(COCOON_SIM))
lib: $(LIB)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(QUIET)$(CC) $(CPPFLAGS) $(CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

# Each program sees the library and its own folder only: the two daemons never include each other.
$(BUILD)/obj/libcocoon-common/%.o: EXTRA_CFLAGS = -Wconversion
$(BUILD)/obj/cocoon-operator/%.o: EXTRA_CFLAGS = -Wconversion -Icocoon-operator
$(BUILD)/obj/vk-cocoon/%.o: EXTRA_CFLAGS = -Wconversion -Ivk-cocoon
$(BUILD)/obj/test/cocoon-sim/%.o: EXTRA_CFLAGS = -Itest/cocoon-sim
$(BUILD)/obj/test/support/%.o: EXTRA_CFLAGS = -Itest
$(BUILD)/obj/test/support/node/%.o: EXTRA_CFLAGS = -Itest -Ivk-cocoon
$(BUILD)/obj/test/unit/operator/%.o: EXTRA_CFLAGS = -Itest -Icocoon-operator
$(BUILD)/obj/test/unit/node/%.o: EXTRA_CFLAGS = -Itest -Ivk-cocoon
$(BUILD)/obj/test/unit/%.o: EXTRA_CFLAGS ?= -Itest

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
$(SUPPORT_LIB): $(call objects,$(SUPPORT_SOURCES))
	$(archive)
$(NODE_SUPPORT_LIB): $(call objects,$(NODE_SUPPORT_SOURCES))
	$(archive)

$(OPERATOR): $(BUILD)/obj/cocoon-operator/main.o $(OPERATOR_LIB) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(NODE): $(BUILD)/obj/vk-cocoon/main.o $(NODE_LIB) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(COCOON_SIM): $(call objects,$(SIM_SOURCES)) $(LIB)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)
$(BUILD)/unit/operator/%: $(BUILD)/obj/test/unit/operator/%.o $(OPERATOR_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
$(BUILD)/unit/node/%: $(BUILD)/obj/test/unit/node/%.o $(NODE_SUPPORT_LIB) $(NODE_LIB) $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
$(BUILD)/unit/%: $(BUILD)/obj/test/unit/%.o $(SUPPORT_LIB) $(LIB)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(QUIET)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)
.SECONDARY:

# Builds and runs the unit tests of one variant. ONLY=layer/test_file limits it: make unit ONLY=base/test_time
unit: $(if $(ONLY),$(BUILD)/unit/$(ONLY),$(UNIT_TESTS))
	@hack/run-unit $(BUILD) $(ONLY)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# --- the main job ------------------------------------------------------------------------------------------------------
.PHONY: demo demo-stop deps
deps:
	@hack/deps
# Installs what is missing, builds, and walks the main job on real servers. KEEP=1 leaves it running.
demo: deps
	@$(MAKE) --no-print-directory all VARIANT=$(VARIANT)
	@hack/kube build > /dev/null
	@VARIANT=$(VARIANT) KEEP=$(KEEP) python3 test/cluster/demo.py
demo-stop:
	@python3 test/cluster/demo.py stop
