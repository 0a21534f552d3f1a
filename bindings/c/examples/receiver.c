/* Receiver for the other examples, which acknowledges each packet at once: receiver PORT */
#include "wire.h"

int main(int argc, char **argv)
{
	struct addrinfo hints, *at;
	uint64_t arrived = 0;
	int sock;

	memset(&hints, 0, sizeof hints);
	hints.ai_flags = AI_PASSIVE;
	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_DGRAM;
	if (argc != 2 || getaddrinfo(NULL, argv[1], &hints, &at) != 0) {
		fprintf(stderr, "usage: receiver PORT\n");
		return 2;
	}
	sock = socket(at->ai_family, at->ai_socktype, 0);
	if (sock < 0 || bind(sock, at->ai_addr, at->ai_addrlen) < 0) {
		perror(argv[1]);
		return 1;
	}
	freeaddrinfo(at);
	puts("listening");
	fflush(stdout);
	for (;;) {
		unsigned char packet[65536];
		struct sockaddr_storage from;
		socklen_t fromlen = sizeof from;
		ssize_t n = recvfrom(sock, packet, sizeof packet, 0, (struct sockaddr *)&from, &fromlen);
		if (n < HEADER)
			continue;
		arrived += (uint64_t)n;
		put(packet + HEADER, arrived, 8);
		sendto(sock, packet, ACK, 0, (struct sockaddr *)&from, fromlen);
	}
}
