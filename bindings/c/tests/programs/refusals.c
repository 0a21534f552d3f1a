/* Tests invalid arguments: null pointers, invalid handles and values give an error without any other effect. */
#include "check.h"

static void of_no_flow(cm_flowid flow)
{
	struct cm_path path;
	uint32_t weight = 2;

	FAILS(EBADF, cm_close(flow));
	FAILS(EBADF, cm_mtu(flow));
	FAILS(EBADF, cm_sent(flow, 100));
	FAILS(EBADF, cm_unacked(flow));
	FAILS(EBADF, cm_request(flow));
	FAILS(EBADF, cm_request_by(flow, 1));
	FAILS(EBADF, cm_notify(flow, 0));
	FAILS(EBADF, cm_notify_unasked(flow, 100));
	FAILS(EBADF, cm_update(flow, 0, 0, CM_NO_LOSS, 0));
	FAILS(EBADF, cm_query(flow, &path));
	FAILS(EBADF, cm_register_send(flow, NULL, NULL));
	FAILS(EBADF, cm_register_update(flow, NULL, NULL));
	FAILS(EBADF, cm_register_error(flow, NULL, NULL));
	FAILS(EBADF, cm_thresh(flow, 0.5, 2));
	FAILS(EBADF, cm_split(flow));
	FAILS(EBADF, cm_merge(flow, flow));
	FAILS(EBADF, cm_setopt(flow, CM_WEIGHT, &weight, sizeof weight));
}

static void acknowledgements(cm_flowid flow)
{
	unsigned char ack[CM_ACK_MAX];
	struct cm_receiver *receiver;
	ssize_t n;

	CHECK(cm_receiver_open(0, 1) == NULL && errno == EINVAL);
	CHECK(cm_receiver_open(1, -1) == NULL && errno == EINVAL);
	CHECK((receiver = cm_receiver_open(2, 1000000)) != NULL);
	FAILS(EFAULT, cm_receiver_packet(NULL, 0, 0));
	FAILS(EFAULT, cm_receiver_timeout(NULL));
	FAILS(EFAULT, cm_receiver_ack(receiver, NULL, sizeof ack));
	FAILS(EMSGSIZE, cm_receiver_ack(receiver, ack, sizeof ack - 1));
	CHECK(cm_receiver_timeout(receiver) == -1 && cm_receiver_ack(receiver, ack, sizeof ack) == 0);
	CHECK(cm_receiver_packet(receiver, 0, 0) == 1 && cm_receiver_packet(receiver, 0, 0) == 0);
	CHECK(cm_receiver_packet(receiver, 1, 1) == 1 && cm_receiver_timeout(receiver) == 0);
	CHECK((n = cm_receiver_ack(receiver, ack, sizeof ack)) > 0);
	FAILS(EFAULT, cm_acked(flow, NULL, 10));
	FAILS(EBADMSG, cm_acked(flow, "an acknowledgement", 18));
	FAILS(EBADMSG, cm_acked(flow, ack, (size_t)n)); /* nothing was sent */
	CHECK(cm_unacked(flow) == 0 && cm_timeout() == -1);
	CHECK(cm_sent(flow, 100) == 0 && cm_sent(flow, 100) == 1 && cm_unacked(flow) == 200 && cm_timeout() > 0);
	CHECK(cm_notify_unasked(flow, 200) == 0);
	CHECK(cm_acked(flow, ack, (size_t)n) == 200 && cm_acked(flow, ack, (size_t)n) == 0);
	CHECK(cm_unacked(flow) == 0 && cm_timeout() == -1);
	cm_receiver_close(receiver);
	cm_receiver_close(NULL);
}

static void addresses(void)
{
	struct sockaddr_in to = v4("127.0.0.1", 7000);
	struct sockaddr_in6 six;
	struct sockaddr_storage local;
	struct sockaddr *dst = (struct sockaddr *)&to;
	struct cm_options options;
	cm_flowid flow;

	FAILS(EFAULT, cm_open(NULL, 0, NULL, 0));
	FAILS(EFAULT, cm_open(dst, sizeof to, NULL, sizeof to));
	FAILS(EINVAL, cm_open(NULL, 0, dst, 0));
	FAILS(EINVAL, cm_open(NULL, 0, dst, sizeof to - 1));
	memset(&local, 0, sizeof local);
	local.ss_family = AF_UNIX;
	FAILS(EAFNOSUPPORT, cm_open(NULL, 0, (struct sockaddr *)&local, sizeof local));
	memset(&six, 0, sizeof six);
	six.sin6_family = AF_INET6;
	six.sin6_addr.s6_addr[15] = 1;
	FAILS(EINVAL, cm_open(NULL, 0, (struct sockaddr *)&six, sizeof to));
	FAILS(EINVAL, cm_open((struct sockaddr *)&six, sizeof six, dst, sizeof to));
	flow = cm_open(NULL, 0, (struct sockaddr *)&six, sizeof six);
	CHECK(flow > 0 && cm_close(flow) == 0);

	memset(&options, 0, sizeof options);
	options.mtu = 900;
	options.dscp = 46;
	flow = cm_open_with(NULL, 0, dst, sizeof to, &options);
	CHECK(flow > 0 && cm_mtu(flow) == 900 && cm_close(flow) == 0);
	options.dscp = 64;
	FAILS(EINVAL, cm_open_with(NULL, 0, dst, sizeof to, &options));
	options.dscp = 0;
	options.reserved[3] = 1;
	FAILS(EINVAL, cm_open_with(NULL, 0, dst, sizeof to, &options));
}

static void feedback(cm_flowid flow)
{
	CHECK(cm_notify_unasked(flow, 1000) == 0);
	FAILS(EBADMSG, cm_update(flow, 100, 200, CM_NO_LOSS, 0));
	FAILS(EBADMSG, cm_update(flow, 2000, 2000, CM_NO_LOSS, 0));
	FAILS(EBADMSG, cm_update(flow, UINT64_MAX, 0, CM_TRANSIENT, 0));
	FAILS(EBADMSG, cm_update(flow, 1000, 1000, CM_NO_LOSS, -1));
	FAILS(EINVAL, cm_update(flow, 1000, 1000, 4, 0));
	FAILS(EINVAL, cm_update(flow, 1000, 1000, -1, 0));
	CHECK(cm_update(flow, 1000, 500, CM_TRANSIENT, 0) == 0);
	FAILS(EBADMSG, cm_update(flow, 1000, 1000, CM_NO_LOSS, 0));
	FAILS(EPERM, cm_notify(flow, 1000));
}

static void arguments(cm_flowid flow)
{
	struct cm_request_entry entry;
	uint32_t weight = 0;
	int scheduler = 3;

	FAILS(EFAULT, cm_query(flow, NULL));
	FAILS(EINVAL, cm_thresh(flow, 0.5, 0.9));
	FAILS(EINVAL, cm_thresh(flow, -1, 2));
	FAILS(EINVAL, cm_thresh(flow, 1.5, 2));
	FAILS(EINVAL, cm_request_by(flow, -1));
	FAILS(EINVAL, cm_set_sigio(2));
	FAILS(EINVAL, cm_watch(-1, POLLIN, NULL, NULL));
	FAILS(EINVAL, cm_setopt(flow, 99, &weight, sizeof weight));
	FAILS(EFAULT, cm_setopt(flow, CM_WEIGHT, NULL, sizeof weight));
	FAILS(EINVAL, cm_setopt(flow, CM_WEIGHT, &weight, 1));
	FAILS(EINVAL, cm_setopt(flow, CM_WEIGHT, &weight, sizeof weight));
	FAILS(EINVAL, cm_setopt(flow, CM_SCHEDULER, &scheduler, sizeof scheduler));
	FAILS(EINVAL, cm_setopt(flow, CM_CONTROLLER, "fast", 5));
	CHECK(cm_setopt(flow, CM_CONTROLLER, "cubic", 5) == 0);
	CHECK(cm_setopt(flow, CM_CONTROLLER, "newreno", sizeof "newreno") == 0);
	scheduler = CM_WEIGHTED;
	CHECK(cm_setopt(flow, CM_SCHEDULER, &scheduler, sizeof scheduler) == 0);
	weight = 3;
	CHECK(cm_setopt(flow, CM_WEIGHT, &weight, sizeof weight) == 0);

	FAILS(EFAULT, cm_bulk_request(NULL, 1));
	FAILS(EFAULT, cm_bulk_notify(NULL, 1));
	FAILS(EFAULT, cm_bulk_update(NULL, 1));
	FAILS(EFAULT, cm_bulk_query(NULL, 1));
	FAILS(EINVAL, cm_bulk_request(&entry, (size_t)-1));
	CHECK(cm_bulk_request(NULL, 0) == 0);
}

int main(void)
{
	cm_flowid flow, closed;

	FAILS(EINVAL, cm_init("elsewhere"));
	FAILS(ECONNREFUSED, cm_init("daemon:/nonexistent/timeous.sock"));
	CHECK(cm_init("process") == 0);
	FAILS(EBUSY, cm_init("process"));
	closed = open_to("127.0.0.1");
	CHECK(cm_close(closed) == 0);
	of_no_flow(closed);
	of_no_flow(0);
	of_no_flow(-1);
	of_no_flow(INT64_MAX);
	of_no_flow(INT64_MIN);
	flow = open_to("127.0.0.1");
	CHECK(flow != closed);
	CHECK(cm_mtu(flow) == 8972);
	addresses();
	acknowledgements(flow);
	feedback(flow);
	arguments(flow);
	CHECK(strstr(cm_strerror(EBADF), "not open") != NULL);
	CHECK(strlen(cm_strerror(12345)) > 0 && strlen(cm_strerror(-1)) > 0);
	CHECK(cm_close(flow) == 0);
	return 0;
}
