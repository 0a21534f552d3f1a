/* Rate callback (Andersen et al., section 3.4): rate HOST PORT TICKS
 *
 * A layered stream with its own clock sends as many layers as the path carries; a callback tells of changes. */
#include "feedback.h"

enum { LAYERS = 6, TICK_MS = 10, SIZE = 500 };

static unsigned layers = 1, changes;

/* Each layer is one packet a tick. libcm finds this function by its name. */
void cmapp_update(cm_flowid flow, const struct cm_path *path)
{
	const uint64_t layer_bps = (uint64_t)SIZE * 8 * 1000 / TICK_MS;
	uint64_t fit = path->rate_bps / layer_bps;

	(void)flow;
	layers = fit < 1 ? 1u : fit > LAYERS ? (unsigned)LAYERS : (unsigned)fit;
	changes++;
}

int main(int argc, char **argv)
{
	static struct feedback feedback;
	static unsigned char packet[SIZE];
	unsigned most = 1;
	int64_t tick;
	long ticks;
	cm_flowid flow;
	int sock;

	if (argc != 4) {
		fprintf(stderr, "usage: rate HOST PORT TICKS\n");
		return 2;
	}
	ticks = strtol(argv[3], NULL, 10);
	sock = connect_flow(argv[1], argv[2], &flow);
	if (cm_thresh(flow, 0.8, 1.25) < 0)
		die("cm_thresh");
	for (tick = now_ns(); ticks > 0; ticks--) {
		int64_t left;
		unsigned layer;

		for (layer = 0; layer < layers; layer++)
			if (cm_notify_unasked(flow, send_packet(&feedback, sock, flow, packet, SIZE)) < 0)
				die("cm_notify_unasked");
		if (layers > most)
			most = layers;
		tick += TICK_MS * 1000000;
		/* After a pause of the machine the clock goes on: what was not made then is not sent in a burst. */
		if (tick < now_ns())
			tick = now_ns();
		while ((left = tick - now_ns()) > 0) {
			struct pollfd ready[2];
			memset(ready, 0, sizeof ready);
			ready[0].fd = cm_fd();
			ready[1].fd = sock;
			ready[0].events = ready[1].events = POLLIN;
			poll(ready, 2, (int)((left + 999999) / 1000000));
			take_acks(&feedback, sock, flow);
			if (cm_dispatch() < 0)
				die("cm_dispatch");
		}
	}
	if (cm_close(flow) < 0)
		die("cm_close");
	printf("sent %lu acked %lu changes %u layers %u\n", (unsigned long)feedback.sent,
	       (unsigned long)feedback.acked, changes, most);
	return 0;
}
