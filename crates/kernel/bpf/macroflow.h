/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Macroflow: the congestion window that the flows to one destination share, and its growth and reduction. All functions run
 * under the macroflow's lock and are independent of TCP. */
#ifndef TIMEOUS_MACROFLOW_H
#define TIMEOUS_MACROFLOW_H

#define NANOS_IN_MICRO 1000ull
#define NANOS_IN_MILLI 1000000ull
#define NANOS_IN_SECOND 1000000000ull
#define UNLIMITED (~0ull)

/* Half-life of an idle path's window, in nanoseconds: path state ages (RFC 9040), but restarts are paced, so that a shorter
 * half-life (RFC 7661) is not needed. */
#define IDLE_HALVES (60 * NANOS_IN_SECOND)
/* Lifetime of the daemon's last report of its flows, in nanoseconds. */
#define COMPANIONS_LAST NANOS_IN_SECOND
/* Minimum time without acknowledgements, of any connection, after which a timeout concerns the whole path. */
#define SILENCE (100 * NANOS_IN_MILLI)
/* Slow start exit: RTT samples in a row (usually of one round trip) above the minimum RTT by a quarter, within the bounds
 * below. Samples are counted, not round trips, as in the manager's AIMD (see aimd.rs). */
#define QUEUEING_SAMPLES 3
#define MIN_QUEUEING_US 8000
#define MAX_QUEUEING_US 50000
#define INITIAL_PACKETS 10

/* Key of a macroflow. Addresses are in network byte order; IPv4 is mapped into IPv6. */
struct destination {
	__u64 netns; /* network namespace (SO_NETNS_COOKIE) */
	__u8 addr[16];
	__u32 dscp;
	__u32 unused;
};

/* A flow's part of its macroflow's window. */
struct stake {
	__u64 committed; /* bytes in flight, or that may be sent before the next update */
	__u64 hungry; /* number of flows that are limited by the window: 0 or 1 for a connection */
};

/* All flows of the daemon to the same destination. */
struct companions {
	__u64 told_at;
	__u64 acked; /* bytes, in total */
	__u64 congestions; /* in total */
	__u64 flows;
	struct stake stake;
};

struct macroflow {
	struct bpf_spin_lock lock;
	__u32 mss;
	__u64 born;
	__u64 window; /* congestion window of all flows, in bytes */
	__u64 threshold; /* slow start threshold, in bytes */
	__u64 counted; /* bytes acknowledged since the window last grew in congestion avoidance */
	__u64 committed; /* sum over all flows */
	__u64 modest; /* sum over the flows that are not hungry */
	__u64 hungry; /* number of hungry flows, including the daemon's */
	__u64 flows; /* open connections */
	__u64 next_id;
	__u64 turn; /* rotates the packets left over by the division among flows */
	__u64 reduced_at; /* last reduction: losses of earlier packets do not reduce the window again */
	__u64 heard_at; /* last acknowledgement */
	__u64 busy_at; /* last time at which data was in flight */
	__u64 reducer; /* flow that caused the last reduction, while it can be undone */
	__u64 window_before;
	__u64 threshold_before;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 min_rtt_us;
	__u32 queueing;
	__u64 acked; /* bytes, in total */
	__u64 lost; /* packets, in total */
	__u64 losses; /* window reductions, in total */
	__u64 timeouts; /* of the whole path, in total */
	__u64 opened; /* connections, in total */
	struct companions companions;
};

#define inline_ static __attribute__((always_inline)) inline

inline_ __u64 least(__u64 a, __u64 b) { return a < b ? a : b; }
inline_ __u64 most(__u64 a, __u64 b) { return a > b ? a : b; }

inline_ void macroflow_begin(struct macroflow *m, __u64 now, __u32 mss, __u32 packets)
{
	m->mss = mss;
	m->born = now;
	m->busy_at = now;
	m->window = (__u64)packets * mss;
	m->threshold = UNLIMITED;
}

inline_ bool in_slow_start(const struct macroflow *m) { return m->window < m->threshold; }

inline_ void macroflow_stake(struct macroflow *m, struct stake *held, __u64 committed, __u64 hungry)
{
	m->committed += committed - held->committed;
	m->hungry += hungry - held->hungry;
	m->modest += (hungry ? 0 : committed) - (held->hungry ? 0 : held->committed);
	held->committed = committed;
	held->hungry = hungry;
}

/* Bytes that the flow of `held` may commit beside the other flows' commitments. */
inline_ __u64 macroflow_room(const struct macroflow *m, const struct stake *held)
{
	__u64 others = m->committed - held->committed;

	return m->window > others ? m->window - others : 0;
}

/* Bytes that hungry flows share: the window less the other flows' commitments. */
inline_ __u64 macroflow_left(const struct macroflow *m, const struct stake *held)
{
	__u64 modest = m->modest - (held->hungry ? 0 : held->committed);

	return m->window > modest ? m->window - modest : 0;
}

/* A flow's window in bytes: an even share, at most what other flows have not committed. */
inline_ __u64 macroflow_share(const struct macroflow *m, const struct stake *held, __u64 id, __u32 mss)
{
	__u64 sharers = m->hungry - held->hungry + 1;
	__u64 packets, share;

	if (!sharers || !mss)
		return 0;
	if (sharers == 1)
		return least(macroflow_left(m, held), macroflow_room(m, held));
	packets = macroflow_left(m, held) / mss;
	share = packets / sharers;
	/* Packets left over by the division are given to flows in turn. */
	if ((id + m->turn) % sharers < packets % sharers)
		share++;
	return least(share * mss, macroflow_room(m, held));
}

inline_ void macroflow_forget_silent_companions(struct macroflow *m, __u64 now)
{
	struct companions *c = &m->companions;

	if (!c->told_at || now - c->told_at < COMPANIONS_LAST)
		return;
	macroflow_stake(m, &c->stake, 0, 0);
	c->flows = 0;
	c->told_at = 0;
}

/* Handles the start of sending: after a long idle time the window is reduced, since path state ages (RFC 9040 §2). */
inline_ void macroflow_wake(struct macroflow *m, __u64 now)
{
	__u64 idle = now > m->busy_at ? now - m->busy_at : 0;
	__u64 halvings = idle / IDLE_HALVES;
	__u64 initial = (__u64)INITIAL_PACKETS * m->mss;

	macroflow_forget_silent_companions(m, now);
	if (m->committed == 0 && halvings > 0 && m->window > initial) {
		if (m->threshold != UNLIMITED)
			m->threshold = most(m->threshold, m->window / 4 * 3);
		m->window = most(halvings < 32 ? m->window >> halvings : 0, initial);
		m->min_rtt_us = 0;
	}
	m->busy_at = now;
}

/* Takes an RTT sample: smoothing as in RFC 6298 §2, and slow start exit when packets begin to queue. */
inline_ void macroflow_round_trip(struct macroflow *m, __u32 rtt_us)
{
	__u32 off, queued, limit;

	if (!m->srtt_us) {
		m->srtt_us = rtt_us;
		m->rttvar_us = rtt_us / 2;
	} else {
		off = rtt_us > m->srtt_us ? rtt_us - m->srtt_us : m->srtt_us - rtt_us;
		m->rttvar_us = m->rttvar_us - m->rttvar_us / 4 + off / 4;
		m->srtt_us = m->srtt_us - m->srtt_us / 8 + rtt_us / 8;
	}
	if (!m->srtt_us)
		m->srtt_us = 1;
	if (!m->min_rtt_us || rtt_us < m->min_rtt_us)
		m->min_rtt_us = rtt_us;
	queued = rtt_us - m->min_rtt_us;
	limit = (__u32)least(most(m->min_rtt_us / 4, MIN_QUEUEING_US), MAX_QUEUEING_US);
	m->queueing = queued >= limit ? m->queueing + 1 : 0;
	if (m->queueing >= QUEUEING_SAMPLES && in_slow_start(m))
		m->threshold = m->window;
}

/* Handles acknowledged bytes. An application-limited flow does not grow the window (RFC 7661): `grows` is false. */
inline_ void macroflow_acked(struct macroflow *m, __u64 now, __u64 bytes, bool grows)
{
	m->acked += bytes;
	m->heard_at = now;
	m->busy_at = now;
	if (!grows)
		return;
	if (in_slow_start(m)) {
		m->window = least(m->window + bytes, m->threshold);
		return;
	}
	/* No growth during the round trip of recovery, as in a single TCP connection. */
	if (now - m->reduced_at < m->srtt_us * NANOS_IN_MICRO)
		return;
	m->counted += bytes;
	if (m->counted >= m->window) {
		m->counted = least(m->counted - m->window, m->window);
		m->window += m->mss;
		m->turn++;
	}
}

/* Handles a loss or an ECN mark of a packet sent at `sent_at`: packets sent before the last reduction do not reduce again. */
inline_ bool macroflow_congested(struct macroflow *m, __u64 now, __u64 sent_at, __u64 who)
{
	__u64 half = least(m->window, m->committed) / 2;

	if (sent_at < m->reduced_at)
		return false;
	m->window_before = m->window;
	m->threshold_before = m->threshold;
	m->reducer = who;
	m->threshold = most(half, 2ull * m->mss);
	m->window = m->threshold;
	m->counted = 0;
	m->queueing = 0;
	m->reduced_at = now;
	m->losses++;
	return true;
}

/* Undoes the last reduction of flow `who`, whose loss was spurious. */
inline_ void macroflow_undo(struct macroflow *m, __u64 who)
{
	if (m->reducer != who)
		return;
	m->window = most(m->window, m->window_before);
	m->threshold = most(m->threshold, m->threshold_before);
	m->reducer = 0;
}

/* Handles a connection's timeout. It concerns that connection alone if other connections receive acknowledgements. */
inline_ void macroflow_timed_out(struct macroflow *m, __u64 now)
{
	if (now - m->heard_at < most(SILENCE, 2 * m->srtt_us * NANOS_IN_MICRO))
		return;
	m->window = m->mss;
	m->timeouts++;
}

/* The daemon's report of its flows to a destination, and the kernel's answer. */
struct told {
	struct destination to; /* namespace 0: the caller's namespace */
	__u64 flows;
	__u64 hungry;
	__u64 outstanding;
	__u64 acked;
	__u64 congestions;
	__u64 window; /* answer: window of these flows in bytes; 0 if the kernel has no connections to the destination */
};

/* Takes the daemon's report: acknowledgements and congestion of its flows count like those of connections. */
inline_ void macroflow_told(struct macroflow *m, __u64 now, struct told *told)
{
	struct companions *c = &m->companions;
	__u64 sharing = most(told->hungry, 1), sharers = m->hungry - c->stake.hungry + sharing, window;

	if (c->told_at) {
		if (told->congestions > c->congestions)
			macroflow_congested(m, now, now - m->srtt_us * NANOS_IN_MICRO, 0);
		if (told->acked > c->acked)
			macroflow_acked(m, now, told->acked - c->acked, told->hungry > 0);
	}
	c->told_at = now;
	c->acked = told->acked;
	c->congestions = told->congestions;
	c->flows = told->flows;
	if (!sharers)
		return;
	window = most(least(macroflow_left(m, &c->stake) * sharing / sharers, macroflow_room(m, &c->stake)), m->mss);
	macroflow_stake(m, &c->stake, told->hungry ? most(window, told->outstanding) : told->outstanding, told->hungry);
	told->window = window;
}

#endif
