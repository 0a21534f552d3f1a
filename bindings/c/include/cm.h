/*
 * libcm: the Congestion Manager for C.
 *
 * Flows of a host to one destination share what is known of the path. An application asks to send, is called back when it
 * may, says what it sent, and says what became of it (Andersen et al., "System Support for Bandwidth Management and Content
 * Adaptation in Internet Applications", OSDI 2000, section 2). The manual, with an example, is cm(3).
 *
 * Functions return 0 (or what they are asked for), or -1 with errno set; cm_error() says in words what is wrong and what to
 * do about it. All but cm_loop() return at once. All may be called from any thread, and from within callbacks.
 */
#ifndef CM_H
#define CM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A flow: greater than zero, and never used again within a process. */
typedef int64_t cm_flowid;

/* What kind of congestion feedback shows. */
enum {
	CM_NO_LOSS = 0,    /* none; what did not arrive is gone for another reason */
	CM_TRANSIENT = 1,  /* some packets of a window were lost */
	CM_PERSISTENT = 2, /* nothing came back: a timeout */
	CM_ECN = 3         /* packets were marked (RFC 3168) */
};

/* What is known of a flow's path. Times are in nanoseconds, -1 while unknown; windows in bytes. */
struct cm_path {
	uint64_t rate_bps;    /* this flow's share of the macroflow's rate, in bits a second */
	int64_t srtt_ns;      /* smoothed round-trip time */
	int64_t rttvar_ns;    /* its mean deviation */
	int64_t min_rtt_ns;   /* the least round-trip time seen */
	uint64_t window;      /* what the macroflow may have outstanding */
	uint64_t outstanding; /* what it has outstanding */
	uint32_t loss_ppm;    /* share of the packets lost of late, in parts per million */
	uint32_t reserved;    /* zero */
};

/* Where the manager is. Only before anything else; without it the first call means cm_init(NULL). `where` is
 * "process" (this process by itself), "daemon" or "daemon:PATH" (the host's `timeous daemon`, at its usual socket or
 * at PATH), or NULL: the daemon if there is one, else this process. */
int cm_init(const char *where);

/* ---- State ---- */

/* Opens a flow from src (NULL: any) to dst, both of AF_INET or AF_INET6, addresses and ports. */
cm_flowid cm_open(const struct sockaddr *src, socklen_t srclen, const struct sockaddr *dst, socklen_t dstlen);

/* What cm_open_with() can be told beyond addresses. Zero means the default. */
struct cm_options {
	uint32_t mtu;    /* the largest packet, in bytes of UDP payload; default: what the route carries, at most 8972 */
	uint32_t weight; /* share among the flows of a macroflow, where it is scheduled by weight; default 1 */
	uint8_t dscp;    /* flows with different code points do not share a macroflow (RFC 3124 section 5) */
	uint8_t reserved[7]; /* zero */
};

/* As cm_open(), with options; NULL for none. */
cm_flowid cm_open_with(const struct sockaddr *src, socklen_t srclen, const struct sockaddr *dst, socklen_t dstlen,
		       const struct cm_options *options);

/* Closes a flow. What it held goes to others. */
int cm_close(cm_flowid flow);

/* The largest packet of a flow, in bytes of UDP payload: what cm_open_with() was told, or what the route carries; less once
 * the kernel has learnt of a router that passes less (RFC 1191). */
int cm_mtu(cm_flowid flow);

/* ---- Sending ---- */

/* Asks for the right to send one packet of up to cm_mtu() bytes: one call, one cmapp_send(). */
int cm_request(cm_flowid flow);

/* The same for a packet that is worth most until deadline_ns (CLOCK_MONOTONIC): where the macroflow is scheduled by
 * CM_DEADLINE, the earliest goes first. */
int cm_request_by(cm_flowid flow, int64_t deadline_ns);

/* A grant was used for nsent bytes; 0 gives it back. Each grant is answered so, once, within the callback or soon after. */
int cm_notify(cm_flowid flow, uint64_t nsent);

/* A packet of nsent bytes left without a grant, as those of a sender with a clock of its own do, which keeps to the rate
 * that cmapp_update() tells it. */
int cm_notify_unasked(cm_flowid flow, uint64_t nsent);

/* ---- Feedback ---- */

/* What the receiver told: of nsent bytes whose fate is known now, nrecd arrived. rtt_ns is a round-trip time sample, or
 * 0 for none. Feedback that cannot be true is refused (EBADMSG) and changes nothing. */
int cm_update(cm_flowid flow, uint64_t nsent, uint64_t nrecd, int lossmode, int64_t rtt_ns);

/* ---- Feedback by libcm's own acknowledgements ----
 * For protocols that have none. A packet carries the number that cm_sent() gives for it; the receiver's half notes the
 * numbers that arrive, and writes acknowledgements, which the application sends back; cm_acked() tells the manager what
 * arrived, what is lost (three later packets arrived), round-trip times and ECN marks. Packets of which nothing is heard
 * are given up by cm_dispatch() and cm_loop(). With it, cm_update() is not called. */

/* The next packet of the flow leaves, with nsent bytes, as told by cm_notify(). Its number, counted from 0. */
int64_t cm_sent(cm_flowid flow, uint64_t nsent);

/* An acknowledgement has arrived. The bytes that it newly tells to have arrived, which may be 0. EBADMSG: it is no
 * acknowledgement, or of packets never sent. */
int64_t cm_acked(cm_flowid flow, const void *ack, size_t len);

/* The bytes of the packets of which it is not known yet whether they arrived. */
int64_t cm_unacked(cm_flowid flow);

/* For poll(2): milliseconds until cm_dispatch() has to be called though cm_fd() is not readable; -1: never. */
int cm_timeout(void);

/* The receiver's half, for the packets of one flow. It needs no manager. */
struct cm_receiver;

/* The longest acknowledgement, in bytes. */
enum { CM_ACK_MAX = 530 };

/* An acknowledgement for every `every` packets, or delay_ns after the first of them (at most 200 ms); 0 and 0: for every
 * other packet, or after 20 ms. A gap and an ECN mark are acknowledged at once. NULL with errno set if that cannot be. */
struct cm_receiver *cm_receiver_open(unsigned every, int64_t delay_ns);
void cm_receiver_close(struct cm_receiver *receiver);

/* A packet has arrived; marked: 1 if with the ECN mark CE, else 0. 1 if it is new, 0 if it was there before. */
int cm_receiver_packet(struct cm_receiver *receiver, uint64_t number, int marked);

/* Writes the acknowledgement that is due now, for the application to send back; its length, or 0 if none is. `len` is at
 * least CM_ACK_MAX. */
ssize_t cm_receiver_ack(struct cm_receiver *receiver, void *buffer, size_t len);

/* For poll(2): milliseconds until an acknowledgement is due; -1: none is. */
int cm_receiver_timeout(struct cm_receiver *receiver);

/* ---- The path ---- */

/* What is known of a flow's path. */
int cm_query(cm_flowid flow, struct cm_path *path);

/* ---- Several at once ----
 * All entries are applied, each by itself; its `error` becomes 0 or an errno. The call returns 0 if all are 0, else -1 with
 * the first error. */

struct cm_request_entry {
	cm_flowid flow;
	uint32_t count; /* packets */
	int error;
};
struct cm_notify_entry {
	cm_flowid flow;
	uint64_t nsent;
	int error;
};
struct cm_update_entry {
	cm_flowid flow;
	uint64_t nsent;
	uint64_t nrecd;
	int64_t rtt_ns;
	int64_t sent_ns; /* CLOCK_MONOTONIC when the newest packet that this is about was sent; 0: a round trip ago */
	int lossmode;
	int error;
};
struct cm_query_entry {
	cm_flowid flow;
	struct cm_path path;
	int error;
};
int cm_bulk_request(struct cm_request_entry *entries, size_t n);
int cm_bulk_notify(struct cm_notify_entry *entries, size_t n);
int cm_bulk_update(struct cm_update_entry *entries, size_t n);
int cm_bulk_query(struct cm_query_entry *entries, size_t n);

/* ---- Callbacks ----
 * They run within cm_dispatch() and cm_loop(), on the thread that calls these, with no lock held: a callback may call
 * everything here, cm_close() of its own flow too. It must not longjmp() or throw its way out. */

typedef void (*cm_send_fn)(cm_flowid flow, void *data);
typedef void (*cm_update_fn)(cm_flowid flow, const struct cm_path *path, void *data);
typedef void (*cm_error_fn)(cm_flowid flow, int error, void *data);

/* The flow may send one packet of up to cm_mtu() bytes now, and tells by cm_notify(). */
int cm_register_send(cm_flowid flow, cm_send_fn fn, void *data);

/* The flow's rate has passed a threshold of cm_thresh(). */
int cm_register_update(cm_flowid flow, cm_update_fn fn, void *data);

/* ECONNRESET: the daemon is gone; until it is back the flow's calls fail so. 0: it is back, and the flow is open again
 * with its thresholds; what was asked for, granted and outstanding is forgotten, and options, splits and merges are to be
 * made again. Another: the daemon refused what a call had passed on. */
int cm_register_error(cm_flowid flow, cm_error_fn fn, void *data);

/* A flow for which none is registered (or NULL) is told by these, if the program defines them. A grant of which nobody
 * can be told is given back. */
void cmapp_send(cm_flowid flow);
void cmapp_update(cm_flowid flow, const struct cm_path *path);
void cmapp_error(cm_flowid flow, int error);

/* Asks for cmapp_update() when the rate falls by a factor of `down` or rises by a factor of `up` (0.5 and 2: halved,
 * doubled). 0 < down <= 1 <= up. Flows that do not ask are not told. */
int cm_thresh(cm_flowid flow, double down, double up);

/* ---- Being called back ---- */

/* The control descriptor, one for all flows: readable (select, poll, epoll) when cm_dispatch() has something to do. It is
 * the library's: do not read, write or close it. */
int cm_fd(void);

/* Calls back for all that has happened; the number of callbacks, which may be 0. Never waits. */
int cm_dispatch(void);

/* With 1, SIGIO is sent to the process when cm_dispatch() has something to do; with 0, no longer. Only cm_stop() and what
 * signal-safety(7) lists may be called in its handler: set a flag there, and dispatch outside. */
int cm_set_sigio(int on);

/* The library's own loop: waits and dispatches until cm_stop(). One thread at a time (EBUSY). */
int cm_loop(void);

/* Ends cm_loop(), or the next one if none runs. Safe in a signal handler. */
void cm_stop(void);

/* Lets cm_loop() look after a descriptor of the application, too, such as the socket on which feedback arrives: fn is
 * called when poll(2) says one of `events`, or an error. NULL for fn: no longer. */
typedef void (*cm_ready_fn)(int fd, short revents, void *data);
int cm_watch(int fd, short events, cm_ready_fn fn, void *data);

/* ---- Buffered sending ----
 * A flow that has a socket by CM_BUF calls nobody when it is granted something: what was queued leaves by itself, in
 * cm_dispatch() and cm_loop(). */

/* Queues a datagram of at most cm_mtu() bytes; len, or EAGAIN if the buffer is full: try again after cm_dispatch(). */
ssize_t cm_send(cm_flowid flow, const void *data, size_t len);

/* How many datagrams wait. */
int cm_queued(cm_flowid flow);

/* When the next datagram left (CLOCK_MONOTONIC in nanoseconds), in the order in which they did, each once; EAGAIN if no
 * other has. A round trip begins there, not when it was queued. The last 4096 are kept. */
int64_t cm_departure(cm_flowid flow);

/* ---- Macroflows ---- */

/* Takes a flow out of its macroflow into one of its own, which starts anew. */
int cm_split(cm_flowid flow);

/* Puts a flow into the macroflow of another, if they have the same user. */
int cm_merge(cm_flowid flow, cm_flowid with);

/* ---- Options ---- */

enum {
	CM_BUF = 1,       /* int: a connected datagram socket by which cm_send() sends; libcm keeps a copy */
	CM_WEIGHT = 2,    /* uint32_t: the flow's share where its macroflow is scheduled by weight */
	CM_SCHEDULER = 3, /* int, of the flow's macroflow: one of the next three */
	CM_CONTROLLER = 4, /* char[], of the flow's macroflow: "copa", "live", "bbr", "scream", "aimd", "newreno", "cubic" or "tfrc" */
	CM_BUFSIZE = 5    /* uint32_t: bytes that may wait, after CM_BUF; default 65536 */
};
enum { CM_ROUND_ROBIN = 0, CM_WEIGHTED = 1, CM_DEADLINE = 2 };
int cm_setopt(cm_flowid flow, int option, const void *value, socklen_t len);

/* ---- Errors ---- */

/* What is wrong with the last call of this thread that failed, and what to do about it. Valid until the next one fails. */
const char *cm_error(void);

/* What an error number means here, in a few words; static. */
const char *cm_strerror(int error);

#ifdef __cplusplus
}
#endif

#endif
