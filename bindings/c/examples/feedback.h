/* The sender's half of the examples: a socket with a flow, numbered packets, and the receiver's acknowledgements. */
#ifndef FEEDBACK_H
#define FEEDBACK_H

#include "wire.h"

struct feedback {
	uint32_t packets; /* sent */
	uint64_t sent;    /* bytes */
	uint64_t acked;   /* bytes of them that arrived */
};

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

/* Sends one packet of `size` bytes; what left. What follows the header is the application's to choose, now. A packet that the
 * system does not take counts as one that the path loses. */
static inline uint64_t send_packet(struct feedback *f, int sock, cm_flowid flow, unsigned char *packet, size_t size)
{
	int64_t number = cm_sent(flow, size);

	if (number < 0)
		die("cm_sent");
	put(packet, (uint64_t)number, HEADER);
	if (send(sock, packet, size, MSG_DONTWAIT) < 0)
		perror("send");
	f->packets++;
	f->sent += size;
	return size;
}

/* Reads the acknowledgements that are there, and tells the Congestion Manager. */
static inline void take_acks(struct feedback *f, int sock, cm_flowid flow)
{
	unsigned char ack[CM_ACK_MAX];
	ssize_t n;

	while ((n = recv(sock, ack, sizeof ack, MSG_DONTWAIT)) >= 0) {
		int64_t arrived = cm_acked(flow, ack, (size_t)n);
		if (arrived > 0)
			f->acked += (uint64_t)arrived;
		else if (arrived < 0)
			fprintf(stderr, "left aside: %s\n", cm_error());
	}
}

#endif
