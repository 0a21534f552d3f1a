/* Tests a restart of the daemon: restart SOCKET prints "open", "lost", "back" and "again". */
#include "check.h"

enum { SIZE = 500 };

static int granted, lost, again;

static void answers(cm_flowid flow, void *data)
{
	(void)data;
	CHECK(cm_notify(flow, SIZE) == 0);
	granted++;
}

static void went_wrong(cm_flowid flow, int error, void *data)
{
	(void)flow;
	CHECK(data == &lost);
	CHECK(error == 0 || error == ECONNRESET);
	if (error == 0)
		again++;
	else
		lost++;
}

static void until(const int *count, const char *word)
{
	int seconds;
	for (seconds = 0; !*count && seconds < 20; seconds++)
		if (readable(1000))
			CHECK(cm_dispatch() >= 0);
	CHECK(*count == 1);
	puts(word);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char place[200];
	struct cm_path path;
	cm_flowid flow, closed;

	CHECK(argc == 2);
	snprintf(place, sizeof place, "daemon:%s", argv[1]);
	CHECK(cm_init(place) == 0);
	flow = open_to("127.0.0.1");
	closed = open_to("127.0.0.1");
	CHECK(cm_register_send(flow, answers, NULL) == 0);
	CHECK(cm_register_error(flow, went_wrong, &lost) == 0);
	CHECK(cm_request(flow) == 0);
	until(&granted, "open");

	until(&lost, "lost");
	FAILS(ECONNRESET, cm_request(flow));
	FAILS(ECONNRESET, cm_notify(flow, SIZE));
	FAILS(ECONNRESET, cm_update(flow, SIZE, SIZE, CM_NO_LOSS, 0));
	FAILS(ECONNRESET, cm_query(flow, &path));
	CHECK(cm_close(closed) == 0);
	FAILS(EBADF, cm_request(closed));

	until(&again, "back");
	granted = 0;
	CHECK(cm_mtu(flow) == 8972);
	CHECK(cm_query(flow, &path) == 0 && path.outstanding == 0);
	CHECK(cm_request(flow) == 0);
	until(&granted, "again");
	CHECK(cm_update(flow, SIZE, SIZE, CM_NO_LOSS, 0) == 0);
	CHECK(cm_close(flow) == 0 && lost == 1 && again == 1);
	return 0;
}
