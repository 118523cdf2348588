/*
 * An HTTP server on epoll that holds each client address to a limit, without ever blocking: a request
 * is submitted to Sluicegate, and its answer is one more thing that the loop waits for.
 *
 *     server [-a address] [-p port] [-u url] [-n name] [-l limit] [-t budget in ms] [-x trusted proxy]...
 *
 * GET /status, which is not limited, says how the limiter is. Any other GET is answered with 200, or
 * with 429 and problem details, and with the RateLimit fields in both cases.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <sluicegate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 10000, MOST_EVENTS = 256, IDLE_SECONDS = 30, MOST_PROXIES = 64, MOST_HOPS = 32 };

struct connection {
    int fd;
    uint32_t watched;
    bool waiting;  /* for a decision; one at a time */
    bool closing;  /* when all is sent */
    time_t active;
    size_t received, to_send, sent;
    char peer[INET6_ADDRSTRLEN];
    char client[SG_CLIENT_ADDRESS_KEY_SIZE]; /* of the request that is being answered */
    char in[8192];
    char out[8192];
};

static int epoll, listener;
static sg_limiter *limiter;
static sg_limit *limit;
static sg_queue *queue;
static sg_client_address *address_of;
static struct connection *connections[MOST_CONNECTIONS]; /* by descriptor */
static bool full;
static volatile sig_atomic_t stopping;

static void stop(int number) {
    (void)number;
    stopping = 1;
}

static _Noreturn void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(sg_result result, const char *what) {
    if (result != SG_OK) fail(what, sg_last_error_message());
}

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static void control(int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &event) != 0) fail("epoll", strerror(errno));
}

/* While there is no room, nobody new is looked at; they wait in the system's backlog. */
static void set_full(bool now_full) {
    if (full == now_full) return;
    full = now_full;
    control(EPOLL_CTL_MOD, listener, full ? 0 : EPOLLIN);
}

static void hang_up(struct connection *c) {
    /* So that no decision comes for who gets the descriptor next. */
    if (c->waiting) sg_queue_cancel(queue, (uint64_t)c->fd);
    connections[c->fd] = NULL;
    close(c->fd);
    free(c);
}

/* Has epoll say what the connection can go on with. */
static void watch(struct connection *c) {
    uint32_t events = c->to_send > 0 ? EPOLLOUT : c->waiting ? 0 : EPOLLIN;
    if (events == c->watched) return;
    c->watched = events;
    control(EPOLL_CTL_MOD, c->fd, events);
}

/* What is said is cut where there is no room for it. */
static void respond(struct connection *c, const char *status, const char *type, const char *fields, const char *body) {
    const int most = 3072, size = (int)strnlen(body, most);
    int length = snprintf(c->out, sizeof c->out,
                          "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s%s\r\n%.*s", status, type, size,
                          fields, c->closing ? "Connection: close\r\n" : "", size, body);
    c->to_send = (size_t)length;
    c->sent = 0;
}

static void respond_in_text(struct connection *c, const char *status, const char *body) {
    respond(c, status, "text/plain", "", body);
}

static void respond_with(struct connection *c, const sg_completion *done) {
    const sg_decision *d = &done->decision;
    char fields[3072], body[3072];
    size_t length;
    if (done->result != SG_OK) {
        respond_in_text(c, "500 Internal Server Error", done->message);
        return;
    }
    if (sg_http_headers(limit, d, 0, fields, sizeof fields - 64, &length) != SG_OK ||
        sg_http_problem(limit, d, body, sizeof body, NULL) != SG_OK) {
        respond_in_text(c, "500 Internal Server Error", sg_last_error_message());
        return;
    }
    snprintf(fields + length, sizeof fields - length, "X-Decided-By: %s\r\n", sg_source_name(d->source));
    if (!d->allowed) {
        respond(c, "429 Too Many Requests", SG_HTTP_PROBLEM_CONTENT_TYPE, fields, body);
    } else {
        snprintf(body, sizeof body, "hello %s\n", c->client);
        respond(c, "200 OK", "text/plain", fields, body);
    }
}

static void respond_with_status(struct connection *c) {
    sg_limiter_status status;
    char body[512];
    check(sg_status(limiter, &status), "status");
    snprintf(body, sizeof body, "%s since %lld, %lld processes; last error: %s\n", sg_store_state_name(status.state),
             (long long)(status.since_us / 1000000), (long long)status.processes, status.last_error);
    respond_in_text(c, "200 OK", body);
}

/* Finds out who asks. Proxies that are trusted say it in the head of the request; nobody else is heard. */
static const char *read_client(struct connection *c, char *head) {
    const char *name = sg_client_address_header(address_of), *values[MOST_HOPS];
    size_t count = 0, length = strlen(name);
    for (char *line = head, *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
        *end = '\0';
        if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
        if (count == MOST_HOPS) return "431 Request Header Fields Too Large";
        values[count++] = line + length + 1;
    }
    check(sg_client_address_key(address_of, c->peer, values, count, c->client, sizeof c->client, NULL), "client");
    return NULL;
}

/* Takes the next whole request out of what was received; `path` stays empty where there is none yet.
 * Returns the status for one that can't be answered. */
static const char *read_request(struct connection *c, char path[256]) {
    char *end = memmem(c->in, c->received, "\r\n\r\n", 4);
    int minor, read = 0;
    path[0] = '\0';
    if (end == NULL) return c->received < sizeof c->in ? NULL : "431 Request Header Fields Too Large";
    end[2] = '\0';
    if (strlen(c->in) != (size_t)(end + 2 - c->in)) return "400 Bad Request";
    if (sscanf(c->in, "%*[A-Z] %255s HTTP/1.%1d\r%n", path, &minor, &read) != 2 || read == 0) return "400 Bad Request";
    if (strncmp(c->in, "GET ", 4) != 0) return "405 Method Not Allowed";
    if (strcasestr(c->in, "\r\nContent-Length:") != NULL || strcasestr(c->in, "\r\nTransfer-Encoding:") != NULL) {
        return "413 Content Too Large";
    }
    c->closing = minor == 0 || strcasestr(c->in, "\r\nConnection: close\r\n") != NULL;
    const char *refused = read_client(c, c->in + read);
    c->received -= (size_t)(end + 4 - c->in);
    memmove(c->in, end + 4, c->received);
    return refused;
}

/* Answers the next request, or asks for the decision that its answer needs. */
static void next_request(struct connection *c) {
    char path[256];
    const char *refused = read_request(c, path);
    if (refused != NULL) {
        c->closing = true;
        respond_in_text(c, refused, "");
    } else if (strcmp(path, "/status") == 0) {
        respond_with_status(c);
    } else if (path[0] != '\0') {
        uint64_t tag = (uint64_t)c->fd;
        if (sg_submit_try_acquire(queue, limit, c->client, strlen(c->client), 1, tag) == SG_OK) c->waiting = true;
        else respond_in_text(c, "500 Internal Server Error", sg_last_error_message());
    }
}

/* Goes on as far as it can without waiting: sends, and answers what was received. */
static void advance(struct connection *c) {
    c->active = now();
    while (!c->waiting) {
        if (c->to_send == 0) next_request(c);
        if (c->to_send == 0) break;
        ssize_t count = send(c->fd, c->out + c->sent, c->to_send - c->sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) break;
        if (count >= 0) c->sent += (size_t)count;
        if (count >= 0 && c->sent < c->to_send) continue;
        if (count < 0 || c->closing) {
            hang_up(c);
            return;
        }
        c->to_send = 0;
    }
    watch(c);
}

static void receive(struct connection *c) {
    ssize_t count = recv(c->fd, c->in + c->received, sizeof c->in - c->received, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
        hang_up(c);
    } else {
        c->received += (size_t)count;
        advance(c);
    }
}

static void welcome(void) {
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c = fd >= 0 && fd < MOST_CONNECTIONS ? calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        if (fd >= 0) close(fd);
        set_full(fd >= 0 || errno == EMFILE || errno == ENFILE);
        return;
    }
    control(EPOLL_CTL_ADD, fd, EPOLLIN);
    c->fd = fd;
    c->watched = EPOLLIN;
    c->active = now();
    getnameinfo((struct sockaddr *)&from, length, c->peer, sizeof c->peer, NULL, 0, NI_NUMERICHOST);
    connections[fd] = c;
}

/* Answers those whose decisions have come. */
static void collect(void) {
    sg_completion done[64];
    size_t count = 0;
    check(sg_queue_collect(queue, done, 64, &count), "collect");
    for (size_t i = 0; i < count; i++) {
        struct connection *c = connections[done[i].tag];
        c->waiting = false;
        respond_with(c, &done[i]);
        advance(c);
    }
}

static void hang_up_on_idle(void) {
    time_t least = now() - IDLE_SECONDS;
    for (int fd = 0; fd < MOST_CONNECTIONS; fd++) {
        struct connection *c = connections[fd];
        if (c != NULL && !c->waiting && c->active < least) hang_up(c);
    }
}

static void listen_on(const char *address, const char *port) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    char host[INET6_ADDRSTRLEN], service[8];
    int error = getaddrinfo(address, port, &hints, &found), on = 1;
    if (error != 0) fail("address", gai_strerror(error));
    listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, found->ai_addr, found->ai_addrlen) != 0 || listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, (struct sockaddr *)&own, &length) != 0) {
        fail("listen", strerror(errno));
    }
    freeaddrinfo(found);
    getnameinfo((struct sockaddr *)&own, length, host, sizeof host, service, sizeof service,
                NI_NUMERICHOST | NI_NUMERICSERV);
    printf("listening on %s port %s\n", host, service);
    fflush(stdout);
}

static void serve(void) {
    struct epoll_event events[MOST_EVENTS];
    sigset_t none;
    time_t swept = now();
    sigemptyset(&none);
    while (!stopping) {
        /* Signals come in here and nowhere else, so none is missed. */
        int count = epoll_pwait(epoll, events, MOST_EVENTS, 1000, &none);
        if (count < 0 && errno != EINTR) fail("epoll", strerror(errno));
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                welcome();
            } else if (fd == sg_queue_fd(queue)) {
                collect();
            } else if (connections[fd] != NULL) {
                struct connection *c = connections[fd];
                if (events[i].events & EPOLLIN) receive(c);
                else if (events[i].events & EPOLLOUT) advance(c);
                else hang_up(c);
            }
        }
        if (now() > swept) {
            swept = now();
            hang_up_on_idle();
            set_full(false);
        }
    }
}

int main(int argc, char **argv) {
    const char *address = "127.0.0.1", *port = "8080", *url = "memory://", *name = "requests", *spec = "10/s burst 20";
    const char *proxies[MOST_PROXIES];
    size_t proxy_count = 0;
    sg_options options;
    sigset_t signals;
    check(sg_options_init(&options), "options");
    for (int option; (option = getopt(argc, argv, "a:p:u:n:l:t:x:")) != -1;) {
        if (option == 'a') address = optarg;
        else if (option == 'p') port = optarg;
        else if (option == 'u') url = optarg;
        else if (option == 'n') name = optarg;
        else if (option == 'l') spec = optarg;
        else if (option == 't') options.timeout_us = 1000 * strtoll(optarg, NULL, 10);
        else if (option == 'x' && proxy_count < MOST_PROXIES) proxies[proxy_count++] = optarg;
        else return 2;
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    check(sg_limiter_open(url, &options, &limiter), "limiter");
    check(sg_limit_open(limiter, name, spec, &limit), "limit");
    check(sg_queue_open(&queue), "queue");
    check(sg_client_address_new(proxies, proxy_count, NULL, -1, -1, &address_of), "proxies");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    listen_on(address, port);
    control(EPOLL_CTL_ADD, listener, EPOLLIN);
    control(EPOLL_CTL_ADD, sg_queue_fd(queue), EPOLLIN);
    serve();

    for (int fd = 0; fd < MOST_CONNECTIONS; fd++) {
        if (connections[fd] != NULL) hang_up(connections[fd]);
    }
    close(epoll);
    close(listener);
    sg_client_address_free(address_of);
    sg_queue_close(queue);
    sg_limit_close(limit);
    sg_limiter_close(limiter);
    return 0;
}
