/* The library's own loop (Andersen et al., section 3.1): loop HOST PORT PACKETS
 *
 * The program consists of callbacks: cmapp_send() when a packet may be sent, acknowledged() when the socket is readable. */
#include <signal.h>

#include "feedback.h"

enum { SIZE = 1000 };

/* Without an acknowledgement for so long, nobody answers, or the last packets were lost. Seconds. */
enum { NOBODY = 20, LAST = 2 };

static struct feedback feedback;
static cm_flowid flow;
static uint32_t packets;
static int sock;

/* A signal handler may end the loop. */
static void give_up(int number)
{
	(void)number;
	cm_stop();
}

static void finish_when_done(void)
{
	alarm(feedback.packets < packets ? NOBODY : LAST);
	if (feedback.packets >= packets && cm_unacked(flow) == 0)
		cm_stop();
}

void cmapp_send(cm_flowid granted)
{
	unsigned char packet[SIZE];

	memset(packet, 0, sizeof packet);
	if (cm_notify(granted, feedback.packets < packets ? send_packet(&feedback, sock, granted, packet, SIZE) : 0) < 0)
		die("cm_notify");
	if (feedback.packets < packets && cm_request(granted) < 0)
		die("cm_request");
}

static void acknowledged(int fd, short events, void *data)
{
	(void)events;
	(void)data;
	take_acks(&feedback, fd, flow);
	finish_when_done();
}

int main(int argc, char **argv)
{
	struct cm_request_entry first;

	if (argc != 4) {
		fprintf(stderr, "usage: loop HOST PORT PACKETS\n");
		return 2;
	}
	packets = (uint32_t)strtoul(argv[3], NULL, 10);
	sock = connect_flow(argv[1], argv[2], &flow);
	first.flow = flow;
	first.count = 2;
	signal(SIGALRM, give_up);
	alarm(NOBODY);
	if (cm_watch(sock, POLLIN, acknowledged, NULL) < 0 || cm_bulk_request(&first, 1) < 0 || cm_loop() < 0)
		die("libcm");
	if (feedback.packets < packets) {
		fprintf(stderr, "nobody answers\n");
		return 1;
	}
	if (cm_close(flow) < 0)
		die("cm_close");
	printf("sent %lu acked %lu\n", (unsigned long)feedback.sent, (unsigned long)feedback.acked);
	return 0;
}
