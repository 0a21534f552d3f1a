/* Tests the library's own loop: it is stopped by a callback, a thread or a signal, and handles other descriptors. */
#include <fcntl.h>
#include <pthread.h>

#include "check.h"

static int ends[2], bytes, invalid;

static void stops(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	FAILS(EBUSY, cm_loop());
	++*(int *)data;
	cm_stop();
}

static void reads(int fd, short events, void *data)
{
	char c;
	CHECK(events & POLLIN);
	CHECK(data == &bytes && read(fd, &c, 1) == 1);
	if (++bytes == 3) {
		CHECK(cm_watch(fd, 0, NULL, NULL) == 0);
		cm_stop();
	}
}

static void is_closed(int fd, short events, void *data)
{
	(void)fd;
	(void)data;
	CHECK(events & POLLNVAL);
	invalid++;
}

static void at_alarm(int number)
{
	(void)number;
	cm_stop();
}

static void *from_elsewhere(void *data)
{
	int which = *(int *)data;
	usleep(30000);
	if (which == 0)
		cm_stop();
	else if (cm_watch(ends[0], POLLIN, reads, &bytes) != 0 || write(ends[1], "abc", 3) != 3)
		abort();
	return NULL;
}

int main(void)
{
	cm_flowid flow;
	pthread_t thread;
	int n = 0, which, shut;

	alarm(20); /* a loop that does not end */
	CHECK(cm_init("process") == 0);
	cm_stop();
	CHECK(cm_loop() == 0); /* ends at once */
	flow = open_to("127.0.0.1");
	CHECK(cm_register_send(flow, stops, &n) == 0 && cm_request(flow) == 0);
	CHECK(cm_loop() == 0 && n == 1);

	CHECK(pipe(ends) == 0);
	for (which = 0; which < 2; which++) {
		CHECK(pthread_create(&thread, NULL, from_elsewhere, &which) == 0);
		CHECK(cm_loop() == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	CHECK(bytes == 3);

	shut = dup(ends[0]);
	CHECK(cm_watch(shut, POLLIN, is_closed, NULL) == 0 && close(shut) == 0);
	signal(SIGALRM, at_alarm);
	alarm(1);
	CHECK(cm_loop() == 0);
	CHECK(invalid == 1); /* told once, and forgotten */
	return 0;
}
