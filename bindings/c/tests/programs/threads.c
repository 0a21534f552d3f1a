/* Tests calls from many threads at once: each has its own flow, and all dispatch events of all. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 500 };

struct one {
	pthread_t thread;
	char addr[16];
	int granted;
};

static void answers(cm_flowid flow, void *data)
{
	struct one *one = (struct one *)data;
	CHECK(cm_notify(flow, 100) == 0);
	__sync_fetch_and_add(&one->granted, 1);
}

static void *runs(void *data)
{
	struct one *one = (struct one *)data;
	cm_flowid flow = open_to(one->addr);
	int round;

	CHECK(cm_register_send(flow, answers, one) == 0);
	for (round = 1; round <= ROUNDS; round++) {
		struct cm_path path;
		CHECK(cm_request(flow) == 0);
		while (__sync_fetch_and_add(&one->granted, 0) < round) {
			readable(10);
			CHECK(cm_dispatch() >= 0);
		}
		CHECK(cm_update(flow, 100, 100, CM_NO_LOSS, 0) == 0);
		CHECK(cm_query(flow, &path) == 0);
	}
	CHECK(cm_close(flow) == 0);
	FAILS(EBADF, cm_request(flow));
	return NULL;
}

int main(void)
{
	static struct one all[THREADS];
	int i;

	alarm(60); /* a deadlock */
	CHECK(cm_init("process") == 0);
	for (i = 0; i < THREADS; i++) {
		snprintf(all[i].addr, sizeof all[i].addr, "127.0.0.%d", i % 2 + 1);
		CHECK(pthread_create(&all[i].thread, NULL, runs, &all[i]) == 0);
	}
	for (i = 0; i < THREADS; i++) {
		CHECK(pthread_join(all[i].thread, NULL) == 0);
		CHECK(all[i].granted == ROUNDS);
	}
	return 0;
}
