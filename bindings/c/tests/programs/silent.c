/* Tests a grant without a callback, as this program defines no cmapp_send(): other flows still get theirs. */
#include "check.h"

enum { ASKED = 200 };

static void answers(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	++*(int *)data;
}

int main(void)
{
	cm_flowid deaf, hears;
	int n = 0, i;

	CHECK(cm_init("process") == 0);
	deaf = open_to("127.0.0.1");
	hears = open_to("127.0.0.1");
	CHECK(cm_register_send(hears, answers, &n) == 0);
	for (i = 0; i < ASKED; i++)
		CHECK(cm_request(deaf) == 0);
	CHECK(cm_request(hears) == 0);
	CHECK(dispatched(1) == 1 && n == 1);
	return 0;
}
