/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A macroflow: the window that the flows to one destination share, and how it grows and shrinks. All of it runs under
 * the macroflow's lock, and none of it knows what a TCP connection is. */
#ifndef TIMEOUS_MACROFLOW_H
#define TIMEOUS_MACROFLOW_H

#define NANOS_IN_MICRO 1000ull
#define NANOS_IN_MILLI 1000000ull
#define NANOS_IN_SECOND 1000000000ull
#define UNLIMITED (~0ull)

/* An idle path's window halves in each of these: what was known of it gets old (RFC 9040), but starts are paced, so that
 * it need not be forgotten within a second (RFC 7661). */
#define IDLE_HALVES (60 * NANOS_IN_SECOND)
/* The daemon's flows count for so long after they were last told of. */
#define COMPANIONS_LAST NANOS_IN_SECOND
/* A timeout concerns the path, not one connection, if nobody heard anything for this long. */
#define SILENCE (100 * NANOS_IN_MILLI)
/* Slow start ends after so many samples in a row, as a rule of one round, that are longer than the least by a quarter,
 * within these bounds: single samples, as the manager's AIMD counts them (aimd.rs says why), not rounds. */
#define QUEUEING_SAMPLES 3
#define MIN_QUEUEING_US 8000
#define MAX_QUEUEING_US 50000
#define INITIAL_PACKETS 10

/* Whose packets take one path. The words of addresses are as on the wire; IPv4 is mapped into IPv6. */
struct destination {
	__u64 netns; /* the network namespace, as SO_NETNS_COOKIE tells it */
	__u8 addr[16];
	__u32 dscp;
	__u32 unused;
};

/* What a flow holds of its macroflow. */
struct stake {
	__u64 committed; /* bytes that it has under way or may send before it is heard of again */
	__u64 hungry; /* for how many it counts of those that would send more if they might: one or none */
};

/* The daemon's flows to the same destination, all in one. */
struct companions {
	__u64 told_at;
	__u64 acked; /* bytes, ever */
	__u64 congestions; /* ever */
	__u64 flows;
	struct stake stake;
};

struct macroflow {
	struct bpf_spin_lock lock;
	__u32 mss;
	__u64 born;
	__u64 window; /* bytes that all flows together may have under way */
	__u64 threshold; /* slow start ends here */
	__u64 counted; /* bytes acknowledged since the window last grew in congestion avoidance */
	__u64 committed; /* of all flows */
	__u64 modest; /* of those that are not hungry */
	__u64 hungry; /* how many are, the companions' among them */
	__u64 flows; /* connections that are open */
	__u64 next_id;
	__u64 turn; /* whose turn it is to have the packet that cannot be divided */
	__u64 reduced_at; /* losses of what was sent before have been answered */
	__u64 heard_at; /* when anything was last acknowledged */
	__u64 busy_at; /* when there was last something under way */
	__u64 reducer; /* the flow that told of the last loss, if that may still turn out to be none */
	__u64 window_before;
	__u64 threshold_before;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u32 min_rtt_us;
	__u32 queueing;
	__u64 acked; /* bytes, ever */
	__u64 lost; /* packets, ever */
	__u64 losses; /* answered, ever */
	__u64 timeouts; /* of the whole path, ever */
	__u64 opened; /* connections, ever */
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

/* Bytes that `held` may have under way beside what others hold already. */
inline_ __u64 macroflow_room(const struct macroflow *m, const struct stake *held)
{
	__u64 others = m->committed - held->committed;

	return m->window > others ? m->window - others : 0;
}

/* Bytes that the hungry share: what the modest ones leave. */
inline_ __u64 macroflow_left(const struct macroflow *m, const struct stake *held)
{
	__u64 modest = m->modest - (held->hungry ? 0 : held->committed);

	return m->window > modest ? m->window - modest : 0;
}

/* What a flow may have under way: an even share, and not what others hold already. */
inline_ __u64 macroflow_share(const struct macroflow *m, const struct stake *held, __u64 id, __u32 mss)
{
	__u64 sharers = m->hungry - held->hungry + 1;
	__u64 packets, share;

	if (!sharers || !mss)
		return 0;
	packets = macroflow_left(m, held) / mss;
	share = packets / sharers;
	/* Packets cannot be divided: the odd ones go round. */
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

/* Somebody begins to send. If nobody did for long, less is known than was (RFC 9040 §2). */
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

/* Smoothed as in RFC 6298 §2; and slow start ends where packets begin to queue. */
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

/* Bytes arrived. Who is not held back by the window proves nothing of it. */
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
	/* One TCP does not grow either in the round trip in which it repairs. */
	if (now - m->reduced_at < m->srtt_us * NANOS_IN_MICRO)
		return;
	m->counted += bytes;
	if (m->counted >= m->window) {
		m->counted = least(m->counted - m->window, m->window);
		m->window += m->mss;
		m->turn++;
	}
}

/* A loss or a mark of what was sent at a time: the window halves once for all that was sent before it did. */
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

/* What looked like a loss was none. */
inline_ void macroflow_undo(struct macroflow *m, __u64 who)
{
	if (m->reducer != who)
		return;
	m->window = most(m->window, m->window_before);
	m->threshold = most(m->threshold, m->threshold_before);
	m->reducer = 0;
}

/* A connection's timer ran out. If others hear of their packets, it concerns that connection alone. */
inline_ void macroflow_timed_out(struct macroflow *m, __u64 now)
{
	if (now - m->heard_at < most(SILENCE, 2 * m->srtt_us * NANOS_IN_MICRO))
		return;
	m->window = m->mss;
	m->timeouts++;
}

/* What the daemon tells of its flows to a destination, and what it is told. */
struct told {
	struct destination to; /* namespace 0: the caller's */
	__u64 flows;
	__u64 hungry;
	__u64 outstanding;
	__u64 acked;
	__u64 congestions;
	__u64 window; /* what they may have under way; 0 if the kernel has no flows there */
};

/* The daemon's flows take part: what they learnt counts as if connections had learnt it. */
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
