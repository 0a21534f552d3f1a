/* Tests that callbacks may call any function: request, dispatch, close their own flow or others, register callbacks. */
#include "check.h"

static int by_default, updates, sent;
static cm_flowid last;

void cmapp_send(cm_flowid flow)
{
	CHECK(cm_notify(flow, 0) == 0);
	by_default++;
	last = flow;
}

void cmapp_update(cm_flowid flow, const struct cm_path *path)
{
	struct cm_path again;
	CHECK(cm_query(flow, &again) == 0);
	CHECK(path->rate_bps > 0 && path->srtt_ns > 0);
	updates++;
}

static void counts(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	++*(int *)data;
}

static void asks_again(cm_flowid flow, void *data)
{
	int *left = (int *)data;
	CHECK(cm_notify(flow, 0) == 0);
	if (--*left > 0)
		CHECK(cm_request(flow) == 0);
}

static void dispatches(cm_flowid flow, void *data)
{
	int *depth = (int *)data;
	CHECK(cm_notify(flow, 0) == 0);
	if (++*depth < 3) {
		CHECK(cm_request(flow) == 0);
		CHECK(dispatched(1) == 1);
	}
}

static void closes_both(cm_flowid flow, void *data)
{
	cm_flowid *both = (cm_flowid *)data;
	CHECK(flow == both[0] || flow == both[1]);
	CHECK(cm_close(both[0]) == 0 && cm_close(both[1]) == 0);
	sent++;
}

static void hands_over(cm_flowid flow, void *data)
{
	CHECK(cm_notify(flow, 0) == 0);
	CHECK(cm_register_send(flow, counts, data) == 0);
	CHECK(cm_request(flow) == 0);
}

static void grants(void)
{
	cm_flowid both[2], flow = open_to("127.0.0.1");
	int n = 0;

	CHECK(cm_request(flow) == 0 && dispatched(1) == 1);
	CHECK(by_default == 1 && last == flow);
	CHECK(cm_register_send(flow, counts, &n) == 0);
	CHECK(cm_request(flow) == 0 && cm_request(flow) == 0 && dispatched(2) == 2);
	CHECK(n == 2 && by_default == 1);
	CHECK(cm_register_send(flow, NULL, NULL) == 0);
	CHECK(cm_request(flow) == 0 && dispatched(1) == 1);
	CHECK(n == 2 && by_default == 2);

	n = 20;
	CHECK(cm_register_send(flow, asks_again, &n) == 0);
	CHECK(cm_request(flow) == 0 && dispatched(20) == 20 && n == 0);
	CHECK(cm_register_send(flow, dispatches, &n) == 0);
	CHECK(cm_request(flow) == 0 && dispatched(1) == 1 && n == 3);
	n = 0;
	CHECK(cm_register_send(flow, hands_over, &n) == 0);
	CHECK(cm_request(flow) == 0 && dispatched(2) == 2 && n == 1);
	CHECK(cm_close(flow) == 0);

	both[0] = open_to("127.0.0.1");
	both[1] = open_to("127.0.0.2");
	CHECK(cm_register_send(both[0], closes_both, both) == 0 && cm_register_send(both[1], closes_both, both) == 0);
	CHECK(cm_request(both[0]) == 0 && cm_request(both[1]) == 0);
	CHECK(dispatched(1) == 1 && sent == 1);
	CHECK(!readable(100) || cm_dispatch() == 0);
	CHECK(sent == 1);
}

/* Each entry of a bulk form stands for itself. */
static void bulk(void)
{
	struct cm_request_entry asks[3];
	struct cm_notify_entry told[3];
	struct cm_update_entry updates_of[3];
	struct cm_query_entry paths[3];
	cm_flowid a = open_to("127.0.0.1"), b = open_to("127.0.0.2");
	cm_flowid flows[3];
	int i, n = 0;

	flows[0] = a;
	flows[1] = 0;
	flows[2] = b;
	memset(updates_of, 0, sizeof updates_of);
	memset(paths, 0, sizeof paths);
	for (i = 0; i < 3; i++) {
		asks[i].flow = told[i].flow = updates_of[i].flow = paths[i].flow = flows[i];
		asks[i].count = (uint32_t)i + 1;
		asks[i].error = told[i].error = updates_of[i].error = paths[i].error = -7;
		told[i].nsent = 500;
		updates_of[i].nsent = updates_of[i].nrecd = 500;
		updates_of[i].lossmode = CM_NO_LOSS;
	}
	CHECK(cm_register_send(a, counts, &n) == 0 && cm_register_send(b, counts, &n) == 0);
	FAILS(EBADF, cm_bulk_request(asks, 3));
	CHECK(asks[0].error == 0 && asks[1].error == EBADF && asks[2].error == 0);
	CHECK(dispatched(4) == 4 && n == 4);
	FAILS(EPERM, cm_bulk_notify(told, 3));
	CHECK(told[0].error == EPERM && told[1].error == EBADF && told[2].error == EPERM);
	CHECK(cm_notify_unasked(a, 500) == 0);
	FAILS(EBADF, cm_bulk_update(updates_of, 3));
	CHECK(updates_of[0].error == 0 && updates_of[1].error == EBADF && updates_of[2].error == EBADMSG);
	FAILS(EBADF, cm_bulk_query(paths, 3));
	CHECK(paths[0].error == 0 && paths[1].error == EBADF && paths[2].error == 0);
	CHECK(paths[0].path.window > 0 && paths[1].path.window == 0 && paths[2].path.srtt_ns == -1);
	CHECK(cm_close(a) == 0 && cm_close(b) == 0);
}

static void rate(void)
{
	cm_flowid flow = open_to("127.0.0.3");

	CHECK(cm_thresh(flow, 0.9, 1.1) == 0);
	CHECK(cm_notify_unasked(flow, 1000) == 0);
	usleep(25000);
	CHECK(cm_update(flow, 1000, 1000, CM_NO_LOSS, 20000000) == 0);
	CHECK(dispatched(1) == 1 && updates == 1);
	CHECK(cm_close(flow) == 0);
}

int main(void)
{
	CHECK(cm_init("process") == 0);
	grants();
	bulk();
	rate();
	return 0;
}
