/* Sends a video of COUNT frames, every tenth one independent, with a control message each: utl_send HOST PORT COUNT
 *
 * The frames have playout times and depend on each other; the control messages never expire (McQuistin, section 3.3). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utl.h>

enum { CLOCK = 90000, FPS = 100, GROUP = 10 };

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, utl_error());
	exit(1);
}

int main(int argc, char **argv)
{
	struct utl_counts counts;
	char uri[256], frame[1000];
	long n, count;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: utl_send HOST PORT COUNT\n");
		return 2;
	}
	count = strtol(argv[3], NULL, 10);
	snprintf(uri, sizeof uri, "timeous://%s:%s?latency=5s", argv[1], argv[2]);
	if ((fd = utl_open(uri)) < 0 || utl_set_clockrate(fd, CLOCK) < 0)
		die(uri);
	for (n = 0; n < count; n++) {
		const struct timespec frame_time = {0, 1000000000 / FPS};
		uint16_t seq = (uint16_t)n, dep = (uint16_t)(n % GROUP == 0 ? n : n - 1);
		uint32_t playout = (uint32_t)n * (CLOCK / FPS);
		char control[32];

		memset(frame, (int)(n & 0xff), sizeof frame);
		snprintf(frame, sizeof frame, "frame %ld", n);
		if (utl_send_dgram_timed_dep(fd, frame, sizeof frame, playout, seq, dep) < 0)
			die("frame");
		snprintf(control, sizeof control, "control %ld", n);
		if (utl_send_dgram_on(fd, control, strlen(control), 4) < 0)
			die("control");
		nanosleep(&frame_time, NULL);
	}
	if (utl_finish(fd) < 0)
		die("utl_finish");
	if (utl_query(fd, &counts) < 0 || utl_close(fd) < 0)
		die("utl_query");
	printf("acked %lu lost %lu dropped %lu\n", (unsigned long)counts.acked, (unsigned long)counts.lost,
	       (unsigned long)counts.dropped);
	return 0;
}
