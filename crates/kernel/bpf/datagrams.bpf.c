// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts the bytes of UDP datagrams that leave by plain sockets, for flows that the daemon watches.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* The licence is MIT OR Apache-2.0; the kernel accepts MIT under this name only. */
char _license[] SEC("license") = "Dual MIT/GPL";

/* As many flows as the daemon allows by default to several users. */
#define MAX_FLOWS 65536
#define UDP 17
#define UDP_HEADER 8
#define IPV4_HEADER 20
#define IPV6_HEADER 40
/* Fragment offset in an IPv4 header: only the first fragment has ports. */
#define OFFSET 0x1fff

/* First members of the kernel's user interface bpf.h, which cannot be included beside kernel.h. */
struct __sk_buff {
	__u32 len;
};

/* Ends of a flow as its packets have them; IPv4 addresses are mapped. Padded for user space. */
struct ends {
	__u8 remote[16];
	__be16 remote_port;
	__be16 local_port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct ends);
	__type(value, __u64);
} datagrams SEC(".maps");

SEC("cgroup_skb/egress")
int timeous_count(struct __sk_buff *skb)
{
	struct ends ends = {};
	__be16 ports[2];
	__u8 head[IPV6_HEADER];
	__u32 headers;
	__u64 *bytes;

	if (bpf_skb_load_bytes(skb, 0, head, IPV4_HEADER))
		return 1;
	if (head[0] >> 4 == 4) {
		headers = (head[0] & 15) * 4;
		if (head[9] != UDP || (((head[6] << 8) | head[7]) & OFFSET))
			return 1;
		ends.remote[10] = 0xff;
		ends.remote[11] = 0xff;
		__builtin_memcpy(ends.remote + 12, head + 16, 4);
	} else {
		/* Behind an extension header there is no UDP header at this place. */
		headers = IPV6_HEADER;
		if (bpf_skb_load_bytes(skb, 0, head, IPV6_HEADER) || head[6] != UDP)
			return 1;
		__builtin_memcpy(ends.remote, head + 24, 16);
	}
	if (bpf_skb_load_bytes(skb, headers, ports, sizeof(ports)))
		return 1;
	ends.local_port = ports[0];
	ends.remote_port = ports[1];
	bytes = bpf_map_lookup_elem(&datagrams, &ends);
	if (bytes && skb->len > headers + UDP_HEADER)
		__sync_fetch_and_add(bytes, skb->len - headers - UDP_HEADER);
	return 1;
}
