/* Layout of a USTAR header block (POSIX.1-1988). Shared by tar_reader.c and tar_writer.c. */
#ifndef CC_OCI_TAR_FORMAT_H
#define CC_OCI_TAR_FORMAT_H

#include <stdint.h>

struct cc_ustar_header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link_name[100];
    char magic[6];
    char version[2];
    char user_name[32];
    char group_name[32];
    char device_major[8];
    char device_minor[8];
    char prefix[155];
    char unused[12];
};
_Static_assert(sizeof(struct cc_ustar_header) == 512, "one block");

#define CC_TAR_OCTAL_SIZE_MAX INT64_C(077777777777) /* 8 GiB - 1 */
#define CC_PAX_SPARSE_MAP "COCOON.sparse.map"
#define CC_PAX_SPARSE_SIZE "COCOON.sparse.size"

#endif
