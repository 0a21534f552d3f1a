/* PR-SCTP by usrsctp as a program: takes datagrams from loopback at one end, and gives them to loopback at the other.
 * Timed reliability (RFC 3758 §4.1), unordered, over UDP (RFC 6951).
 *
 *     timeous-sctp receive PORT ADDRESS TO-PORT
 *     timeous-sctp send FROM-PORT ADDRESS PORT LIFETIME-MS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usrsctp.h>

/* The port within UDP. */
enum { SCTP_PORT = 5000, LARGEST = 65536 };

static void fail(const char *what) {
    fprintf(stderr, "timeous-sctp: cannot %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in address(const char *host, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    if (host && inet_pton(AF_INET, host, &to.sin_addr) != 1) {
        errno = EINVAL;
        fail("read an address");
    }
    return to;
}

static struct socket *open_sctp(void) {
    struct socket *sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!sock) fail("open a socket");
    int on = 1;
    if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) < 0) fail("set SCTP_NODELAY");
    return sock;
}

static void encapsulate(struct socket *sock, int port) {
    struct sctp_udpencaps encaps = {.sue_port = htons((unsigned short)port)};
    encaps.sue_address.ss_family = AF_INET;
    if (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) < 0)
        fail("set the UDP port");
}

static int receive(int port, const char *host, int to_port) {
    usrsctp_init((unsigned short)port, NULL, NULL);
    struct socket *listener = open_sctp();
    struct sockaddr_in own = address(NULL, SCTP_PORT), to = address(host, to_port);
    if (usrsctp_bind(listener, (struct sockaddr *)&own, sizeof own) < 0 || usrsctp_listen(listener, 1) < 0)
        fail("listen");
    struct socket *sock = usrsctp_accept(listener, NULL, NULL);
    if (!sock) fail("accept");
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    static char bytes[LARGEST];
    for (;;) {
        struct sockaddr_in from;
        struct sctp_rcvinfo info;
        socklen_t from_len = sizeof from, info_len = sizeof info;
        unsigned type = 0;
        int flags = 0;
        ssize_t len = usrsctp_recvv(sock, bytes, sizeof bytes, (struct sockaddr *)&from, &from_len, &info, &info_len,
                                    &type, &flags);
        if (len <= 0) return 0;
        if (!(flags & MSG_NOTIFICATION)) sendto(out, bytes, (size_t)len, 0, (struct sockaddr *)&to, sizeof to);
    }
}

static int send_all(int from_port, const char *host, int port, unsigned lifetime) {
    /* Any port of ours: the other end answers to where we call from. */
    usrsctp_init((unsigned short)(port + 1000), NULL, NULL);
    struct socket *sock = open_sctp();
    encapsulate(sock, port);
    struct sockaddr_in there = address(host, SCTP_PORT), own = address("127.0.0.1", from_port);
    if (usrsctp_connect(sock, (struct sockaddr *)&there, sizeof there) < 0) fail("connect");
    /* A full buffer must not hold up the source: what does not fit is dropped here. */
    usrsctp_set_non_blocking(sock, 1);
    int in = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(in, (struct sockaddr *)&own, sizeof own) < 0) fail("take datagrams");
    static char bytes[LARGEST];
    unsigned long refused = 0;
    for (;;) {
        ssize_t len = recv(in, bytes, sizeof bytes, 0);
        if (len < 0) fail("take a datagram");
        if (len == 11 && !memcmp(bytes, "TIMEOUS-END", 11)) break;
        struct sctp_sendv_spa spa = {.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID};
        spa.sendv_sndinfo.snd_flags = SCTP_UNORDERED;
        spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
        spa.sendv_prinfo.pr_value = lifetime;
        if (usrsctp_sendv(sock, bytes, (size_t)len, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0) < 0) {
            if (errno != EWOULDBLOCK && errno != EAGAIN) fail("send");
            refused++;
        }
    }
    printf("refused for a full buffer: %lu\n", refused);
    return 0;
}

int main(int words, char **word) {
    if (words == 5 && !strcmp(word[1], "receive")) return receive(atoi(word[2]), word[3], atoi(word[4]));
    if (words == 6 && !strcmp(word[1], "send"))
        return send_all(atoi(word[2]), word[3], atoi(word[4]), (unsigned)atoi(word[5]));
    fprintf(stderr, "timeous-sctp receive PORT ADDRESS TO-PORT | send FROM-PORT ADDRESS PORT LIFETIME-MS\n");
    return 2;
}
