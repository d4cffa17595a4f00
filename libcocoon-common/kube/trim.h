/* What nobody here reads, cut out of an object's text before it is parsed: metadata.managedFields, which is two fifths
 * of what a real API server sends. An object that is written back without it keeps it. */
#ifndef CC_KUBE_TRIM_H
#define CC_KUBE_TRIM_H

#include <stddef.h>

/* Cuts every member "managedFields" whose value is an array, in place, as API servers write it (without blanks). Gives
 * the new length. Text that is malformed there is left as it is: the parser will say so. */
size_t cc_kube_trim(char *text, size_t count);

#endif
