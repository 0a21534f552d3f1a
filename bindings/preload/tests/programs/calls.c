/* A program that knows nothing of Timeous: each case uses some calls on UDP sockets. `calls CASE PORT [NUMBER]`. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in to;
static int counted, padding;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int udp(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        fail("socket");
    return fd;
}

static int connected(void) {
    int fd = udp();
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        fail("connect");
    return fd;
}

/* The text of the next datagram. */
static char *next(void) {
    static char text[1200];
    int len = snprintf(text, sizeof text, "%d", counted++);
    if (padding)
        snprintf(text + len, sizeof text - len, " %*s", padding, "x");
    return text;
}

static void sent(ssize_t len, const char *text, const char *call) {
    if (len != (ssize_t)strlen(text))
        fail(call);
}

static void send_some(int fd, int count) {
    while (count--) {
        char *text = next();
        sent(send(fd, text, strlen(text), 0), text, "send");
    }
}

/* All calls that send, with a time to live by control message. */
static void forms(void) {
    int fd = connected();
    for (int round = 0; round < 6; round++) {
        char *text = next();
        sent(send(fd, text, strlen(text), 0), text, "send");
        text = next();
        sent(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to), text, "sendto");
        text = next();
        sent(write(fd, text, strlen(text)), text, "write");
        text = next();
        struct iovec parts[2] = {{text, 1}, {text + 1, strlen(text) - 1}};
        sent(writev(fd, parts, 2), text, "writev");

        text = next();
        char control[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec part = {text, strlen(text)};
        struct msghdr message = {&to, sizeof to, &part, 1, control, sizeof control, 0};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = IPPROTO_IP;
        header->cmsg_type = IP_TTL;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        int ttl = 77;
        memcpy(CMSG_DATA(header), &ttl, sizeof ttl);
        sent(sendmsg(fd, &message, 0), text, "sendmsg");

        char first[32], second[32];
        strcpy(first, next());
        strcpy(second, next());
        struct iovec pieces[2] = {{first, strlen(first)}, {second, strlen(second)}};
        struct mmsghdr messages[2] = {{{0, 0, &pieces[0], 1, 0, 0, 0}, 0}, {{0, 0, &pieces[1], 1, 0, 0, 0}, 0}};
        if (sendmmsg(fd, messages, 2, 0) != 2)
            fail("sendmmsg");
        sent(messages[1].msg_len, second, "sendmmsg");
    }
}

static void forked(void) {
    int fd = connected();
    /* Several windows: each needs reports, and its time. */
    padding = 1000;
    send_some(fd, 8);
    pid_t child = fork();
    counted = child ? 8 : 58;
    send_some(fd, 50);
    if (child == 0)
        exit(0);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the child");
}

static void closed(void) {
    int fd = connected();
    send_some(fd, 20);
    int other = open("/dev/null", O_WRONLY);
    /* Another file gets the number of a socket with datagrams in its queue. */
    dup2(other, fd);
    close(other);
    fd = connected();
    send_some(fd, 20);
    close(fd);
    other = open("/dev/null", O_WRONLY);
    usleep(400000);
}

static void reconnected(int port) {
    int fd = udp();
    struct sockaddr_in second = to;
    second.sin_port = htons(port + 1);
    for (int round = 0; round < 20; round++) {
        char *text = next();
        sent(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to), text, "sendto");
    }
    if (connect(fd, (struct sockaddr *)&second, sizeof second))
        fail("connect");
    send_some(fd, 20);
    if (connect(fd, (struct sockaddr *)&to, sizeof to))
        fail("connect");
    send_some(fd, 20);
}

static int shared;

static void *sender(void *arg) {
    char text[32];
    for (int number = 0; number < 25; number++) {
        snprintf(text, sizeof text, "%d", (int)(long)arg * 25 + number);
        sent(send(shared, text, strlen(text), 0), text, "send");
    }
    return 0;
}

static void threads(void) {
    pthread_t all[4];
    shared = connected();
    for (long number = 0; number < 4; number++)
        pthread_create(&all[number], 0, sender, (void *)number);
    for (int number = 0; number < 4; number++)
        pthread_join(all[number], 0);
}

static volatile int handled;
static int pipes[2];

/* What a handler may do: write to a pipe, and send a datagram. */
static void handler(int signal) {
    int before = errno;
    handled += signal == SIGALRM;
    if (write(pipes[1], "x", 1) != 1 || send(shared, "s", 1, MSG_DONTWAIT) == 0)
        _exit(9);
    errno = before;
}

static void signals(void) {
    shared = connected();
    if (pipe(pipes) || fcntl(pipes[1], F_SETFL, O_NONBLOCK))
        fail("pipe");
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, 0);
    while (handled < 200) {
        if (send(shared, "m", 1, MSG_DONTWAIT) < 0 && errno != EAGAIN)
            fail("send");
        char byte;
        (void)!read(pipes[0], &byte, 1);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
}

/* Sends without blocking until the queue is full, or for so many datagrams; says how many were taken. */
static void full(void) {
    int fd = connected();
    static char text[1000];
    int taken = 0;
    while (taken < 1000 && send(fd, text, sizeof text, MSG_DONTWAIT) == sizeof text)
        taken++;
    printf("%s %s\n", taken < 1000 ? "full" : "never full", taken < 1000 && errno == EAGAIN ? "EAGAIN" : "");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (taken = 0; taken < 1000 && send(fd, text, sizeof text, 0) == sizeof text;)
        taken++;
    printf("%s %s\n", taken < 1000 ? "full" : "never full", errno == EAGAIN ? "EAGAIN" : "");
    usleep(400000);
    printf("%zd\n", send(fd, text, sizeof text, 0));
}

/* Sends a little all the time. */
static void steady(void) {
    int fd = connected();
    for (;;) {
        send_some(fd, 2);
        usleep(10000);
    }
}

/* Sends slowly, after a pause in which the receiver is found, and waits for the last report. */
static void slow(void) {
    int fd = connected();
    send_some(fd, 20);
    usleep(2000000);
    for (int round = 0; round < 240; round++) {
        send_some(fd, 1);
        usleep(1000);
    }
    usleep(100000);
}

static void refusals(void) {
    static char text[70000];
    struct sockaddr_un_like {
        sa_family_t family;
        char path[20];
    } other = {AF_UNIX, "/nowhere"};
    int fd = udp();
    for (int round = 0; round < 10; round++) {
        errno = 0;
        ssize_t len = send(fd, text, 10, 0);
        printf("nowhere: %zd %d\n", len, errno);
        errno = 0;
        len = sendto(fd, text, sizeof text, 0, (struct sockaddr *)&to, sizeof to);
        printf("too large: %zd %d\n", len, errno);
        errno = 0;
        len = sendto(fd, text, 10, 0, (struct sockaddr *)&other, sizeof other);
        printf("other family: %zd %d\n", len, errno);
        errno = 0;
        len = sendto(fd, text, 10, 0, (struct sockaddr *)&to, 3);
        printf("short address: %zd %d\n", len, errno);
        errno = 0;
        len = send(999, text, 10, 0);
        printf("no descriptor: %zd %d\n", len, errno);
        errno = EXFULL;
        len = sendto(fd, text, 0, 0, (struct sockaddr *)&to, sizeof to);
        printf("empty: %zd %d\n", len, errno);
    }
}

/* All calls that receive; prints what came, one datagram a line, until one says "end" or nothing comes for a while. */
static void receive(int port, int wanted) {
    int fd = udp();
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {20, 0};
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&here, sizeof here))
        fail("bind");
    puts("ready");
    fflush(stdout);
    for (int got = 0; got < wanted; got++) {
        char text[2000] = {0}, control[64];
        struct iovec parts[2] = {{text, 1}, {text + 1, sizeof text - 2}};
        struct msghdr message = {0, 0, parts, 2, control, sizeof control, 0};
        struct mmsghdr messages[1] = {{message, 0}};
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        ssize_t came;
        int ttl = 0;
        switch (got % 6) {
        case 0: came = recv(fd, text, sizeof text, 0); break;
        case 1: came = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &len); break;
        case 2: came = read(fd, text, sizeof text); break;
        case 3: came = readv(fd, parts, 2); break;
        case 4: came = recvmsg(fd, &message, 0); break;
        default: came = recvmmsg(fd, messages, 1, 0, 0) == 1 ? (ssize_t)messages[0].msg_len : -1; break;
        }
        if (came < 0)
            fail("receive");
        if (got % 6 == 4) {
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            if (!header || header->cmsg_type != IP_TTL)
                fail("control message");
            memcpy(&ttl, CMSG_DATA(header), sizeof ttl);
        }
        if (got % 6 == 1 && (len != sizeof from || from.sin_family != AF_INET))
            fail("address");
        printf("%s%s\n", text, ttl == 77 ? " ttl" : "");
        fflush(stdout);
    }
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    const char *name = words[1];
    int port = atoi(words[2]);
    to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!strcmp(name, "forms"))
        forms();
    else if (!strcmp(name, "fork"))
        forked();
    else if (!strcmp(name, "close"))
        closed();
    else if (!strcmp(name, "connect"))
        reconnected(port);
    else if (!strcmp(name, "threads"))
        threads();
    else if (!strcmp(name, "signals"))
        signals();
    else if (!strcmp(name, "full"))
        full();
    else if (!strcmp(name, "slow"))
        slow();
    else if (!strcmp(name, "steady"))
        steady();
    else if (!strcmp(name, "refusals"))
        refusals();
    else if (!strcmp(name, "exit"))
        send_some(connected(), 30);
    else if (!strcmp(name, "exec")) {
        send_some(connected(), 30);
        char *arguments[] = {"true", 0};
        execv("/bin/true", arguments);
        fail("exec");
    } else if (!strcmp(name, "receive"))
        receive(port, atoi(words[3]));
    else
        return 2;
    return 0;
}
