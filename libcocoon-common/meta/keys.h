/* Every label, annotation, finalizer and fixed name of the contract. contract/02 chapters 2 and 3. */
#ifndef CC_META_KEYS_H
#define CC_META_KEYS_H

#define CC_KEY_SET_NAME "cocoonset.cocoonstack.io/name"
#define CC_KEY_ROLE "cocoonset.cocoonstack.io/role"
#define CC_KEY_SLOT "cocoonset.cocoonstack.io/slot"
#define CC_KEY_APP_NAME "app.kubernetes.io/name"

#define CC_KEY_VM_NAME "vm.cocoonstack.io/name"
#define CC_KEY_IMAGE "cocoonset.cocoonstack.io/image"
#define CC_KEY_MODE "cocoonset.cocoonstack.io/mode"
#define CC_KEY_OS "cocoonset.cocoonstack.io/os"
#define CC_KEY_STORAGE "cocoonset.cocoonstack.io/storage"
#define CC_KEY_NETWORK "cocoonset.cocoonstack.io/network"
#define CC_KEY_SNAPSHOT_POLICY "cocoonset.cocoonstack.io/snapshot-policy"
#define CC_KEY_MANAGED "cocoonset.cocoonstack.io/managed"
#define CC_KEY_FORCE_PULL "cocoonset.cocoonstack.io/force-pull"
#define CC_KEY_FORK_FROM "vm.cocoonstack.io/fork-from"
#define CC_KEY_CONN_TYPE "vm.cocoonstack.io/conn-type"
#define CC_KEY_BACKEND "vm.cocoonstack.io/backend"
#define CC_KEY_NO_DIRECT_IO "vm.cocoonstack.io/no-direct-io"
#define CC_KEY_PROBE_PORT "vm.cocoonstack.io/probe-port"

#define CC_KEY_VM_ID "vm.cocoonstack.io/id"
#define CC_KEY_IP "vm.cocoonstack.io/ip"
#define CC_KEY_VNC_PORT "vm.cocoonstack.io/vnc-port"

#define CC_KEY_GENERATION "cocoonset.cocoonstack.io/generation"
#define CC_KEY_HIBERNATE "vm.cocoonstack.io/hibernate"
#define CC_KEY_RESTORE "vm.cocoonstack.io/restore-from-hibernate"
#define CC_KEY_KEEP_SNAPSHOT "vm.cocoonstack.io/keep-snapshot-on-delete"
#define CC_KEY_CLONE_FROM_DIR "vm.cocoonstack.io/clone-from-dir"
/* The literal key is not known (contract/02 section 20): nobody reads it yet (decision 35). */
#define CC_KEY_SNAPSHOT_ANNOTATIONS "vm.cocoonstack.io/snapshot-annotations"

#define CC_KEY_LIFECYCLE_STATE "vm.cocoonstack.io/lifecycle-state"
#define CC_KEY_LIFECYCLE_GENERATION "vm.cocoonstack.io/lifecycle-observed-generation"
#define CC_KEY_LIFECYCLE_MESSAGE "vm.cocoonstack.io/lifecycle-state-message"

#define CC_KEY_POST_CLONE_HINT "vm.cocoonstack.io/post-clone-hint"
#define CC_KEY_POST_CLONE_STATE "vm.cocoonstack.io/post-clone-state"
#define CC_KEY_POST_CLONE_ERRORS "vm.cocoonstack.io/post-clone-errors"

#define CC_KEY_DEAD_LETTER "cocoonset.cocoonstack.io/dead-letter"
#define CC_KEY_REBUILD_HISTORY "cocoonset.cocoonstack.io/rebuild-history"
#define CC_KEY_DELETE_VM_NAMES "cocoonset.cocoonstack.io/delete-vm-names"
#define CC_KEY_HIBERNATE_RECLAIM "cocoonset.cocoonstack.io/hibernate-reclaim"
#define CC_KEY_SUSPENDING_SINCE "cocoonset.cocoonstack.io/suspending-since"
#define CC_KEY_HIBERNATED_ON_NODE "cocoonset.cocoonstack.io/hibernated-on-node"

#define CC_FINALIZER_SET "cocoonset.cocoonstack.io/finalizer"
#define CC_FINALIZER_HIBERNATION "cocoonhibernation.cocoonset.cocoonstack.io/finalizer"

#define CC_KEY_POOL "cocoonstack.io/pool"
#define CC_KEY_SNAPSHOT_CPU_CLASS "cocoonstack.io/snapshot-cpu-class"
#define CC_KEY_NODE_ROLE "node-role.kubernetes.io/cocoon-vm"
#define CC_KEY_PROVIDER_TAINT "virtual-kubelet.io/provider"
#define CC_KEY_HOSTNAME "kubernetes.io/hostname"
#define CC_DEFAULT_POOL "default"

#define CC_ROLE_MAIN "main"
#define CC_ROLE_SUB_AGENT "sub-agent"
#define CC_ROLE_TOOLBOX "toolbox"

#define CC_STATE_CREATING "creating"
#define CC_STATE_READY "ready"
#define CC_STATE_HIBERNATING "hibernating"
#define CC_STATE_HIBERNATED "hibernated"
#define CC_STATE_FAILED "failed"

#define CC_IMPORT_SUFFIX "-hibernate-import"
#define CC_FORK_PREFIX "fork-"

#endif
