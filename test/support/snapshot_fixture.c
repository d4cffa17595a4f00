#include "support/snapshot_fixture.h"

#include <string.h>

#include "base/assert.h"
#include "oci/tar.h"

const char fixture_envelope[] = "{\n"
                                "  \"version\": 1,\n"
                                "  \"config\": {\n"
                                "    \"id\": \"" FIXTURE_ID "\",\n"
                                "    \"name\": \"vk-demo-web-0\",\n"
                                "    \"description\": \"nightly\",\n"
                                "    \"image\": \"images/debian:13\",\n"
                                "    \"image_digest\": \"sha256:" FIXTURE_ONES "\",\n"
                                "    \"image_type\": \"cloudimg\",\n"
                                "    \"image_blob_ids\": {\n"
                                "      \"" FIXTURE_ONES "\": {}\n"
                                "    },\n"
                                "    \"hypervisor\": \"cloud-hypervisor\",\n"
                                "    \"cpu\": 2,\n"
                                "    \"memory\": 2147483648,\n"
                                "    \"storage\": 10737418240,\n"
                                "    \"nics\": 1,\n"
                                "    \"network\": \"cocoon-dhcp\"\n"
                                "  }\n"
                                "}\n";

void fixture_add_entry(struct cc_buf *into, const char *name, const void *body, size_t bytes, const char *sparse_map,
                       int64_t sparse_size) {
    static const char zeros[CC_TAR_BLOCK_BYTES];
    const struct cc_tar_entry entry = {.name = name,
                                       .is_regular = true,
                                       .mode = strcmp(name, "memory-ranges") == 0 ? 0600 : 0640,
                                       .size = (int64_t)bytes,
                                       .sparse_map = sparse_map,
                                       .sparse_size = sparse_size};
    int rc = cc_tar_write_header(into, &entry, 1788251400, NULL);
    if (rc == 0)
        rc = cc_buf_append(into, body, bytes);
    if (rc == 0)
        rc = cc_buf_append(into, zeros, cc_tar_padding(entry.size));
    cc_assert(rc == 0);
}

void fixture_archive(struct cc_buf *into) {
    fixture_add_entry(into, "snapshot.json", fixture_envelope, strlen(fixture_envelope), NULL, 0);
    fixture_add_entry(into, "config.json", "{\"cpus\":2}", 10, NULL, 0);
    fixture_add_entry(into, "memory-ranges", "HEADDATATAILDATA", 16, FIXTURE_MAP, 8192);
    fixture_add_entry(into, "overlay.qcow2", "QFI\xfb-overlay", 12, NULL, 0);
    fixture_add_entry(into, "state.json", "{\"state\":\"Paused\"}", 18, NULL, 0);
    cc_tar_write_end(into);
}
