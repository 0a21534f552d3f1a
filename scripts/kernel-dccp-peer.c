// The whole userland of the virtual machine of kernel-dccp.sh: sessions over the kernel's own DCCP, asked for in lines on
// the second serial port and told of there. It is process 1, and nothing else runs.
//
//   listen NAME PORT CCID SERVICE COUNT SIZE         waits for one caller
//   connect NAME HOST PORT CCID SERVICE COUNT SIZE   calls
//       then sends COUNT datagrams of SIZE bytes, each with its number in front, and counts what comes meanwhile:
//       NAME listening
//       NAME connected tx=CCID rx=CCID
//       NAME sent                    all has left this host
//       NAME info ...                what a CCID 3 sender reckons, on request and at the end
//       NAME end by=WHOM received=N distinct=N damaged=N
//       NAME failed WHERE ERROR
//   close NAME       this side ends it
//   info NAME
//   sysctl NAME VALUE
//   poweroff
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dccp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/route.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LEVEL = 269, MAX_SIZE = 1500, MAX_COUNT = 1 << 20, PATIENCE = 120, SESSIONS = 64 };

// tfrc_tx_info of the kernel's net/dccp/tfrc.h
struct tx_info { uint64_t x, x_recv; uint32_t x_calc, rtt, p, rto, ipi; };

static int control;
static const char *name = "peer";

static void say(const char *format, ...) {
  char line[300];
  int len = snprintf(line, sizeof line, "%s ", name);
  va_list arguments;
  va_start(arguments, format);
  len += vsnprintf(line + len, sizeof line - len - 1, format, arguments);
  va_end(arguments);
  if (len > (int)sizeof line - 2) len = sizeof line - 2;
  line[len++] = '\n';
  if (write(control, line, len) != len) perror("control");
}

static void fail(const char *where) {
  say("failed %s %s", where, strerrorname_np(errno));
  exit(1);
}

// ---------------------------------------------------------------------------------------------------------- a session

static struct {
  int fd, order, count, size, sent, received, distinct, damaged, told;
  unsigned char seen[MAX_COUNT / 8];
} session;

static void fill(unsigned char *bytes, uint32_t number) {
  uint32_t wire = htonl(number);
  for (int i = 0; i < session.size; i++) bytes[i] = (unsigned char)(number * 31 + i);
  memcpy(bytes, &wire, sizeof wire);
}

static void take(const unsigned char *bytes, long len) {
  unsigned char expected[MAX_SIZE];
  uint32_t number = 0;
  session.received++;
  if (len >= 4) { memcpy(&number, bytes, 4); number = ntohl(number); }
  if (len != session.size || number >= MAX_COUNT) { session.damaged++; return; }
  fill(expected, number);
  if (memcmp(expected, bytes, len)) { session.damaged++; return; }
  session.distinct += !(session.seen[number / 8] >> number % 8 & 1);
  session.seen[number / 8] |= 1 << number % 8;
}

static void info(void) {
  struct tx_info x;
  socklen_t len = sizeof x;
  if (getsockopt(session.fd, LEVEL, DCCP_SOCKOPT_CCID_TX_INFO, &x, &len) == 0 && len == sizeof x)
    say("info x=%llu x_recv=%llu x_calc=%u rtt=%u p=%u rto=%u ipi=%u", (unsigned long long)x.x >> 6,
        (unsigned long long)x.x_recv >> 6, x.x_calc, x.rtt, x.p, x.rto, x.ipi);
  else
    say("info none sent=%d received=%d", session.sent, session.received);
}

static void end(const char *by) {
  info();
  say("end by=%s received=%d distinct=%d damaged=%d", by, session.received, session.distinct, session.damaged);
  close(session.fd);
  say("closed");
  exit(0);
}

// Everything that waits; ends the process when the other side has.
static void receive(void) {
  unsigned char bytes[MAX_SIZE + 1];
  for (;;) {
    long n = recv(session.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) take(bytes, n);
    else if (n == 0) end("peer");
    else if (errno == EAGAIN) return;
    else end(strerrorname_np(errno));
  }
}

// As many as the kernel takes; whether it wants no more for now.
static int transmit(void) {
  unsigned char bytes[MAX_SIZE];
  while (session.sent < session.count) {
    fill(bytes, session.sent);
    if (send(session.fd, bytes, session.size, MSG_DONTWAIT | MSG_NOSIGNAL) == session.size) session.sent++;
    else if (errno == EAGAIN) return 1;
    else { receive(); end(strerrorname_np(errno)); }
  }
  return 0;
}

static void told_when_sent(void) {
  int left = 1;
  if (session.told || session.sent < session.count || ioctl(session.fd, SIOCOUTQ, &left) || left) return;
  session.told = 1;
  say("sent");
}

static void run(void) {
  int tx = 0, rx = 0;
  socklen_t one = sizeof tx, another = sizeof rx;
  getsockopt(session.fd, LEVEL, DCCP_SOCKOPT_TX_CCID, &tx, &one);
  getsockopt(session.fd, LEVEL, DCCP_SOCKOPT_RX_CCID, &rx, &another);
  say("connected tx=%d rx=%d", tx, rx);
  for (;;) {
    struct pollfd wait[] = {{session.order, POLLIN, 0}, {session.fd, POLLIN, 0}};
    int full = transmit();
    told_when_sent();
    // DCCP's poll() knows nothing of a full queue, so that has to be looked at.
    poll(wait, 2, full || !session.told ? 1 : -1);
    if (wait[1].revents) receive();
    if (wait[0].revents) {
      char order;
      if (read(session.order, &order, 1) != 1) exit(1);
      if (order == 'i') { info(); continue; }
      receive();
      end("us");
    }
  }
}

static int dccp(int ccid, const char *service) {
  int fd = socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP), room = 8 << 20, queue = 100;
  unsigned char wanted = ccid;
  if (fd < 0) fail("socket");
  if (setsockopt(fd, LEVEL, DCCP_SOCKOPT_CCID, &wanted, 1)) fail("ccid");
  if (setsockopt(fd, LEVEL, DCCP_SOCKOPT_SERVICE, service, 4)) fail("service");
  if (setsockopt(fd, LEVEL, DCCP_SOCKOPT_QPOLICY_TXQLEN, &queue, sizeof queue)) fail("txqlen");
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  return fd;
}

static void converse(int order, char **word) {
  int calls = !strcmp(word[0], "connect");
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
  if (calls && !inet_aton(word[2], &at.sin_addr)) fail("address");
  word += calls ? 3 : 2;
  at.sin_port = htons(atoi(word[0]));
  session.order = order;
  session.count = atoi(word[3]);
  session.size = atoi(word[4]);
  if (strlen(word[2]) != 4 || session.count > MAX_COUNT || session.size < 4 || session.size > MAX_SIZE) {
    errno = EINVAL;
    fail("arguments");
  }
  alarm(PATIENCE);
  int fd = dccp(atoi(word[1]), word[2]);
  if (calls) {
    if (connect(fd, (void *)&at, sizeof at)) fail("connect");
    session.fd = fd;
  } else {
    if (bind(fd, (void *)&at, sizeof at)) fail("bind");
    if (listen(fd, 5)) fail("listen");
    say("listening");
    struct pollfd wait[] = {{order, POLLIN, 0}, {fd, POLLIN, 0}};
    poll(wait, 2, -1);
    if (wait[0].revents) { say("closed"); exit(0); }
    session.fd = accept(fd, 0, 0);
    if (session.fd < 0) fail("accept");
    close(fd);
  }
  run();
}

// ---------------------------------------------------------------------------------------------------------- process 1

static struct { char name[32]; pid_t pid; int order; } sessions[SESSIONS];

static void reap(void) {
  pid_t pid;
  int status;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
    for (int i = 0; i < SESSIONS; i++)
      if (sessions[i].pid == pid) {
        name = sessions[i].name;
        if (WIFSIGNALED(status)) say("failed killed SIG%s", sigabbrev_np(WTERMSIG(status)));
        name = "peer";
        close(sessions[i].order);
        sessions[i].pid = 0;
      }
}

static void start(char **word) {
  int order[2], free = 0;
  while (free < SESSIONS && sessions[free].pid) free++;
  if (free == SESSIONS || strlen(word[1]) >= sizeof sessions[free].name || pipe2(order, O_CLOEXEC)) {
    say("failed start EAGAIN");
    return;
  }
  strcpy(sessions[free].name, word[1]);
  pid_t pid = fork();
  if (pid == 0) {
    close(order[1]);
    name = sessions[free].name;
    converse(order[0], word);
  }
  close(order[0]);
  sessions[free].pid = pid;
  sessions[free].order = order[1];
}

static void order(const char *whom, char what) {
  for (int i = 0; i < SESSIONS; i++)
    if (sessions[i].pid && !strcmp(sessions[i].name, whom) && write(sessions[i].order, &what, 1) == 1) return;
  say("failed order %s", whom);
}

static void set(const char *path, const char *value) {
  char full[200];
  snprintf(full, sizeof full, "/proc/sys/%s", path);
  int fd = open(full, O_WRONLY);
  if (fd < 0 || write(fd, value, strlen(value)) < 0) say("failed sysctl %s", strerrorname_np(errno));
  else say("set %s", path);
  if (fd >= 0) close(fd);
}

static void obey(char *line) {
  char *word[9] = {0};
  int words = 0;
  for (char *at = strtok(line, " \r"); at && words < 8; at = strtok(0, " \r")) word[words++] = at;
  if (!words) return;
  if (words == 7 && !strcmp(word[0], "listen")) start(word);
  else if (words == 8 && !strcmp(word[0], "connect")) start(word);
  else if (words == 2 && !strcmp(word[0], "close")) order(word[1], 'c');
  else if (words == 2 && !strcmp(word[0], "info")) order(word[1], 'i');
  else if (words == 3 && !strcmp(word[0], "sysctl")) set(word[1], word[2]);
  else if (!strcmp(word[0], "poweroff")) reboot(RB_POWER_OFF);
  else say("failed order %s", word[0]);
}

// Each needs others, and which ones is the kernel's affair: so often until nothing more can be loaded.
static void load_modules(void) {
  char paths[32][100];
  int left = 0, before;
  FILE *list = fopen("/modules/list", "r");
  while (list && left < 32 && fscanf(list, "%99s", paths[left]) == 1) left++;
  do {
    before = left;
    for (int i = 0; i < left; i++) {
      int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
      if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) == 0) {
        left--;
        memmove(paths[i], paths[i + 1], (left - i) * sizeof *paths);
        i--;
      }
      close(fd);
    }
  } while (left && left < before);
  for (int i = 0; i < left; i++) say("failed module %s", paths[i]);
}

static struct sockaddr internet(const char *address) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {inet_addr(address)}};
  struct sockaddr any;
  memcpy(&any, &in, sizeof any);
  return any;
}

static void up(int fd, const char *device, const char *address) {
  struct ifreq request = {0};
  strcpy(request.ifr_name, device);
  request.ifr_addr = internet(address);
  int bad = ioctl(fd, SIOCSIFADDR, &request);
  request.ifr_addr = internet("255.255.255.0");
  bad |= ioctl(fd, SIOCSIFNETMASK, &request);
  // Nothing is lost for want of room here.
  request.ifr_qlen = 20000;
  bad |= ioctl(fd, SIOCSIFTXQLEN, &request);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (bad | ioctl(fd, SIOCSIFFLAGS, &request)) say("failed device %s %s", device, strerrorname_np(errno));
}

static void network(void) {
  const char *address = getenv("PEER_ADDRESS"), *gateway = getenv("PEER_GATEWAY");
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  up(fd, "lo", "127.0.0.1");
  up(fd, "eth0", address ? address : "10.78.0.2");
  struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
  route.rt_dst = internet("0.0.0.0");
  route.rt_genmask = internet("0.0.0.0");
  route.rt_gateway = internet(gateway ? gateway : "10.78.0.1");
  if (ioctl(fd, SIOCADDRT, &route)) say("failed route %s", strerrorname_np(errno));
  close(fd);
}

int main(void) {
  mount("proc", "/proc", "proc", 0, 0);
  mount("dev", "/dev", "devtmpfs", 0, 0);
  control = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_CLOEXEC);
  struct termios raw;
  tcgetattr(control, &raw);
  cfmakeraw(&raw);
  tcsetattr(control, TCSANOW, &raw);
  load_modules();
  network();
  say("ready");
  char line[256];
  int len = 0;
  for (;;) {
    struct pollfd wait = {control, POLLIN, 0};
    poll(&wait, 1, 200);
    reap();
    if (!wait.revents || read(control, line + len, 1) != 1) continue;
    if (line[len] == '\n') { line[len] = 0; len = 0; obey(line); }
    else if (len < (int)sizeof line - 1) len++;
  }
}
