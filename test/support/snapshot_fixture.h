/* The v1 snapshot of contract/05 15.1: its export archive and the documents it becomes. */
#ifndef CC_TEST_SNAPSHOT_FIXTURE_H
#define CC_TEST_SNAPSHOT_FIXTURE_H

#include "base/buf.h"

#define FIXTURE_ID "3QKZ7M5XW2N4YB6TPLDRA2CVHE"
#define FIXTURE_ONES "1111111111111111111111111111111111111111111111111111111111111111"
#define FIXTURE_MAP "[{\"o\":0,\"l\":8},{\"o\":4096,\"l\":8}]"
#define FIXTURE_CREATED_NS INT64_C(1788251400123456789) /* 2026-09-01T08:30:00.123456789Z */
#define FIXTURE_CONFIG_DIGEST "sha256:c428aef96fce16a58f28eacc8f74604b66a4e9d50474c9cfc088acc217bf1fcf"
#define FIXTURE_MANIFEST_DIGEST "sha256:5e42845723fd43407fac7065f8c0c4237fd1db95bb4711459f3f26feebe568e4"

/* snapshot.json as `cocoon snapshot export` writes it, name vk-demo-web-0. */
extern const char fixture_envelope[];
/* The archive, envelope first. `into` is initialised by the caller. */
void fixture_archive(struct cc_buf *into);
/* An entry with its body and padding. mode 0640 unless the name is memory-ranges (0600). */
void fixture_add_entry(struct cc_buf *into, const char *name, const void *body, size_t bytes, const char *sparse_map,
                       int64_t sparse_size);

#endif
