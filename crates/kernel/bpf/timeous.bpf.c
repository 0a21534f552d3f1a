// SPDX-License-Identifier: MIT OR Apache-2.0
// Linux TCP congestion control as a client of the Congestion Manager: a connection's window is a share of its macroflow's.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "macroflow.h"

/* The licence is MIT OR Apache-2.0; the kernel accepts MIT under this name only. */
char _license[] SEC("license") = "Dual MIT/GPL";

#define MAX_MACROFLOWS 16384
#define IS_OURS 0x54494d454f5553ull
/* Largest burst in packets: more are paced over a round trip, unless the RTT is below SHORTEST_PACED_US (timer resolution). */
#define BURST INITIAL_PACKETS
#define SHORTEST_PACED_US 1000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_MACROFLOWS);
	__type(key, struct destination);
	__type(value, struct macroflow);
} macroflows SEC(".maps");

/* Settings from user space. */
struct orders {
	__u32 retired; /* the program is being removed: every connection changes to the congestion control `fallback` */
	char fallback[16];
};

volatile struct orders orders SEC(".data.orders") = { .retired = 0, .fallback = "reno" };

/* State of a connection, in the kernel's private area of congestion control (icsk_ca_priv). */
struct flow {
	__u64 is_ours;
	struct destination to;
	__u64 born; /* creation time of its macroflow */
	__u64 id;
	struct stake stake;
	__u64 paced_until;
	__u64 unused;
};

_Static_assert(sizeof(struct flow) <= 13 * sizeof(__u64), "the kernel has no more room");

inline_ struct tcp_sock *tcp(struct sock *sk) { return (struct tcp_sock *)sk; }
inline_ struct flow *flow_of(struct sock *sk) { return (struct flow *)((struct inet_connection_sock *)sk)->icsk_ca_priv; }

inline_ __u32 in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* Unsent bytes in the socket. */
inline_ __u32 unsent(struct tcp_sock *tp) { return tp->write_seq - tp->snd_nxt; }

inline_ void destination_of(struct sock *sk, struct destination *to)
{
	struct inet_sock *inet = (struct inet_sock *)sk;

	__builtin_memset(to, 0, sizeof(*to));
	to->netns = sk->__sk_common.skc_net.net->net_cookie;
	if (sk->__sk_common.skc_family == AF_INET6) {
		__builtin_memcpy(to->addr, sk->__sk_common.skc_v6_daddr.in6_u.u6_addr8, sizeof(to->addr));
		to->dscp = inet->pinet6 ? inet->pinet6->tclass >> 2 : 0;
	} else {
		__u32 addr = sk->__sk_common.skc_daddr;

		to->addr[10] = 0xff;
		to->addr[11] = 0xff;
		__builtin_memcpy(to->addr + 12, &addr, sizeof(addr));
		to->dscp = inet->tos >> 2;
	}
}

inline_ void fall_back(struct sock *sk)
{
	char name[16];

	for (int i = 0; i < 15; i++)
		name[i] = orders.fallback[i];
	name[15] = 0;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
}

/* Returns a connection's macroflow, which is created if there is none; null if the map is full. */
inline_ struct macroflow *macroflow_of(struct sock *sk, __u64 now)
{
	struct tcp_sock *tp = tcp(sk);
	struct destination to = flow_of(sk)->to;
	struct macroflow *m = bpf_map_lookup_elem(&macroflows, &to);

	if (!m) {
		struct macroflow new = {};

		macroflow_begin(&new, now, tp->mss_cache, tp->snd_cwnd);
		bpf_map_update_elem(&macroflows, &to, &new, BPF_NOEXIST);
		m = bpf_map_lookup_elem(&macroflows, &to);
	}
	return m;
}

/* Adds a connection to its macroflow, under the lock: also if an unused macroflow was removed and created again. */
inline_ void join(struct macroflow *m, struct flow *flow)
{
	if (flow->born == m->born)
		return;
	flow->born = m->born;
	flow->id = ++m->next_id;
	flow->stake.committed = 0;
	flow->stake.hungry = 0;
	m->flows++;
	m->opened++;
}

/* Sets the pacing rate as Linux does: above window / RTT, so that the window is the limit; segmentation offload uses it, too.
 * It takes effect only if the window allows `more` than BURST packets beyond those acknowledged: others are clocked by ACKs. */
inline_ void pace(struct sock *sk, struct flow *flow, const struct macroflow *m, __u64 now, __u32 window, __u32 more)
{
	struct tcp_sock *tp = tcp(sk);
	__u64 srtt_us = tp->srtt_us >> 3;
	__u64 rate = (__u64)window * tp->mss_cache * 1000000ull;
	__u32 wanted;

	if (!srtt_us)
		srtt_us = m->srtt_us;
	if (!srtt_us)
		return;
	rate = rate / srtt_us;
	sk->sk_pacing_rate = in_slow_start(m) ? 2 * rate : rate + rate / 5;
	if (more > BURST && (m->min_rtt_us ? m->min_rtt_us : srtt_us) >= SHORTEST_PACED_US)
		flow->paced_until = now + srtt_us * NANOS_IN_MICRO;
	wanted = now < flow->paced_until ? SK_PACING_NEEDED : SK_PACING_NONE;
	if (sk->sk_pacing_status != SK_PACING_FQ && sk->sk_pacing_status != wanted)
		sk->sk_pacing_status = wanted;
}

SEC("struct_ops") void BPF_PROG(timeous_init, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct tcp_sock *tp = tcp(sk);
	__u64 now = bpf_ktime_get_ns(), share;
	struct destination to;
	struct macroflow *m;
	__u32 window, mss = tp->mss_cache;

	destination_of(sk, &to);
	flow->to = to;
	flow->is_ours = IS_OURS;
	m = orders.retired ? 0 : macroflow_of(sk, now);
	if (!m || !mss) {
		flow->is_ours = 0;
		fall_back(sk);
		return;
	}
	bpf_spin_lock(&m->lock);
	join(m, flow);
	if (mss > m->mss)
		m->mss = mss;
	macroflow_wake(m, now);
	share = macroflow_share(m, &flow->stake, flow->id, mss);
	bpf_spin_unlock(&m->lock);
	window = most(share / mss, 1);
	window = least(window, tp->snd_cwnd_clamp);
	tp->snd_cwnd = window;
	pace(sk, flow, m, now, window, window);
}

SEC("struct_ops") void BPF_PROG(timeous_release, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct destination to = flow->to;
	struct macroflow *m;

	if (flow->is_ours != IS_OURS)
		return;
	m = bpf_map_lookup_elem(&macroflows, &to);
	if (!m)
		return;
	bpf_spin_lock(&m->lock);
	if (flow->born == m->born) {
		macroflow_stake(m, &flow->stake, 0, 0);
		m->flows--;
	}
	bpf_spin_unlock(&m->lock);
	flow->is_ours = 0;
}

/* Handles the start of sending with nothing in flight: the connection gets its present share, not its former window. */
inline_ void begins(struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct tcp_sock *tp = tcp(sk);
	__u64 now = bpf_ktime_get_ns(), share, waiting = unsent(tp);
	struct macroflow *m = macroflow_of(sk, now);
	__u32 window, mss = tp->mss_cache;

	if (!m || !mss)
		return;
	bpf_spin_lock(&m->lock);
	join(m, flow);
	macroflow_wake(m, now);
	share = most(macroflow_share(m, &flow->stake, flow->id, mss), mss);
	macroflow_stake(m, &flow->stake, least(share, waiting), waiting >= share);
	bpf_spin_unlock(&m->lock);
	window = least(most(share / mss, 1), tp->snd_cwnd_clamp);
	tp->snd_cwnd = window;
	pace(sk, flow, m, now, window, window);
}

SEC("struct_ops") void BPF_PROG(timeous_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *flow = flow_of(sk);
	struct macroflow *m;
	__u64 now;

	if (flow->is_ours != IS_OURS)
		return;
	if (event == CA_EVENT_TX_START) {
		begins(sk);
	} else if (event == CA_EVENT_LOSS) {
		now = bpf_ktime_get_ns();
		m = macroflow_of(sk, now);
		if (!m)
			return;
		bpf_spin_lock(&m->lock);
		macroflow_timed_out(m, now);
		bpf_spin_unlock(&m->lock);
	}
}

/* Handles a loss or an ECN mark. Of several losses the kernel points at the first: if the window was reduced after that packet
 * was sent, this loss does not reduce it again. */
SEC("struct_ops") __u32 BPF_PROG(timeous_ssthresh, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct tcp_sock *tp = tcp(sk);
	__u64 now = bpf_ktime_get_ns(), sent_at = 0, share;
	struct macroflow *m = macroflow_of(sk, now);
	__u32 mss = tp->mss_cache;

	if (!m || !mss || flow->is_ours != IS_OURS)
		return most(tp->snd_cwnd / 2, 2);
	if (bpf_core_field_exists(tp->retransmit_skb_hint)) {
		struct sk_buff *lost = tp->retransmit_skb_hint;

		if (lost)
			sent_at = lost->skb_mstamp_ns;
	}
	if (!sent_at)
		sent_at = now - (__u64)(tp->srtt_us >> 3) * NANOS_IN_MICRO;
	bpf_spin_lock(&m->lock);
	join(m, flow);
	macroflow_congested(m, now, sent_at, flow->id);
	share = macroflow_share(m, &flow->stake, flow->id, mss);
	bpf_spin_unlock(&m->lock);
	return most(share / mss, 2);
}

SEC("struct_ops") __u32 BPF_PROG(timeous_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	struct destination to = flow->to;
	struct tcp_sock *tp = tcp(sk);
	struct macroflow *m = bpf_map_lookup_elem(&macroflows, &to);

	if (m && flow->is_ours == IS_OURS) {
		bpf_spin_lock(&m->lock);
		if (flow->born == m->born)
			macroflow_undo(m, flow->id);
		bpf_spin_unlock(&m->lock);
	}
	return most(tp->snd_cwnd, tp->prior_cwnd);
}

SEC("struct_ops") void BPF_PROG(timeous_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct flow *flow = flow_of(sk);
	struct tcp_sock *tp = tcp(sk);
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	__u64 now = bpf_ktime_get_ns(), share, bytes;
	__u32 mss = tp->mss_cache, flight = in_flight(tp), acked = rs->acked_sacked, window, cautious, before;
	__u8 state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	long rtt_us = rs->rtt_us;
	int losses = rs->losses;
	struct macroflow *m;
	bool limited, hungry;

	if (flow->is_ours != IS_OURS)
		return;
	m = orders.retired ? 0 : macroflow_of(sk, now);
	if (!m || !mss) {
		fall_back(sk);
		return;
	}
	bytes = (__u64)acked * mss;
	/* As in tcp_is_cwnd_limited(). */
	hungry = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	limited = hungry || (in_slow_start(m) && tp->snd_cwnd < 2 * tp->max_packets_out);
	/* A flow that is limited only by pacing is hungry, too. */
	hungry = flight > 0 && (hungry || (now < flow->paced_until && unsent(tp) > 0));
	bpf_spin_lock(&m->lock);
	join(m, flow);
	macroflow_forget_silent_companions(m, now);
	if (rtt_us > 0)
		macroflow_round_trip(m, (__u32)rtt_us);
	if (losses > 0)
		m->lost += (__u32)losses;
	if (bytes)
		macroflow_acked(m, now, bytes, limited && (state < TCP_CA_CWR || state == TCP_CA_Loss));
	share = macroflow_share(m, &flow->stake, flow->id, mss);
	window = least(most(share / mss, 1), tp->snd_cwnd_clamp);
	if (state >= TCP_CA_CWR) {
		/* Lost packets leave the flight at once: the room is filled as acknowledgements arrive (RFC 6937). */
		cautious = flight + (acked ? acked : 1);
		if (state == TCP_CA_Loss || flight < window)
			cautious++;
		window = least(window, cautious);
	}
	macroflow_stake(m, &flow->stake, (hungry ? most(window, flight) : flight) * mss, hungry);
	bpf_spin_unlock(&m->lock);
	before = tp->snd_cwnd + acked;
	tp->snd_cwnd = window;
	pace(sk, flow, m, now, window, window > before ? window - before : 0);
}

/* Exchange with the daemon: takes the report of its flows to a destination, and returns their window. */
SEC("syscall") int timeous_tell(struct told *told)
{
	struct destination to = told->to;
	__u64 now = bpf_ktime_get_ns();
	struct told answer = *told;
	struct macroflow *m;

	if (!to.netns)
		to.netns = bpf_get_current_task_btf()->nsproxy->net_ns->net_cookie;
	answer.to.netns = to.netns;
	answer.window = 0;
	m = bpf_map_lookup_elem(&macroflows, &to);
	if (m) {
		bpf_spin_lock(&m->lock);
		if (m->flows > 0)
			macroflow_told(m, now, &answer);
		bpf_spin_unlock(&m->lock);
	}
	told->to.netns = answer.to.netns;
	told->window = answer.window;
	return 0;
}

/* A connection's record in listings. */
struct shown {
	struct destination to;
	__u8 local[16];
	__u64 id;
	__u32 local_port;
	__u32 remote_port;
	__u32 window; /* packets, as is flight */
	__u32 mss; /* bytes */
	__u32 flight;
	__u32 srtt_us;
	__u64 committed; /* bytes */
	__u64 hungry;
};

/* Writes one record for each connection in the reader's network namespace. */
SEC("iter/tcp") int timeous_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	struct shown shown = {};
	struct flow *flow;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	flow = flow_of((struct sock *)tp);
	if (flow->is_ours != IS_OURS)
		return 0;
	shown.to = flow->to;
	if (common->skc_family == AF_INET6) {
		__builtin_memcpy(shown.local, common->skc_v6_rcv_saddr.in6_u.u6_addr8, sizeof(shown.local));
	} else {
		__u32 addr = common->skc_rcv_saddr;

		shown.local[10] = 0xff;
		shown.local[11] = 0xff;
		__builtin_memcpy(shown.local + 12, &addr, sizeof(addr));
	}
	shown.id = flow->id;
	shown.local_port = common->skc_num;
	shown.remote_port = bpf_ntohs(common->skc_dport);
	shown.window = tp->snd_cwnd;
	shown.mss = tp->mss_cache;
	shown.flight = in_flight(tp);
	shown.srtt_us = tp->srtt_us >> 3;
	shown.committed = flow->stake.committed;
	shown.hungry = flow->stake.hungry;
	bpf_seq_write(ctx->meta->seq, &shown, sizeof(shown));
	return 0;
}

SEC(".struct_ops.link") struct tcp_congestion_ops timeous = {
	.init = (void *)timeous_init,
	.release = (void *)timeous_release,
	.ssthresh = (void *)timeous_ssthresh,
	.cwnd_event = (void *)timeous_cwnd_event,
	.cong_control = (void *)timeous_cong_control,
	.undo_cwnd = (void *)timeous_undo_cwnd,
	.name = "timeous",
	/* Available without privileges, and as the default of any network namespace. */
	.flags = TCP_CONG_NON_RESTRICTED,
};
