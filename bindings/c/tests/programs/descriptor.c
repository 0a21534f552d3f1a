/* Tests the descriptor for all flows with select, poll and epoll, and cm_dispatch() at any time. */
#include <sys/epoll.h>
#include <sys/select.h>

#include "check.h"

static void answers(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	++*(int *)data;
}

static int selects(void)
{
	struct timeval time = {2, 0};
	fd_set ready;
	FD_ZERO(&ready);
	FD_SET(cm_fd(), &ready);
	return select(cm_fd() + 1, &ready, NULL, NULL, &time) == 1 && FD_ISSET(cm_fd(), &ready);
}

static int epolls(int epoll)
{
	struct epoll_event ready;
	return epoll_wait(epoll, &ready, 1, 2000) == 1;
}

int main(void)
{
	int epoll = epoll_create1(0), n = 0, round, control;
	struct epoll_event event;
	cm_flowid a, b;

	CHECK(cm_init("process") == 0);
	control = cm_fd();
	CHECK(control >= 0 && cm_dispatch() == 0);
	memset(&event, 0, sizeof event);
	event.events = EPOLLIN;
	CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, control, &event) == 0);
	a = open_to("127.0.0.1");
	b = open_to("127.0.0.2");
	CHECK(cm_fd() == control);
	CHECK(cm_register_send(a, answers, &n) == 0 && cm_register_send(b, answers, &n) == 0);
	CHECK(!readable(50));
	for (round = 0; round < 3; round++) {
		CHECK(cm_request(a) == 0 && cm_request(b) == 0);
		CHECK(round == 0 ? selects() : round == 1 ? readable(2000) : epolls(epoll));
		CHECK(dispatched(2) == 2 && n == 2 * round + 2);
		CHECK(cm_dispatch() == 0 && !readable(50));
	}
	return 0;
}
