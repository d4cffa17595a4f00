/* The delete-vm-names annotation: no name is lost by reading and writing, and the text is sorted and without repeats.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "meta/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct cc_arena arena = {0};
    struct cc_strlist names, all = {0}, again;
    cc_delete_names_parse(text, &arena, &names);
    for (size_t i = 0; i < names.count; i++)
        fuzz_require(*names.items[i] && !strchr(names.items[i], ','));
    cc_strlist_copy(&all, &arena, &names);
    const char *written = cc_delete_names_encode(&names, &arena);
    fuzz_require((written == NULL) == (all.count == 0));
    if (written) {
        cc_delete_names_parse(written, &arena, &again);
        for (size_t i = 0; i < all.count; i++)
            fuzz_require(cc_strlist_has(&again, all.items[i]));
        for (size_t i = 1; i < again.count; i++)
            fuzz_require(strcmp(again.items[i - 1], again.items[i]) < 0);
        fuzz_require(strcmp(cc_delete_names_encode(&again, &arena), written) == 0);
    }
    cc_arena_done(&arena);
    return 0;
}
