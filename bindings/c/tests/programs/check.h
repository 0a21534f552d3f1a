/* Assertions for the test programs, and the flow that most of them start with. The result is the exit status. */
#ifndef CHECK_H
#define CHECK_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cm.h>

#define CHECK(what)                                                                                                     \
	do {                                                                                                            \
		if (!(what)) {                                                                                          \
			fprintf(stderr, "%s:%d: not so: %s (errno %d; %s)\n", __FILE__, __LINE__, #what, errno,         \
				cm_error());                                                                            \
			exit(1);                                                                                        \
		}                                                                                                       \
	} while (0)

/* The call fails with this error. */
#define FAILS(error, call)                                                                                              \
	do {                                                                                                            \
		errno = 0;                                                                                              \
		CHECK((call) == -1);                                                                                    \
		CHECK(errno == (error));                                                                                \
		CHECK(strlen(cm_error()) > 10);                                                                         \
	} while (0)

static inline struct sockaddr_in v4(const char *addr, unsigned short port)
{
	struct sockaddr_in to;
	memset(&to, 0, sizeof to);
	to.sin_family = AF_INET;
	to.sin_port = htons(port);
	CHECK(inet_pton(AF_INET, addr, &to.sin_addr) == 1);
	return to;
}

static inline cm_flowid open_to(const char *addr)
{
	struct sockaddr_in to = v4(addr, 7000);
	cm_flowid flow = cm_open(NULL, 0, (struct sockaddr *)&to, sizeof to);
	CHECK(flow > 0);
	return flow;
}

/* Whether the control descriptor becomes readable within so many milliseconds. */
static inline int readable(int milliseconds)
{
	struct pollfd control;
	control.fd = cm_fd();
	control.events = POLLIN;
	control.revents = 0;
	CHECK(control.fd >= 0);
	return poll(&control, 1, milliseconds) == 1;
}

/* Dispatches until so many callbacks have been called, or nothing has come for twenty seconds. */
static inline int dispatched(int callbacks)
{
	int sum = 0;
	while (sum < callbacks && readable(20000)) {
		int n = cm_dispatch();
		CHECK(n >= 0);
		sum += n;
	}
	return sum;
}

#endif
