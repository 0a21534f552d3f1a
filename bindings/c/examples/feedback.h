/* Feedback that libcm needs from a protocol: bytes that arrived, and the round-trip time. */
#ifndef FEEDBACK_H
#define FEEDBACK_H

#include <cm.h>

#include "wire.h"

enum { REMEMBERED = 65536 };

struct feedback {
	uint32_t next;             /* the number of the next packet */
	uint32_t answered;         /* below it, packets have been told of */
	uint64_t sent;             /* bytes */
	uint64_t told;             /* bytes of which cm_update() knows */
	uint64_t acked;            /* bytes of them that arrived */
	uint64_t counted;          /* bytes that the receiver has counted, by its last word */
	uint64_t upto[REMEMBERED]; /* bytes sent, up to and with packet n */
};

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, cm_error());
	exit(1);
}

/* A UDP socket to host and port, and the Congestion Manager's flow for it. */
static inline int connect_flow(const char *host, const char *port, cm_flowid *flow)
{
	struct addrinfo hints, *to;
	struct sockaddr_storage from;
	socklen_t fromlen = sizeof from;
	int sock;

	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_DGRAM;
	if (getaddrinfo(host, port, &hints, &to) != 0) {
		fprintf(stderr, "unknown host %s\n", host);
		exit(1);
	}
	sock = socket(to->ai_family, to->ai_socktype, 0);
	if (sock < 0 || connect(sock, to->ai_addr, to->ai_addrlen) < 0 ||
	    getsockname(sock, (struct sockaddr *)&from, &fromlen) < 0) {
		perror(host);
		exit(1);
	}
	*flow = cm_open((struct sockaddr *)&from, fromlen, to->ai_addr, to->ai_addrlen);
	if (*flow < 0)
		die("cm_open");
	freeaddrinfo(to);
	return sock;
}

/* Sends one packet of `size` bytes; what left, or 0. What follows the header is the application's to choose, now. */
static inline uint64_t send_packet(struct feedback *f, int sock, unsigned char *packet, size_t size)
{
	ssize_t n;
	put(packet, f->next, 4);
	put(packet + 4, (uint64_t)now_ns(), 8);
	n = send(sock, packet, size, MSG_DONTWAIT);
	if (n <= 0)
		return 0;
	f->sent += (uint64_t)n;
	f->upto[f->next++ % REMEMBERED] = f->sent;
	return (uint64_t)n;
}

/* Reads the acknowledgements that are there, and tells the Congestion Manager. */
static inline void take_acks(struct feedback *f, int sock, cm_flowid flow)
{
	unsigned char ack[ACK];

	while (recv(sock, ack, sizeof ack, MSG_DONTWAIT) == ACK) {
		uint32_t number = (uint32_t)get(ack, 4);
		uint64_t nsent, nrecd, arrived = get(ack + 12, 8);
		if (number < f->answered || number >= f->next || f->next - number > REMEMBERED)
			continue; /* overtaken: a later one has told it all */
		nsent = f->upto[number % REMEMBERED] - f->told;
		nrecd = arrived - f->counted;
		if (nrecd > nsent)
			nrecd = nsent; /* late ones, given up before */
		if (cm_update(flow, nsent, nrecd, nrecd < nsent ? CM_TRANSIENT : CM_NO_LOSS,
			      now_ns() - (int64_t)get(ack + 4, 8)) < 0)
			die("cm_update");
		f->answered = number + 1;
		f->told += nsent;
		f->acked += nrecd;
		f->counted = arrived;
	}
}

/* Nothing came back for long: all that is under way counts as lost. */
static inline void give_up(struct feedback *f, cm_flowid flow)
{
	if (f->told < f->sent && cm_update(flow, f->sent - f->told, 0, CM_PERSISTENT, 0) < 0)
		die("cm_update");
	f->answered = f->next;
	f->told = f->sent;
}

#endif
