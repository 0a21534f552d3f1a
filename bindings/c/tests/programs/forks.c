/* Tests fork(): the child, which lacks the library's threads, gets errors; the parent is not affected. */
#include <sys/wait.h>

#include "check.h"

int main(void)
{
	cm_flowid flow;
	int status;
	pid_t child;

	CHECK(cm_init("process") == 0);
	flow = open_to("127.0.0.1");
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		FAILS(ECHILD, cm_request(flow));
		FAILS(ECHILD, cm_dispatch());
		FAILS(ECHILD, cm_fd());
		FAILS(ECHILD, cm_loop());
		FAILS(ECHILD, cm_init("process"));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(cm_request(flow) == 0 && readable(2000));
	return 0;
}
