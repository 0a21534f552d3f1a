/* Receiver for the other examples, for one sender after the other: receiver PORT */
#include "wire.h"

int main(int argc, char **argv)
{
	struct addrinfo hints, *at;
	struct sockaddr_storage from, sender;
	socklen_t fromlen, senderlen = 0;
	struct cm_receiver *receiver = cm_receiver_open(0, 0);
	struct pollfd ready;

	memset(&from, 0, sizeof from);
	memset(&sender, 0, sizeof sender);
	memset(&hints, 0, sizeof hints);
	memset(&ready, 0, sizeof ready);
	hints.ai_flags = AI_PASSIVE;
	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_DGRAM;
	if (argc != 2 || getaddrinfo(NULL, argv[1], &hints, &at) != 0) {
		fprintf(stderr, "usage: receiver PORT\n");
		return 2;
	}
	ready.fd = socket(at->ai_family, at->ai_socktype, 0);
	ready.events = POLLIN;
	if (receiver == NULL || ready.fd < 0 || bind(ready.fd, at->ai_addr, at->ai_addrlen) < 0) {
		perror(argv[1]);
		return 1;
	}
	freeaddrinfo(at);
	puts("listening");
	fflush(stdout);
	for (;;) {
		unsigned char packet[65536], ack[CM_ACK_MAX];
		ssize_t n;

		if (poll(&ready, 1, cm_receiver_timeout(receiver)) > 0) {
			fromlen = sizeof from;
			n = recvfrom(ready.fd, packet, sizeof packet, 0, (struct sockaddr *)&from, &fromlen);
			if (n < HEADER)
				continue;
			if (fromlen != senderlen || memcmp(&from, &sender, fromlen) != 0) {
				/* another sender, whose numbers begin anew */
				cm_receiver_close(receiver);
				receiver = cm_receiver_open(0, 0);
				sender = from;
				senderlen = fromlen;
			}
			if (cm_receiver_packet(receiver, get(packet, HEADER), 0) < 0)
				die("cm_receiver_packet");
		}
		n = cm_receiver_ack(receiver, ack, sizeof ack);
		if (n > 0)
			sendto(ready.fd, ack, (size_t)n, 0, (struct sockaddr *)&sender, senderlen);
	}
}
