/* Tests buffered sending: a flow with a socket sends its datagrams in order as they are granted; others are refused. */
#include <time.h>

#include "check.h"

enum { SIZE = 1000 };

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(void)
{
	char datagram[9000];
	struct sockaddr_in to = v4("127.0.0.1", 0);
	socklen_t len = sizeof to;
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
	int64_t start = now_ns(), last;
	uint32_t room = 3 * SIZE;
	cm_flowid flow;
	int i, arrived = 0;

	CHECK(cm_init("process") == 0);
	memset(datagram, 0, sizeof datagram);
	CHECK(bind(receiver, (struct sockaddr *)&to, sizeof to) == 0);
	CHECK(getsockname(receiver, (struct sockaddr *)&to, &len) == 0);
	flow = cm_open(NULL, 0, (struct sockaddr *)&to, sizeof to);
	CHECK(flow > 0);

	FAILS(ENOTCONN, cm_send(flow, datagram, SIZE));
	FAILS(ENOTCONN, cm_queued(flow));
	FAILS(ENOTCONN, cm_departure(flow));
	FAILS(ENOTCONN, cm_setopt(flow, CM_BUFSIZE, &room, sizeof room));
	FAILS(ENOTSOCK, cm_setopt(flow, CM_BUF, &sender, sizeof sender)); /* not connected */
	CHECK(connect(sender, (struct sockaddr *)&to, sizeof to) == 0);
	i = -1;
	FAILS(ENOTSOCK, cm_setopt(flow, CM_BUF, &i, sizeof i));
	i = 999;
	FAILS(ENOTSOCK, cm_setopt(flow, CM_BUF, &i, sizeof i));
	CHECK(cm_setopt(flow, CM_BUF, &sender, sizeof sender) == 0);
	FAILS(EBUSY, cm_setopt(flow, CM_BUF, &sender, sizeof sender));
	CHECK(cm_setopt(flow, CM_BUFSIZE, &room, sizeof room) == 0);
	CHECK(close(sender) == 0); /* libcm has a copy */
	FAILS(EFAULT, cm_send(flow, NULL, 10));
	FAILS(EMSGSIZE, cm_send(flow, datagram, sizeof datagram));
	FAILS(EBADF, cm_send(flow + 1, datagram, SIZE));
	FAILS(EAGAIN, cm_departure(flow));

	for (i = 0; i < 3; i++) {
		datagram[0] = (char)i;
		CHECK(cm_send(flow, datagram, SIZE) == SIZE);
	}
	FAILS(EAGAIN, cm_send(flow, datagram, SIZE));
	CHECK(cm_queued(flow) == 3);
	for (; arrived < 50; i++) {
		CHECK(readable(2000) && cm_dispatch() > 0);
		while (recv(receiver, datagram, sizeof datagram, MSG_DONTWAIT) == SIZE) {
			CHECK(datagram[0] == (char)arrived++);
			CHECK(cm_update(flow, SIZE, SIZE, CM_NO_LOSS, 0) == 0);
		}
		datagram[0] = (char)i;
		CHECK(cm_send(flow, datagram, SIZE) == SIZE);
	}
	for (last = start; arrived-- > 0;) {
		int64_t left = cm_departure(flow);
		CHECK(left >= last && left <= now_ns());
		last = left;
	}
	CHECK(cm_close(flow) == 0);
	FAILS(EBADF, cm_send(flow, datagram, SIZE));
	return 0;
}
