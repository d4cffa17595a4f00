/* Runs one fuzz target on its corpus in the tree, without libFuzzer: test/fuzz/corpus/<name of the program>, every file
 * as it is, cut short at several places and with single bytes changed. A child process for each file, so that one crash
 * does not hide the next. Ends with a line like Check's.
 *
 * Arguments: files to feed instead, in this process. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/attributes.h"
#include "base/file.h"
#include "fuzz/fuzz.h"

#define CORPUS_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define CUTS_MAX 24
#define CHANGES_MAX 24

/* A copy of exactly that size, so that a read beyond it is seen. */
static void feed_bytes(const char *bytes, size_t count) {
    uint8_t *copy = cc_xmalloc(count ? count : 1);
    if (count > 0)
        memcpy(copy, bytes, count);
    LLVMFuzzerTestOneInput(copy, count);
    free(copy);
}

static void feed_variants(const struct cc_buf *text) {
    struct fuzz_dice dice = fuzz_dice_of((const uint8_t *)text->data, text->len);
    for (size_t i = 0; i < CUTS_MAX && i < text->len; i++)
        feed_bytes(text->data, text->len <= CUTS_MAX ? i : fuzz_roll(&dice, text->len) - 1);
    for (size_t i = 0; i < CHANGES_MAX && text->len > 0; i++) {
        char *at = &text->data[fuzz_roll(&dice, text->len) - 1], old = *at;
        *at = (char)fuzz_roll(&dice, 256);
        feed_bytes(text->data, text->len);
        *at = old;
    }
}

static int feed_file(const char *path) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&text, CORPUS_BYTES_MAX);
    if (cc_file_read(path, &text, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    feed_bytes(text.data, text.len);
    feed_variants(&text);
    return 0;
}

static bool passes(const char *path) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        exit(feed_file(path));
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (feed_file(argv[i]) != 0)
            return 1;
    if (argc > 1)
        return 0;
    const char *slash = strrchr(argv[0], '/');
    char *directory cc_cleanup(cc_free_p) = cc_xasprintf("test/fuzz/corpus/%s", slash ? slash + 1 : argv[0]);
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_shown, alphasort), failed = 0;
    if (count < 0)
        perror(directory);
    for (int i = 0; i < count; i++) {
        char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", directory, entries[i]->d_name);
        if (!passes(path)) {
            fprintf(stderr, "FAIL %s %s\n", argv[0], path);
            failed++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d%%: Checks: %d, Failures: 0, Errors: %d\n", count > 0 ? (count - failed) * 100 / count : 0,
           count > 0 ? count : 0, failed);
    return count <= 0 || failed > 0;
}
