/*
 * utl: datagrams over TCP that go stale.
 *
 * Each datagram is a record of the byte stream; what cannot be played in time any more, or depends on what cannot, is not
 * sent, nor sent again (McQuistin, "Transport-Layer Support for Multimedia Applications", section 3). The peer needs nothing
 * but TCP and can tell the records apart. Part of libcm; the manual, with an example, is utl(3).
 *
 * Functions return what they are asked for, or -1 with errno set; utl_error() says in words what is wrong and what to do
 * about it. All may be called from any thread.
 */
#ifndef UTL_H
#define UTL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a stream, in both directions: "timeous://HOST:PORT" calls, "timeous://:PORT" waits to be called. Keys may follow,
 * as in "?latency=200ms" (how long the receiver buffers before it plays; 300 ms unless given); `timeous send --help` lists
 * them. Returns a descriptor that is readable (select, poll, epoll) when utl_recv_dgram() may have something. It is the
 * library's: do not read, write or close it. */
int utl_open(const char *uri);

/* Runs a stream over a TCP socket that is connected already, such as one of accept(), or one behind a proxy whose header has
 * been read. keys: as behind the "?" of a URI, or NULL. The socket is the library's from then on, unless the call fails. The stream
 * is not encrypted: if the peer is another host, keys has to say "encryption=off". */
int utl_adopt(int socket, const char *keys);

/* Waits until everything that was sent has arrived or been given up, and ends the stream in order. The descriptor is to be
 * closed nevertheless. */
int utl_finish(int fd);

/* Lets go of a stream: what is under way is not waited for. Who waits in utl_recv_dgram() hears of the end. */
int utl_close(int fd);

/* ---- Sending ----
 * None of these waits. They return len; EAGAIN: too much is queued already. A datagram has 1 to utl_get_pmtu() bytes. */

/* One that never expires, on sub-stream 3 (the paper's send_dgram(fd, buf, len)). */
ssize_t utl_send_dgram(int fd, const void *buf, size_t len);

/* The same on a sub-stream of the application's, from 0 to 255. */
ssize_t utl_send_dgram_on(int fd, const void *buf, size_t len, uint8_t substream);

/* One that is of use until its playout time: the first begins the playout, the others are due by their distance from it on
 * the clock of utl_set_clockrate(). Playout times may wrap. It goes on sub-stream 2. */
ssize_t utl_send_dgram_timed(int fd, const void *buf, size_t len, uint32_t playout);

/* One with a number, for others to depend on. It never expires. */
ssize_t utl_send_dgram_seq(int fd, const void *buf, size_t len, uint16_t seq);

/* One that is of use only if the datagram with the number dep arrives; dep equal to seq: it is independent. Numbers may wrap. */
ssize_t utl_send_dgram_dep(int fd, const void *buf, size_t len, uint16_t seq, uint16_t dep);

/* Both: a playout time, and another datagram without which it is of no use. */
ssize_t utl_send_dgram_timed_dep(int fd, const void *buf, size_t len, uint32_t playout, uint16_t seq, uint16_t dep);

/* How many times a second playout times count, such as 90000 (the default) for video: the paper's setClockrate. The
 * next timed datagram begins the playout anew. */
int utl_set_clockrate(int fd, uint32_t hz);

/* The longest datagram that leaves as one segment on the path of now: the paper's getPMTU, less what a record takes. At most
 * that of Ethernet, unless the URI says mtu=. */
ssize_t utl_get_pmtu(int fd);

/* ---- Receiving ---- */

/* The next datagram, in the order of arrival, past a gap in the byte stream where the process may see segments (CAP_NET_RAW;
 * not with unordered=off or framing= in the URI); its length. 0: the peer has ended the stream. EMSGSIZE: it is longer than
 * len bytes, and still waits. */
ssize_t utl_recv_dgram(int fd, void *buf, size_t len);

/* The same, and its sub-stream: 2 for what was timed. */
ssize_t utl_recv_dgram_on(int fd, void *buf, size_t len, uint8_t *substream);

/* How long utl_recv_dgram() waits for a datagram: -1 (the default) as long as it takes, 0 not at all. Then it is EAGAIN. A signal does
 * not end the wait (no EINTR): with 0, wait by poll(), which it ends. */
int utl_set_timeout(int fd, int milliseconds);

/* ---- What became of it ---- */

struct utl_counts {
	uint64_t acked;    /* datagrams that arrived */
	uint64_t lost;     /* that left, and did not arrive as far as is known */
	uint64_t dropped;  /* that never left: expired, or depending on what was lost or dropped */
	uint64_t pending;  /* that have none of these fates yet */
	uint64_t replaced; /* of the lost and dropped: those that the kernel had already, and that made way for others */
};
int utl_query(int fd, struct utl_counts *counts);

/* What is wrong with the last call of this thread that failed, and what to do about it. Valid until the next one fails. */
const char *utl_error(void);

#ifdef __cplusplus
}
#endif

#endif
