/* http_server URL SPEC PORT: an HTTP server that holds all requests together to one limit; /health is
 * free. One connection at a time, one request each: no more of HTTP than the test speaks. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sluicegate.h>

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1, server = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0 || setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(server, (struct sockaddr *)&address, sizeof address) != 0 || listen(server, 128) != 0) {
        perror("listen");
        exit(1);
    }
    return server;
}

/* Reads a request's head; 0 where there is none. */
static int read_head(int client, char *head, size_t size) {
    size_t have = 0;

    head[0] = '\0';
    while (strstr(head, "\r\n\r\n") == NULL) {
        ssize_t got = have + 1 < size ? read(client, head + have, size - have - 1) : 0;
        if (got <= 0) return 0;
        have += (size_t)got;
        head[have] = '\0';
    }
    return 1;
}

static void respond(int client, const char *status, const char *fields, const char *type, const char *body) {
    char response[8192];
    int length = snprintf(response, sizeof response,
                          "HTTP/1.1 %s\r\n%sContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                          status, fields, type, strlen(body), body);

    for (int sent = 0; sent < length;) {
        ssize_t wrote = write(client, response + sent, (size_t)(length - sent));
        if (wrote <= 0) return;
        sent += (int)wrote;
    }
}

static void serve(sg_limit *limit, int client) {
    char head[8192], fields[2048], problem[2048];
    sg_decision decision;

    if (!read_head(client, head, sizeof head)) return;
    if (strncmp(head, "GET /health ", 12) == 0) {
        respond(client, "200 OK", "", "text/plain", "well");
    } else if (sg_try_acquire(limit, "everyone", 8, 1, &decision) != SG_OK ||
               sg_http_headers(limit, &decision, 0, fields, sizeof fields, NULL) != SG_OK ||
               sg_http_problem(limit, &decision, problem, sizeof problem, NULL) != SG_OK) {
        respond(client, "500 Internal Server Error", "", "text/plain", sg_last_error_message());
    } else if (decision.allowed) {
        respond(client, "200 OK", fields, "text/plain", "hello");
    } else {
        respond(client, "429 Too Many Requests", fields, SG_HTTP_PROBLEM_CONTENT_TYPE, problem);
    }
}

int main(int argc, char **argv) {
    sg_options options;
    sg_limiter *limiter;
    sg_limit *limit;

    if (argc != 4) return 2;
    signal(SIGPIPE, SIG_IGN);
    sg_options_init(&options);
    options.timeout_us = 10000000;
    if (sg_limiter_open(argv[1], &options, &limiter) != SG_OK ||
        sg_limit_open(limiter, "api", argv[2], &limit) != SG_OK) {
        fprintf(stderr, "%s\n", sg_last_error_message());
        return 1;
    }
    for (int server = listen_on(atoi(argv[3]));;) {
        int client = accept(server, NULL, NULL);
        if (client < 0) continue;
        serve(limit, client);
        close(client);
    }
}
