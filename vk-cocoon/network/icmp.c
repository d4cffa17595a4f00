#include "network/icmp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aio/io.h"
#include "base/file.h"

#define ICMP_TYPE_ECHO 8
#define ICMP_TYPE_REPLY 0
#define ICMP_HEADER_BYTES 8
#define IP_HEADER_BYTES_MIN 20
#define PACKET_BYTES 2048

static uint16_t checksum(const uint8_t *bytes, size_t count) {
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < count; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    if (count % 2)
        sum += (uint32_t)bytes[count - 1] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

void vk_icmp_echo(uint16_t identifier, uint8_t ret[VK_ICMP_ECHO_BYTES]) {
    static const char data[] = "vk-cocoon";

    memset(ret, 0, VK_ICMP_ECHO_BYTES);
    ret[0] = ICMP_TYPE_ECHO;
    ret[4] = (uint8_t)(identifier >> 8);
    ret[5] = (uint8_t)identifier;
    ret[7] = 1; /* sequence */
    memcpy(ret + ICMP_HEADER_BYTES, data, sizeof data - 1);

    uint16_t sum = checksum(ret, VK_ICMP_ECHO_BYTES);
    ret[2] = (uint8_t)(sum >> 8);
    ret[3] = (uint8_t)sum;
}

bool vk_icmp_is_reply(const uint8_t *packet, size_t count, uint16_t identifier, struct in_addr from,
                      struct in_addr probed) {
    if (from.s_addr != probed.s_addr || count < IP_HEADER_BYTES_MIN || packet[0] >> 4 != 4)
        return false;
    size_t header = (size_t)(packet[0] & 15) * 4;
    if (header < IP_HEADER_BYTES_MIN || count < header + ICMP_HEADER_BYTES)
        return false;
    const uint8_t *icmp = packet + header;
    return icmp[0] == ICMP_TYPE_REPLY && icmp[4] == (uint8_t)(identifier >> 8) && icmp[5] == (uint8_t)identifier;
}

static int open_socket(int *ret, struct cc_err *err) {
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);

    if (fd < 0)
        return cc_err_errno(err, errno, "raw ICMP socket");
    *ret = fd;
    return 0;
}

int vk_icmp_check(struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = -1;

    return open_socket(&fd, err);
}

static int send_request(int fd, const struct sockaddr_in *to, const char *ip, uint16_t identifier, struct cc_err *err) {
    uint8_t request[VK_ICMP_ECHO_BYTES];

    vk_icmp_echo(identifier, request);
    for (;;) {
        if (sendto(fd, request, sizeof request, MSG_NOSIGNAL, (const struct sockaddr *)to, sizeof *to) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return cc_err_errno(err, errno, "send echo request to %s", ip);
        int rc = cc_io_wait(fd, CC_IO_WRITE, err);
        if (rc != 0)
            return rc;
    }
}

static int await_reply(int fd, const struct sockaddr_in *to, const char *ip, uint16_t identifier, struct cc_err *err) {
    uint8_t packet[PACKET_BYTES];

    for (;;) {
        struct sockaddr_in from = {0};
        socklen_t from_bytes = sizeof from;
        ssize_t count = recvfrom(fd, packet, sizeof packet, 0, (struct sockaddr *)&from, &from_bytes);

        /* A raw socket sees the ICMP traffic of the whole host: whatever is not our reply is ignored. */
        if (count >= 0 && vk_icmp_is_reply(packet, (size_t)count, identifier, from.sin_addr, to->sin_addr))
            return 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return cc_err_errno(err, errno, "receive echo reply from %s", ip);
        /* A flood of foreign packets must not hold the loop. */
        int rc = count >= 0 ? cc_yield(err) : cc_io_wait(fd, CC_IO_READ, err);
        if (rc != 0)
            return cc_err_wrap(err, "echo reply from %s", ip), rc;
    }
}

int vk_icmp_ping(const char *ip, struct cc_err *err) {
    int fd cc_cleanup(cc_fd_close_p) = -1;
    struct sockaddr_in to = {.sin_family = AF_INET};
    uint16_t identifier = (uint16_t)(getpid() & 0xffff);
    struct icmp_filter replies_only = {.data = ~(UINT32_C(1) << ICMP_TYPE_REPLY)};

    if (inet_pton(AF_INET, ip, &to.sin_addr) != 1)
        return cc_err_set(err, CC_INVALID, "ping: \"%s\" is not an IPv4 address", ip);
    if (cc_deadline().ns == CC_MONO_NEVER.ns)
        return cc_err_set(err, CC_INVALID, "ping %s without a deadline", ip);
    int rc = open_socket(&fd, err);
    if (rc != 0)
        return rc;
    cc_ignore(setsockopt(fd, SOL_RAW, ICMP_FILTER, &replies_only, sizeof replies_only),
              "the filter only saves wake-ups, every packet is checked");
    rc = send_request(fd, &to, ip, identifier, err);
    return rc == 0 ? await_reply(fd, &to, ip, identifier, err) : rc;
}
