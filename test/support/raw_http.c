#include "support/raw_http.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/text.h"

int cc_raw_connect(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(cc_io_set_nonblocking(fd, NULL), 0);
    return fd;
}

void cc_raw_send(int fd, const char *bytes, size_t count) {
    CC_DEADLINE_MS(10000);
    /* The server may refuse before it has read everything. */
    cc_ignore(cc_io_write_all(fd, bytes, count, NULL), "the answer tells");
}

void cc_raw_receive(int fd, int64_t ms, struct cc_buf *into) {
    char chunk[16384];
    size_t count = 1;
    int rc = 0;
    CC_DEADLINE_MS(ms);
    while (rc == 0 && count > 0) {
        rc = cc_io_read(fd, chunk, sizeof chunk, &count, NULL);
        if (rc == 0)
            cc_buf_append(into, chunk, count);
    }
    if (rc == CC_TIMEOUT)
        cc_buf_puts(into, "...open");
}

void cc_raw_receive_until(int fd, const char *text, struct cc_buf *into) {
    char chunk[16384];
    size_t count = 1;
    CC_DEADLINE_MS(10000);
    while (!cc_text_contains(into->data, text) && count > 0) {
        ck_assert_msg(cc_io_read(fd, chunk, sizeof chunk, &count, NULL) == 0, "no '%s' in '%s'", text, into->data);
        cc_buf_append(into, chunk, count);
    }
    ck_assert_msg(cc_text_contains(into->data, text), "no '%s' in '%s'", text, into->data);
}

char *cc_raw_exchange(int port, const char *request) {
    struct cc_buf response;
    int fd = cc_raw_connect(port);
    cc_buf_init(&response, (size_t)128 << 20);
    cc_raw_send(fd, request, strlen(request));
    cc_raw_receive(fd, 10000, &response);
    close(fd);
    return cc_buf_steal(&response);
}

int cc_raw_status(const char *response) {
    int32_t status = 0;
    char digits[4] = {0};
    if (cc_text_starts_with(response, "HTTP/1.1 ") && strlen(response) > 12)
        memcpy(digits, response + 9, 3);
    cc_ignore(cc_parse_int32(digits, 100, 599, &status), "0 tells");
    return status;
}

const char *cc_raw_body(const char *response) {
    const char *end = strstr(response, "\r\n\r\n");
    return end ? end + 4 : "";
}
