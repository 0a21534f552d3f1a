/* Receiver that prints the sub-stream, length and text of each datagram: utl_recv PORT */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <utl.h>

int main(int argc, char **argv)
{
	static char datagram[65536];
	uint8_t substream;
	char uri[64];
	ssize_t len;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: utl_recv PORT\n");
		return 2;
	}
	snprintf(uri, sizeof uri, "timeous://:%s", argv[1]);
	if ((fd = utl_open(uri)) < 0) {
		fprintf(stderr, "%s: %s\n", uri, utl_error());
		return 1;
	}
	while ((len = utl_recv_dgram_on(fd, datagram, sizeof datagram - 1, &substream)) > 0) {
		datagram[len] = '\0';
		printf("%u %ld %s\n", (unsigned)substream, (long)len, datagram);
	}
	if (len < 0) {
		fprintf(stderr, "utl_recv: %s\n", utl_error());
		return 1;
	}
	return utl_close(fd) < 0;
}
