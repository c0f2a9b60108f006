// SPDX-License-Identifier: Apache-2.0
// relay LATENCY RATE NAMESPACE=ADDRESS... - cables with a latency, and the switch between them, as a program.
//
// For a kernel that can delay nothing (no netem). In each namespace it makes a tunnel, `eth0`; what a host
// sends into its own comes out of that of the host it is addressed to, LATENCY later (200us, 5ms). RATE
// (1gbit, 200mbit, none) is that of each cable, both ways: a packet leaves its host when those before it
// have left, and enters the next one when those before it have entered. A host that sends more than that
// waits: its packets stay in its own queue. A packet that finds 32 MB before it at the cable of another host
// is thrown away, as a switch would.
//
// It ends with the process that started it, at SIGTERM, or when a tunnel fails; the tunnels vanish with it.
// Packets of up to 9000 bytes (jumbo frames), so that the relay takes little of a core that is measured.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 16, MTU = 9000, WAITING_MOST = 32 << 20, TURN = 64, DESTINATION_AT = 16 };
static const int64_t SECOND_NS = 1000000000;

typedef struct packet {
    struct packet *next;
    int64_t due_ns;
    size_t  bytes;
    unsigned char data[];
} packet;

typedef struct host {
    int       fd;
    uint32_t  address;              // as it stands in a packet
    int64_t   sends_ns, takes_ns;   // its cable is busy until then, out and in
    packet   *first, **end;         // on the way to it, in order of due_ns
    size_t    waiting;              // bytes of them
} host;

static void fail(const char *what) {
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND_NS + t.tv_nsec;
}

typedef struct unit {
    const char *name;
    double factor;
} unit;

static double number(const char *text, const unit *units) {
    char *end;
    const double value = strtod(text, &end);
    for (; units->name; units++)
        if (value >= 0 && end != text && !strcmp(end, units->name)) return value * units->factor;
    fprintf(stderr, "relay: not a number with a unit: %s\n", text);
    exit(2);
}

// ---- tunnels ----

static void enter(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) fail(path);
    close(fd);
}

static void set_mtu(struct ifreq *r) {
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    r->ifr_mtu = MTU;
    if (s < 0 || ioctl(s, SIOCSIFMTU, r) != 0) fail("the size of packets");
    close(s);
}

static void open_tunnel(host *h, char *word) {
    char *address = strchr(word, '='), path[256];
    struct ifreq r = {.ifr_name = "eth0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (!address) {
        fprintf(stderr, "relay: not NAMESPACE=ADDRESS: %s\n", word);
        exit(2);
    }
    *address++ = '\0';
    snprintf(path, sizeof path, "/run/netns/%s", word);
    enter(path);
    h->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (h->fd < 0 || ioctl(h->fd, TUNSETIFF, &r) != 0) fail("/dev/net/tun");
    set_mtu(&r);
    if (inet_pton(AF_INET, address, &h->address) != 1) fail(address);
    h->end = &h->first;
}

// ---- packets ----

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static host *addressed(host *hosts, int n, const unsigned char *data) {
    uint32_t to;
    memcpy(&to, data + DESTINATION_AT, sizeof to);
    for (int i = 0; i < n; i++)
        if (hosts[i].address == to) return &hosts[i];
    return NULL;
}

// A packet of a host whose cable is free. False: it has none.
static bool take_packet(host *from, host *hosts, int n, int64_t latency_ns, double byte_ns, int64_t now) {
    unsigned char data[MTU];
    const ssize_t got = read(from->fd, data, sizeof data);
    if (got < 0 && errno != EAGAIN && errno != EINTR && errno != EIO) fail("a tunnel"); // EIO: it is down
    if (got < 20 || data[0] >> 4 != 4) return got > 0; // no IPv4: nobody here
    const int64_t long_ns = (int64_t)(byte_ns * (double)got);
    from->sends_ns = later(from->sends_ns, now) + long_ns;
    host *to = addressed(hosts, n, data);
    if (!to || to->waiting + (size_t)got > WAITING_MOST) return true;
    packet *p = malloc(sizeof *p + (size_t)got);
    if (!p) fail("a packet");
    p->next = NULL;
    p->bytes = (size_t)got;
    memcpy(p->data, data, p->bytes);
    to->takes_ns = later(to->takes_ns + long_ns, from->sends_ns + latency_ns);
    p->due_ns = to->takes_ns;
    *to->end = p;
    to->end = &p->next;
    to->waiting += p->bytes;
    return true;
}

static void give_due(host *to, int64_t now) {
    for (packet *p; (p = to->first) && p->due_ns <= now;) {
        // A tunnel that is down takes nothing: the packet is lost, as by a cable that was pulled.
        if (write(to->fd, p->data, p->bytes) < 0 && errno == EBADFD) fail("a tunnel");
        to->first = p->next;
        if (!to->first) to->end = &to->first;
        to->waiting -= p->bytes;
        free(p);
    }
}

// Gives what is due, takes what there is room for, sleeps until either may be so again.
static void turn(host *hosts, int n, int64_t latency_ns, double byte_ns) {
    struct pollfd p[HOSTS];
    int64_t now = now_ns(), next = now + SECOND_NS;
    for (int i = 0; i < n; i++) {
        give_due(&hosts[i], now);
        for (int k = 0; k < TURN && hosts[i].sends_ns <= now; k++)
            if (!take_packet(&hosts[i], hosts, n, latency_ns, byte_ns, now)) break;
    }
    for (int i = 0; i < n; i++) {
        const bool busy = hosts[i].sends_ns > now;
        p[i] = (struct pollfd){.fd = busy ? -1 : hosts[i].fd, .events = POLLIN};
        if (busy && hosts[i].sends_ns < next) next = hosts[i].sends_ns;
        if (hosts[i].first && hosts[i].first->due_ns < next) next = hosts[i].first->due_ns;
    }
    now = now_ns();
    if (next <= now) return;
    const struct timespec rest = {.tv_sec = (next - now) / SECOND_NS, .tv_nsec = (next - now) % SECOND_NS};
    if (ppoll(p, (nfds_t)n, &rest, NULL) < 0 && errno != EINTR) fail("ppoll");
}

int main(int argc, char **argv) {
    static const unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {0}};
    static const unit rates[] = {{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {0}};
    static host hosts[HOSTS];
    const int n = argc - 3;
    if (n < 2 || n > HOSTS) {
        fprintf(stderr, "relay LATENCY RATE NAMESPACE=ADDRESS...: 2 to %d hosts\n", HOSTS);
        return 2;
    }
    const int64_t latency_ns = (int64_t)number(argv[1], times);
    const double rate = strcmp(argv[2], "none") ? number(argv[2], rates) : 0;
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < n; i++) open_tunnel(&hosts[i], argv[3 + i]);
    if (home < 0 || setns(home, CLONE_NEWNET) != 0) fail("its own namespace");
    prctl(PR_SET_TIMERSLACK, 1000);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    puts("ready");
    fflush(stdout);
    for (;;) turn(hosts, n, latency_ns, rate > 0 ? 8e9 / rate : 0);
}
