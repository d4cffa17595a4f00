/* Media types of manifests, configs and layers: contract/05 chapter 1. */
#ifndef CC_OCI_MEDIA_TYPES_H
#define CC_OCI_MEDIA_TYPES_H

#define CC_TYPE_OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define CC_TYPE_OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define CC_TYPE_OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define CC_TYPE_OCI_EMPTY "application/vnd.oci.empty.v1+json"
#define CC_TYPE_DOCKER_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define CC_TYPE_DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define CC_TYPE_DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"
#define CC_TYPE_CLOUD_IMAGE "application/vnd.cocoonstack.os-image.v1+json"
#define CC_TYPE_CLOUD_IMAGE_LEGACY "application/vnd.cocoonstack.windows-image.v1+json"
#define CC_TYPE_SNAPSHOT_V1 "application/vnd.cocoonstack.snapshot.v1+json"
#define CC_TYPE_SNAPSHOT_V2 "application/vnd.cocoonstack.snapshot.v2+json"
#define CC_TYPE_SNAPSHOT_CONFIG "application/vnd.cocoonstack.snapshot.config.v1+json"
#define CC_TYPE_TOMBSTONE "application/vnd.cocoonstack.tombstone.v1+json" /* decision 63 */
#define CC_TYPE_VM_CONFIG "application/vnd.cocoonstack.vm.config+json"
#define CC_TYPE_VM_STATE "application/vnd.cocoonstack.vm.state+json"
#define CC_TYPE_VM_MEMORY "application/vnd.cocoonstack.vm.memory"
#define CC_TYPE_VM_CIDATA "application/vnd.cocoonstack.vm.cidata"
#define CC_TYPE_DISK_QCOW2 "application/vnd.cocoonstack.disk.qcow2"
#define CC_TYPE_DISK_RAW "application/vnd.cocoonstack.disk.raw"
#define CC_TYPE_WINDOWS_DISK_QCOW2 "application/vnd.cocoonstack.windows.disk.qcow2"
#define CC_TYPE_WINDOWS_DISK_RAW "application/vnd.cocoonstack.windows.disk.raw"
#define CC_TYPE_PART_SUFFIX ".part"
#define CC_TYPE_OCTET_STREAM "application/octet-stream"
#define CC_TYPE_ZSTD_SUFFIX "+zstd"

#define CC_ANNOTATION_TITLE "org.opencontainers.image.title"
#define CC_ANNOTATION_CHUNK_INDEX "cocoonstack.chunk.index"
#define CC_ANNOTATION_CHUNK_COUNT "cocoonstack.chunk.count"
#define CC_ANNOTATION_CREATED "org.opencontainers.image.created"

/* Digest and size of the blob "{}". */
#define CC_EMPTY_JSON "{}"
#define CC_EMPTY_JSON_DIGEST "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

#endif
