/* Request/callback (Andersen et al., section 3.5), with a select loop of its own: alf HOST PORT PACKETS
 *
 * The contents of a packet are chosen when it may be sent: here the newest of readings that change all the time. */
#include <sys/select.h>

#include "feedback.h"

struct sender {
	int sock;
	uint32_t packets;
	struct feedback feedback;
};

static void may_send(cm_flowid flow, void *data)
{
	struct sender *s = (struct sender *)data;
	unsigned char packet[1200];
	size_t size = (size_t)cm_mtu(flow);

	if (size > sizeof packet)
		size = sizeof packet;
	memset(packet, 0, sizeof packet);
	put(packet + HEADER, (uint64_t)now_ns(), 8); /* the reading */
	if (cm_notify(flow, send_packet(&s->feedback, s->sock, flow, packet, size)) < 0)
		die("cm_notify");
	if (s->feedback.packets < s->packets && cm_request(flow) < 0)
		die("cm_request");
}

int main(int argc, char **argv)
{
	static struct sender s;
	struct cm_path path;
	cm_flowid flow;

	if (argc != 4) {
		fprintf(stderr, "usage: alf HOST PORT PACKETS\n");
		return 2;
	}
	s.packets = (uint32_t)strtoul(argv[3], NULL, 10);
	s.sock = connect_flow(argv[1], argv[2], &flow);
	if (cm_register_send(flow, may_send, &s) < 0 || cm_request(flow) < 0)
		die("libcm");
	while (s.feedback.packets < s.packets || cm_unacked(flow) > 0) {
		struct timeval limit;
		fd_set ready;
		int control = cm_fd(), most = control > s.sock ? control : s.sock, millis = cm_timeout();

		limit.tv_sec = millis / 1000;
		limit.tv_usec = millis % 1000 * 1000;

		FD_ZERO(&ready);
		FD_SET(control, &ready);
		FD_SET(s.sock, &ready);
		if (select(most + 1, &ready, NULL, NULL, millis < 0 ? NULL : &limit) > 0 && FD_ISSET(s.sock, &ready))
			take_acks(&s.feedback, s.sock, flow);
		if (cm_dispatch() < 0)
			die("cm_dispatch");
	}
	if (cm_query(flow, &path) < 0 || cm_close(flow) < 0)
		die("libcm");
	printf("sent %lu acked %lu srtt_us %ld rate_kbps %lu\n", (unsigned long)s.feedback.sent,
	       (unsigned long)s.feedback.acked, (long)(path.srtt_ns / 1000), (unsigned long)(path.rate_bps / 1000));
	return 0;
}
