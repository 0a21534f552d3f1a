/* Tests utl with both ends in one process: datagrams arrive unchanged, invalid calls are errors. datagrams PORT */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"
#include <utl.h>

static char near_uri[64], far_uri[64];

static void *listens(void *fd)
{
	*(int *)fd = utl_open(far_uri);
	return NULL;
}

static void of_no_stream(int fd)
{
	char c = 0;
	uint8_t on;
	struct utl_counts counts;

	FAILS(EBADF, utl_finish(fd));
	FAILS(EBADF, utl_close(fd));
	FAILS(EBADF, utl_send_dgram(fd, &c, 1));
	FAILS(EBADF, utl_send_dgram_on(fd, &c, 1, 4));
	FAILS(EBADF, utl_send_dgram_timed(fd, &c, 1, 0));
	FAILS(EBADF, utl_send_dgram_seq(fd, &c, 1, 0));
	FAILS(EBADF, utl_send_dgram_dep(fd, &c, 1, 0, 0));
	FAILS(EBADF, utl_send_dgram_timed_dep(fd, &c, 1, 0, 0, 0));
	FAILS(EBADF, utl_recv_dgram(fd, &c, 1));
	FAILS(EBADF, utl_recv_dgram_on(fd, &c, 1, &on));
	FAILS(EBADF, utl_set_clockrate(fd, 1));
	FAILS(EBADF, utl_set_timeout(fd, 1));
	FAILS(EBADF, utl_get_pmtu(fd));
	FAILS(EBADF, utl_query(fd, &counts));
}

static void arguments(int fd)
{
	static char longest[65536];
	char c = 0;

	FAILS(EFAULT, utl_send_dgram(fd, NULL, 1));
	FAILS(EFAULT, utl_recv_dgram(fd, NULL, 1));
	FAILS(EFAULT, utl_recv_dgram_on(fd, &c, 1, NULL));
	FAILS(EFAULT, utl_query(fd, NULL));
	FAILS(EINVAL, utl_send_dgram(fd, &c, 0));
	FAILS(EMSGSIZE, utl_send_dgram(fd, longest, (size_t)utl_get_pmtu(fd) + 1));
	FAILS(EMSGSIZE, utl_send_dgram(fd, longest, (size_t)-1));
	FAILS(EINVAL, utl_set_clockrate(fd, 0));
	CHECK(utl_set_timeout(fd, 0) == 0);
	FAILS(EAGAIN, utl_recv_dgram(fd, &c, 1));
	CHECK(utl_set_timeout(fd, 20) == 0);
	FAILS(EAGAIN, utl_recv_dgram(fd, &c, 1));
	CHECK(utl_set_timeout(fd, -1) == 0);
}

static void is_next(int fd, const char *words, int on)
{
	char buf[64];
	uint8_t substream = 0;
	ssize_t len = utl_recv_dgram_on(fd, buf, sizeof buf, &substream);

	CHECK(len == (ssize_t)strlen(words) && memcmp(buf, words, (size_t)len) == 0);
	CHECK(substream == on);
}

/* Sub-streams of all numbers arrive with them. */
static void substreams(int near, int far)
{
	int on;

	for (on = 0; on <= 255; on++) {
		CHECK(utl_send_dgram_on(near, "on", 2, (uint8_t)on) == 2);
		is_next(far, "on", on);
	}
}

/* Streams over sockets that are connected already; `near` and `far` are the two ends. */
static void adopted(int *near, int *far)
{
	struct sockaddr_in address;
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);
	int caller = socket(AF_INET, SOCK_STREAM, 0), called;
	char line[8];

	memset(&address, 0, sizeof address);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
	FAILS(ENOTSOCK, utl_adopt(-1, NULL));
	FAILS(ENOTSOCK, utl_adopt(caller, NULL));
	CHECK(connect(datagram, (struct sockaddr *)&address, len) == 0);
	FAILS(EPROTONOSUPPORT, utl_adopt(datagram, NULL));
	CHECK(connect(caller, (struct sockaddr *)&address, len) == 0);
	CHECK((called = accept(listener, NULL, NULL)) >= 0);
	/* A proxy's line, which is none of the stream. */
	CHECK(write(caller, "PROXY\r\n", 7) == 7 && read(called, line, 7) == 7);
	FAILS(EINVAL, utl_adopt(caller, "colour=blue"));
	FAILS(EINVAL, utl_adopt(caller, "passphrase=ten+letters+or+more"));
	CHECK((*near = utl_adopt(caller, "latency=20s")) >= 0);
	CHECK((*far = utl_adopt(called, NULL)) >= 0);
	close(listener);
	close(datagram);
}

/* The other thread may not have begun to listen. */
static int calls(void)
{
	int fd;

	while ((fd = utl_open(near_uri)) < 0 && errno == ECONNREFUSED)
		usleep(5000);
	return fd;
}

static void *receives(void *fd)
{
	char c;
	/* EBADF: the thread has begun after the close. */
	CHECK(utl_recv_dgram(*(int *)fd, &c, 1) == 0 || errno == EBADF);
	return NULL;
}

int main(int argc, char **argv)
{
	struct utl_counts counts;
	struct pollfd ready;
	pthread_t thread;
	char small[2];
	int near, far, status;
	pid_t child;

	CHECK(argc == 2);
	alarm(30);
	FAILS(EFAULT, utl_open(NULL));
	FAILS(EINVAL, utl_open("http://127.0.0.1:1"));
	FAILS(EINVAL, utl_open("timeous://127.0.0.1:1?colour=blue"));
	FAILS(ECONNREFUSED, utl_open("timeous://127.0.0.1:1?timeout=20s"));
	of_no_stream(0);
	of_no_stream(-1);
	snprintf(near_uri, sizeof near_uri, "timeous://127.0.0.1:%s?latency=20s", argv[1]);
	snprintf(far_uri, sizeof far_uri, "timeous://127.0.0.1:%s?mode=listener", argv[1]);
	CHECK(pthread_create(&thread, NULL, listens, &far) == 0);
	CHECK((near = calls()) >= 0);
	CHECK(pthread_join(thread, NULL) == 0 && far >= 0);
	CHECK(utl_get_pmtu(near) >= 1400 && utl_get_pmtu(near) < 1500);
	arguments(near);

	CHECK(utl_send_dgram(near, "plain", 5) == 5);
	is_next(far, "plain", 3);
	CHECK(utl_send_dgram_on(near, "own", 3, 100) == 3);
	CHECK(utl_set_clockrate(near, 8000) == 0);
	CHECK(utl_send_dgram_timed(near, "timed", 5, UINT32_MAX) == 5);
	CHECK(utl_send_dgram_timed(near, "later", 5, 79) == 5);
	CHECK(utl_send_dgram_seq(near, "numbered", 8, 65535) == 8);
	CHECK(utl_send_dgram_dep(near, "dependent", 9, 0, 65535) == 9);
	CHECK(utl_send_dgram_timed_dep(near, "both", 4, 159, 1, 0) == 4);
	is_next(far, "own", 100);
	is_next(far, "timed", 2);
	is_next(far, "later", 2);
	is_next(far, "numbered", 3);
	is_next(far, "dependent", 3);
	is_next(far, "both", 2);

	/* One that can never be in time is not sent, nor what depends on it, however long that could wait. */
	CHECK(utl_send_dgram_timed_dep(near, "late", 4, 80 - 8000 * 3600, 7, 7) == 4);
	CHECK(utl_send_dgram_dep(near, "useless", 7, 8, 7) == 7);
	CHECK(utl_send_dgram_dep(near, "useful", 6, 9, 9) == 6);
	is_next(far, "useful", 3);

	/* The other direction, and a buffer that is too small. */
	ready.fd = near;
	ready.events = POLLIN;
	CHECK(poll(&ready, 1, 0) == 0);
	CHECK(utl_send_dgram(far, "answer", 6) == 6);
	CHECK(poll(&ready, 1, 2000) == 1);
	FAILS(EMSGSIZE, utl_recv_dgram(near, small, sizeof small));
	is_next(near, "answer", 3);

	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		FAILS(ECHILD, utl_send_dgram(near, "x", 1));
		CHECK(strstr(utl_error(), "fork()") != NULL);
		FAILS(ECHILD, utl_adopt(0, NULL));
		FAILS(ECHILD, utl_open(near_uri));
		FAILS(ECHILD, utl_close(near));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

	CHECK(utl_finish(near) == 0);
	FAILS(EPIPE, utl_finish(near));
	FAILS(EPIPE, utl_send_dgram(near, "x", 1));
	CHECK(utl_query(near, &counts) == 0);
	CHECK(counts.acked == 8 && counts.dropped == 2 && counts.lost == 0 && counts.pending == 0);
	CHECK(utl_recv_dgram(far, small, sizeof small) == 0);
	CHECK(utl_recv_dgram(near, small, sizeof small) == 0);
	CHECK(utl_close(near) == 0 && utl_close(far) == 0);
	of_no_stream(near);

	/* Who waits is told when another thread closes. */
	CHECK(pthread_create(&thread, NULL, listens, &far) == 0);
	CHECK((near = calls()) >= 0);
	CHECK(pthread_join(thread, NULL) == 0 && far >= 0);
	CHECK(pthread_create(&thread, NULL, receives, &far) == 0);
	usleep(30000);
	CHECK(utl_close(far) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(utl_close(near) == 0);

	adopted(&near, &far);
	substreams(near, far);
	CHECK(utl_send_dgram_timed(near, "timed", 5, 0) == 5);
	is_next(far, "timed", 2);
	CHECK(utl_send_dgram(far, "answer", 6) == 6);
	is_next(near, "answer", 3);
	CHECK(utl_finish(near) == 0 && utl_recv_dgram(far, small, sizeof small) == 0);
	/* All had arrived when the other end finished. */
	CHECK(utl_finish(far) == 0);
	CHECK(utl_close(near) == 0 && utl_close(far) == 0);
	return 0;
}
