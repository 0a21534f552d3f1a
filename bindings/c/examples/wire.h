/* Wire format of the examples: a packet starts with its number; what comes back are libcm's acknowledgements. */
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

#include <cm.h>

enum { HEADER = 8 };

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, cm_error());
	exit(1);
}

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
