/* Tests SIGIO: sent when there are events to dispatch, and no more after cm_set_sigio(0). */
#include "check.h"

static volatile sig_atomic_t signals;

static void count(int number)
{
	(void)number;
	signals++;
}

static void answers(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	++*(int *)data;
}

int main(void)
{
	struct sigaction action;
	sigset_t only, before;
	cm_flowid flow;
	int n = 0, round;

	memset(&action, 0, sizeof action);
	action.sa_handler = count;
	CHECK(sigaction(SIGIO, &action, NULL) == 0);
	CHECK(cm_init("process") == 0);
	flow = open_to("127.0.0.1");
	CHECK(cm_register_send(flow, answers, &n) == 0);
	sigemptyset(&only);
	sigaddset(&only, SIGIO);
	CHECK(sigprocmask(SIG_BLOCK, &only, &before) == 0);
	CHECK(cm_set_sigio(1) == 0 && cm_set_sigio(1) == 0);
	for (round = 1; round <= 20; round++) {
		alarm(30); /* no signal: the program ends by this one */
		CHECK(cm_request(flow) == 0);
		while (n < round) {
			sigsuspend(&before);
			CHECK(cm_dispatch() >= 0);
		}
	}
	CHECK(signals >= 20);
	CHECK(cm_set_sigio(0) == 0 && cm_set_sigio(0) == 0);
	while (sigpending(&before) == 0 && sigismember(&before, SIGIO))
		sigwait(&only, &round);
	CHECK(cm_request(flow) == 0);
	CHECK(readable(2000));
	usleep(50000);
	CHECK(sigpending(&before) == 0 && !sigismember(&before, SIGIO));
	CHECK(cm_dispatch() == 1);
	return 0;
}
