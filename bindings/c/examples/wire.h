/* Wire format of the examples: numbered packets one way, acknowledgements the other. */
#ifndef WIRE_H
#define WIRE_H

#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A packet starts with its number and the time it was sent; an acknowledgement repeats both and adds all bytes received. */
enum { HEADER = 12, ACK = 20 };

static inline int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void put(unsigned char *at, uint64_t value, int bytes)
{
	while (bytes-- > 0) {
		at[bytes] = (unsigned char)value;
		value >>= 8;
	}
}

static inline uint64_t get(const unsigned char *at, int bytes)
{
	uint64_t value = 0;
	while (bytes-- > 0)
		value = value << 8 | *at++;
	return value;
}

#endif
